"""The keys of issuers of OpenID Connect, fetched from the URL in the issuer's document.

PyJWT's client of such keys is not used: it blocks its thread, and asks an issuer that does not
answer again for each token.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import jwt

from magnetar_broker.authentication.provider import InvalidCredentials
from magnetar_broker.authentication.token_keys import TokenKey, of_public

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the document at a URL; raises `OSError`, with a text that can be logged."""
Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""A function that runs a coroutine concurrently with all other work."""
ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "ES256", "ES384", "ES512"))
MAX_KEYS: Final = 100
"""The most keys that are kept of one issuer."""
RETRY_SECONDS: Final = 10.0
"""The seconds from a failed fetch to the next: anybody can send tokens that cause fetches."""

Keys = Mapping[str, TokenKey]
"""The keys by the ids that tokens name."""


class CacheRules(NamedTuple):
    """The limits of the cache of keys: issuers, ages, and whether https is required."""

    issuers: int = 5
    """The most issuers whose keys are kept."""
    refresh_seconds: float = 64800
    """The age from which keys are fetched again; if that fails, the known ones are used."""
    expire_seconds: float = 86400
    """The age from which keys are not used."""
    miss_seconds: float = 300
    """The age, in seconds, from which keys are fetched again because one is missing."""
    requires_https: bool = True


class _Cached:
    """The keys of one issuer."""

    def __init__(self) -> None:
        self.keys: Keys = {}
        self.fetched_at: float | None = None
        self.failed_at: float | None = None
        self.is_renewing = False
        """Whether the keys are being fetched while the former ones stay in use."""

    def age(self, now: float) -> float:
        """Return the seconds since the keys were fetched."""
        return float("inf") if self.fetched_at is None else now - self.fetched_at


class IssuerKeys:
    """Fetches the keys of issuers and keeps them."""

    def __init__(
        self, fetch: Fetch, rules: CacheRules, now: Callable[[], float], spawn: Spawn
    ) -> None:
        self._fetch = fetch
        self._spawn = spawn
        self._rules = rules
        self._now = now
        self._cached: OrderedDict[str, _Cached] = OrderedDict()

    async def find(self, issuer: str, key_id: str) -> TokenKey:
        """Return the key with this id.

        Raises `InvalidCredentials` if the issuer has none, or cannot be reached.
        """
        cached = self._cached.setdefault(issuer, _Cached())
        self._cached.move_to_end(issuer)
        while len(self._cached) > self._rules.issuers:
            self._cached.popitem(last=False)
        age = cached.age(self._now())
        if key_id in cached.keys and age < self._rules.expire_seconds:
            # An issuer that does not answer delays nobody whose key is known.
            if age >= self._rules.refresh_seconds and not cached.is_renewing:
                self._spawn(self._renew_beside(cached, issuer))
            return cached.keys[key_id]
        # promise[always]: made-up keys do not have the issuer asked each time
        if age >= min(self._rules.refresh_seconds, self._rules.miss_seconds):
            await self._renew(cached, issuer)
        # promise[without cached.age(self._now()) >= self._rules.expire_seconds or]: keys expire
        if cached.age(self._now()) >= self._rules.expire_seconds or key_id not in cached.keys:
            raise InvalidCredentials(
                "its issuer has no key with the id in its header", "INVALID_PUBLIC_KEY"
            )
        return cached.keys[key_id]

    async def _renew_beside(self, cached: _Cached, issuer: str) -> None:
        """Fetch the keys of an issuer while the known ones stay in use."""
        cached.is_renewing = True
        try:
            with suppress(InvalidCredentials):
                await self._renew(cached, issuer)
        finally:
            cached.is_renewing = False

    async def _renew(self, cached: _Cached, issuer: str) -> None:
        """Fetch the keys; if that fails, the known ones stay until they expire."""
        now = self._now()
        if cached.failed_at is not None and now - cached.failed_at < RETRY_SECONDS:
            return
        try:
            cached.keys = await self._fetched(issuer)
        except (OSError, ValueError) as error:
            cached.failed_at = self._now()
            if cached.age(now) >= self._rules.expire_seconds:
                raise InvalidCredentials(
                    f"the keys of {issuer} cannot be fetched: {error}",
                    "ERROR_RETRIEVING_PUBLIC_KEY",
                ) from error
        else:
            cached.fetched_at, cached.failed_at = self._now(), None

    async def _fetched(self, issuer: str) -> Keys:
        document = _object(
            await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        )
        if document.get("issuer") != issuer:  # promise: a document is of its issuer only
            raise ValueError("its document is that of another issuer")
        uri = document.get("jwks_uri")
        schemes = ("https://",) if self._rules.requires_https else ("https://", "http://")
        if not isinstance(uri, str) or not uri.startswith(schemes):
            raise ValueError(f"its document has no jwks_uri with {' or '.join(schemes)}")
        return keys_of(await self._fetch(uri))


def keys_of(content: bytes) -> Keys:
    """Return the keys of a JSON Web Key Set that can verify tokens; others are left out."""
    found = _object(content).get("keys")
    if not isinstance(found, list):
        raise ValueError("its keys are not a JSON Web Key Set")
    keys = {}
    for one in found[:MAX_KEYS]:
        key = _key_of(one)
        if key is not None:
            keys[one["kid"]] = key
    return keys


def _key_of(one: Any) -> TokenKey | None:
    if not isinstance(one, dict) or not isinstance(one.get("kid"), str):
        return None
    if one.get("use", "sig") != "sig" or one.get("kty") not in ("RSA", "EC"):
        return None
    try:
        key = of_public(jwt.PyJWK.from_dict(one).key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    algorithms = [name for name in key.algorithms if name in ALGORITHMS]
    if "alg" in one:
        algorithms = [name for name in algorithms if name == one["alg"]]
    return TokenKey(key.key, tuple(algorithms)) if algorithms else None


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object as the answer")
    return found
