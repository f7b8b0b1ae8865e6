"""The authentication classes of the official client."""

import json
from collections.abc import Callable
from typing import Any

from magnetar import auth
from magnetar.compat.checks import check
from magnetar.compat.exceptions import translated, unsupported


class Authentication:
    """The base class of all authentications; libraries of the official client cannot be loaded."""

    auth: auth.Authentication

    def __init__(self, dynamicLibPath: str, authParamsString: str) -> None:
        raise unsupported(
            f"Authentication({dynamicLibPath!r})",
            "a library of the official client cannot be loaded; use AuthenticationToken, "
            "AuthenticationBasic, AuthenticationTLS or AuthenticationOauth2",
        )


class AuthenticationTLS(Authentication):
    """A client certificate, sent in the TLS handshake."""

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        check(str, certificate_path, "certificate_path")
        check(str, private_key_path, "private_key_path")
        self.auth = auth.Certificate(certificate_path, private_key_path)


class AuthenticationToken(Authentication):
    """Authenticates with a token, or with a function that returns a token for each connection."""

    @translated
    def __init__(self, token: str | Callable[[], str]) -> None:
        if not (isinstance(token, str) or callable(token)):
            raise ValueError(f"token: expected a str or a function, got {type(token).__name__}")
        self.auth = auth.Token(token)


class AuthenticationAthenz(Authentication):
    """Athenz, which is not supported: raises an error."""

    def __init__(self, auth_params_string: str) -> None:
        raise unsupported("AuthenticationAthenz", "use AuthenticationToken or AuthenticationOauth2")


class AuthenticationOauth2(Authentication):
    """Tokens of an OAuth 2.0 issuer, by the flow of client credentials."""

    @translated
    def __init__(self, auth_params_string: str) -> None:
        check(str, auth_params_string, "auth_params_string")
        given = _parameters(auth_params_string)
        unknown = given.keys() - {
            "type", "issuer_url", "private_key", "client_id", "client_secret", "audience", "scope",
        }  # fmt: skip
        if unknown or given.get("type", "client_credentials") != "client_credentials":
            raise unsupported(
                f"AuthenticationOauth2 with {', '.join(sorted(unknown)) or 'this type'}",
                "known are issuer_url, private_key, client_id, client_secret, audience and scope",
            )
        if "issuer_url" not in given:
            raise ValueError("auth_params_string must have issuer_url")
        self.auth = auth.OAuth2(
            given["issuer_url"],
            given.get("private_key"),
            client_id=given.get("client_id"),
            client_secret=given.get("client_secret"),
            audience=given.get("audience"),
            scope=given.get("scope"),
        )


class AuthenticationBasic(Authentication):
    """A user name and a password."""

    @translated
    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        if auth_params_string is not None:
            check(str, auth_params_string, "auth_params_string")
            given = _parameters(auth_params_string)
            username, password = given.get("username"), given.get("password")
            method = given.get("method", "basic")
        check(str, username, "username")
        check(str, password, "password")
        check(str, method, "method")
        if method != "basic":
            raise unsupported(f"AuthenticationBasic(method={method!r})", "leave method out")
        self.auth = auth.Basic(username or "", password or "")


def _parameters(text: str) -> dict[str, Any]:
    """Parse the JSON parameters; the error does not contain the text, which may hold secrets."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("auth_params_string must be a JSON object")
    return found
