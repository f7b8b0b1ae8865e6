"""Credentials as text: the plugins and parameters of pulsar-admin and pulsar-client."""

import json
import os
from typing import Final

from magnetar.base.base_errors import CredentialsError
from magnetar.security.authentication import Authentication, Basic, Certificate, Token

_JAVA: Final = "org.apache.pulsar.client.impl.auth"
PLUGINS: Final = {
    f"{_JAVA}.AuthenticationToken": "token",
    f"{_JAVA}.AuthenticationBasic": "basic",
    f"{_JAVA}.AuthenticationTls": "tls",
    f"{_JAVA}.oauth2.AuthenticationOAuth2": "oauth2",
    f"{_JAVA}.AuthenticationDisabled": "none",
}
"""The short name of each authentication plugin, by its Java class."""


def authentication_of(plugin: str, parameters: str) -> Authentication | None:
    """Return the authentication that a plugin and its parameters describe; None for none.

    Raises CredentialsError with the reason, which does not contain the parameters.
    """
    match PLUGINS.get(plugin, plugin):
        case "" | "none":
            if parameters:
                raise CredentialsError("--auth-params needs --auth-plugin: give both")
            return None
        case "token":
            return _token(parameters)
        case "basic":
            return _basic(_pairs(parameters))
        case "tls":
            pairs = _pairs(parameters)
            if not {"tlsCertFile", "tlsKeyFile"} <= pairs.keys():
                raise CredentialsError("--auth-params: expected tlsCertFile:PATH,tlsKeyFile:PATH")
            return Certificate(pairs["tlsCertFile"], pairs["tlsKeyFile"])
        case "oauth2":
            return _oauth2(_pairs(parameters))
    known = ", ".join([*dict.fromkeys(PLUGINS.values()), *PLUGINS])
    raise CredentialsError(f"--auth-plugin {plugin} is not known: expected {known}")


def _token(parameters: str) -> Token:
    """Parse a token by itself, `token:...`, `file:///path`, `env:NAME` or a JSON object."""
    text = parameters.strip()
    if text.startswith("{"):
        text = _pairs(text).get("token", "")
    if text.startswith("env:"):
        text = os.environ.get(text.removeprefix("env:"), "")
    try:
        return Token(text)
    except CredentialsError:
        raise CredentialsError(
            "--auth-params has no token: expected token:TOKEN, file:///PATH or env:NAME"
        ) from None


def _basic(pairs: dict[str, str]) -> Basic:
    user = pairs.get("userId", pairs.get("username", ""))
    if not user or "password" not in pairs:
        raise CredentialsError('--auth-params: expected {"userId": "...", "password": "..."}')
    return Basic(user, pairs["password"])


def _oauth2(pairs: dict[str, str]) -> Authentication:
    from magnetar.security.oauth2 import OAuth2  # noqa: PLC0415 (a client of HTTP)

    if pairs.get("type", "client_credentials") != "client_credentials":
        raise CredentialsError("--auth-params: the only type of OAuth 2.0 is client_credentials")
    if "issuerUrl" not in pairs or "privateKey" not in pairs:
        raise CredentialsError(
            '--auth-params: expected {"issuerUrl": "https://...", "privateKey": "file:///...", '
            '"audience": "..."}'
        )
    return OAuth2(
        pairs["issuerUrl"],
        pairs["privateKey"],
        audience=pairs.get("audience"),
        scope=pairs.get("scope"),
        trust_file=pairs.get("trustCertsFilePath"),
    )


def _pairs(text: str) -> dict[str, str]:
    """Parse `{"key": "value"}` or `key:value,key:value`."""
    if text.strip().startswith("{"):
        try:
            return {str(key): str(value) for key, value in json.loads(text).items()}
        except ValueError:
            raise CredentialsError("--auth-params begins with { and is not JSON") from None
    pairs = (part.partition(":") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}
