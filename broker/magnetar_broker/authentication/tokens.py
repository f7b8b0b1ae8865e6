"""JSON Web Tokens: the provider of the method `token`."""

from collections.abc import Callable, Mapping
from math import isnan
from typing import Any, Final, NamedTuple

import jwt
from jwt.types import Options

from magnetar_broker.authentication.identity import Identity
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials, bearer_of
from magnetar_broker.authentication.token_keys import TokenKey

INVALID: Final = "INVALID_TOKEN"
FAR: Final = 1 << 53
"""A time, in seconds, later than any that is valid."""
_UNCHECKED: Final[Options] = {
    "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False,
    "verify_iss": False, "verify_sub": False, "verify_jti": False,
}  # fmt: skip
"""The checks that the library leaves to us: times by a given clock, and claims of any type."""
_LIBRARY: Final = jwt.PyJWT()

Now = Callable[[], float]
"""Returns the seconds since 1970."""


class TokenRules(NamedTuple):
    """The requirements on the claims of a token."""

    role_claim: str = "sub"
    audience_claim: str = ""
    audiences: frozenset[str] = frozenset()
    """The accepted audiences: the claim, if it is configured, must have at least one of them."""
    skew_seconds: float = 0


class Tokens:
    """Proves roles by tokens that one key has signed."""

    name = "AuthenticationProviderToken"
    method = "token"

    def __init__(self, key: TokenKey, rules: TokenRules, now: Now) -> None:
        self._key = key
        self._rules = rules
        self._now = now

    def data_of(self, headers: Mapping[str, str]) -> bytes:
        """Return the bearer token."""
        return bearer_of(headers)

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the role that the token names."""
        if not credentials.data.strip():
            raise InvalidCredentials("there is no token", "INVALID_AUTH_DATA")
        claims = verified(credentials.data, self._key)
        return identity_of(claims, self._rules, self.method, self._now())


def verified(token: bytes, key: TokenKey) -> Mapping[str, Any]:
    """Return the claims of a token that the key has signed."""
    try:
        # promise[_UNCHECKED -> {**_UNCHECKED, "verify_signature": False}]: a token is believed only
        #   with its signature
        claims = _LIBRARY.decode(
            token, key.key, algorithms=list(key.algorithms), options=_UNCHECKED
        )
    except jwt.InvalidAlgorithmError:
        raise InvalidCredentials("its algorithm does not fit the key", INVALID) from None
    except jwt.InvalidSignatureError:
        raise InvalidCredentials("its signature is not that of the key", INVALID) from None
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError):
        # Leave out the text of the library, which may have parts of the token.
        raise InvalidCredentials("expected a signed JSON Web Token", INVALID) from None
    return claims


def identity_of(claims: Mapping[str, Any], rules: TokenRules, method: str, now: float) -> Identity:
    """Return the identity of a verified token.

    Raises `InvalidCredentials` if its claims break the rules.
    """
    expires_at = _time(claims, "exp")
    if expires_at is not None and now - rules.skew_seconds > expires_at:  # promise: a token expires
        raise InvalidCredentials("it has expired", INVALID)
    begins_at = _time(claims, "nbf")
    # promise: a token is not valid before its time
    if begins_at is not None and now + rules.skew_seconds < begins_at:
        raise InvalidCredentials("it is not valid yet", INVALID)
    if rules.audience_claim and rules.audiences.isdisjoint(_texts(claims, rules.audience_claim)):
        raise InvalidCredentials("it is meant for another audience", "INVALID_AUDIENCES")
    found = claims.get(rules.role_claim)
    role = found[0] if isinstance(found, list) and found else found
    if not isinstance(role, str) or not role.strip():
        raise InvalidCredentials(f"its claim {rules.role_claim} has no role", INVALID)
    # The skew holds as long as the connection does, too.
    ends_at = None if expires_at is None else expires_at + rules.skew_seconds
    return Identity(role, method, ends_at)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """Return the time in a claim, in seconds since the epoch; None if the claim is absent."""
    found = claims.get(name)
    if found is None:
        return None
    # Python reads NaN in JSON, which is neither before nor after anything.
    # promise[without or isnan(found)]: a time must be comparable
    if isinstance(found, bool) or not isinstance(found, int | float) or isnan(found):
        raise InvalidCredentials(f"its claim {name} is not a number of seconds", INVALID)
    return float(max(-FAR, min(FAR, found)))


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts in a claim, which is a text or a list of texts."""
    found = claims.get(name)
    if isinstance(found, str):
        return [found]
    if isinstance(found, list):
        return [item for item in found if isinstance(item, str)]
    raise InvalidCredentials(f"it has no claim {name}", "INVALID_AUDIENCES")
