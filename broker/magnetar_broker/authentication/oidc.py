"""Tokens of OpenID Connect: a second provider of the method `token`."""

from collections.abc import Mapping

import jwt

from magnetar_broker.authentication.identity import Identity
from magnetar_broker.authentication.issuer_keys import ALGORITHMS, IssuerKeys
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials, bearer_of
from magnetar_broker.authentication.tokens import Now, TokenRules, identity_of, verified


class OpenIdTokens:
    """Proves roles by tokens of issuers that publish their keys."""

    name = "AuthenticationProviderOpenID"
    method = "token"

    def __init__(
        self, issuers: frozenset[str], keys: IssuerKeys, rules: TokenRules, now: Now
    ) -> None:
        self._issuers = issuers
        self._keys = keys
        self._rules = rules
        self._now = now

    def data_of(self, headers: Mapping[str, str]) -> bytes:
        """Return the bearer token."""
        return bearer_of(headers)

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the role that the token names."""
        issuer, key_id = self._source_of(credentials.data)
        claims = verified(credentials.data, await self._keys.find(issuer, key_id))
        if claims.get("iss") != issuer:
            raise InvalidCredentials(
                "it has two different issuers: request a new token", "ISSUER_MISMATCH"
            )
        if claims.get("exp") is None:  # promise: a token of an issuer must expire
            raise InvalidCredentials("it has no time at which it expires", "ERROR_VERIFYING_JWT")
        return identity_of(claims, self._rules, self.method, self._now())

    def _source_of(self, token: bytes) -> tuple[str, str]:
        """Return the issuer and the key id that a token names, before it is verified."""
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError):
            raise InvalidCredentials("expected a JSON Web Token", "ERROR_DECODING_JWT") from None
        header, claims = unverified["header"], unverified["payload"]
        issuer, key_id = claims.get("iss"), header.get("kid")
        # promise[without or issuer not in self._issuers]: only listed issuers are accepted
        if not isinstance(issuer, str) or issuer not in self._issuers:
            raise InvalidCredentials(
                "its issuer is not among the allowed ones", "UNSUPPORTED_ISSUER"
            )
        if header.get("alg") not in ALGORITHMS:
            raise InvalidCredentials(
                "its algorithm is not among the allowed ones", "UNSUPPORTED_ALGORITHM"
            )
        if not isinstance(key_id, str):
            raise InvalidCredentials("it names no key", "INVALID_PUBLIC_KEY")
        return issuer, key_id
