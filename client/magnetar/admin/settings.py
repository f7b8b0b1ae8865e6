"""How to reach a broker's admin API: from flags, the environment and `client.conf`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DEFAULT_URL: Final = "http://localhost:8080"
DEFAULT_TIMEOUT_S: Final = 300.0
CONF_VARIABLE: Final = "PULSAR_CLIENT_CONF"
PLUGINS: Final = {
    "org.apache.pulsar.client.impl.auth.AuthenticationToken": "token",
    "org.apache.pulsar.client.impl.auth.AuthenticationBasic": "basic",
    "org.apache.pulsar.client.impl.auth.AuthenticationTls": "tls",
    "org.apache.pulsar.client.impl.auth.AuthenticationDisabled": "none",
}


class SettingsError(ValueError):
    """A setting that cannot be used; the message says what to give instead."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Where the admin API is, and how to log in there."""

    url: str = DEFAULT_URL
    """Several hosts are separated by commas: `http://one:8080,two:8080`."""
    auth_plugin: str = ""
    auth_params: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    tls_allow_insecure: bool = False
    tls_trust_cert_path: str = ""
    tls_hostname_verification: bool = True
    tls_cert_path: str = ""
    tls_key_path: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """What a request carries to be authenticated."""

    headers: dict[str, str]
    cert_path: str = ""
    key_path: str = ""


def settings_from(
    conf: dict[str, str],
    url: str | None = None,
    auth_plugin: str | None = None,
    auth_params: str | None = None,
    timeout_s: float | None = None,
    tls_allow_insecure: bool | None = None,
    tls_trust_cert_path: str | None = None,
    tls_hostname_verification: bool | None = None,
) -> AdminSettings:
    """Flags win over the lines of `client.conf`, those over the defaults."""

    def flag(given: bool | None, key: str, default: bool) -> bool:
        return given if given is not None else conf.get(key, str(default)).lower() == "true"

    return AdminSettings(
        url=url or conf.get("webServiceUrl") or conf.get("serviceUrl") or DEFAULT_URL,
        auth_plugin=auth_plugin or conf.get("authPlugin", ""),
        auth_params=auth_params or conf.get("authParams", ""),
        timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
        tls_allow_insecure=flag(tls_allow_insecure, "tlsAllowInsecureConnection", False),
        tls_trust_cert_path=tls_trust_cert_path or conf.get("tlsTrustCertsFilePath", ""),
        tls_hostname_verification=flag(
            tls_hostname_verification, "tlsEnableHostnameVerification", True
        ),
        tls_cert_path=conf.get("tlsCertificateFilePath", ""),
        tls_key_path=conf.get("tlsKeyFilePath", ""),
    )


def read_conf(path: str | None) -> dict[str, str]:
    """The lines `key=value` of a file; without a path, of the file that the environment names."""
    path = path or os.environ.get(CONF_VARIABLE)
    if not path:
        return {}
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    found = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    return found


def login_of(settings: AdminSettings) -> Login:
    """What the authentication plugin adds to requests; SettingsError if it is not known."""
    plugin = PLUGINS.get(settings.auth_plugin, settings.auth_plugin)
    if plugin == "token":
        return Login({"Authorization": f"Bearer {_token(settings.auth_params)}"})
    if plugin == "basic":
        return Login({"Authorization": f"Basic {_basic(settings.auth_params)}"})
    if plugin == "tls":
        pairs = _pairs(settings.auth_params)
        if not {"tlsCertFile", "tlsKeyFile"} <= pairs.keys():
            raise SettingsError("--auth-params: expected tlsCertFile:PATH,tlsKeyFile:PATH")
        return Login({}, pairs["tlsCertFile"], pairs["tlsKeyFile"])
    if plugin in ("", "none"):
        return Login({}, settings.tls_cert_path, settings.tls_key_path)
    known = ", ".join([*PLUGINS.values(), *PLUGINS])
    raise SettingsError(f"--auth-plugin {settings.auth_plugin} is not known: expected {known}")


def _token(parameters: str) -> str:
    """A token by itself, or as `token:...`, `file:///path`, `env:NAME` or a JSON object."""
    text = parameters.strip()
    if text.startswith("{"):
        text = _pairs(text).get("token", "")
    if text.startswith("file:"):
        path = unquote(urlsplit(text).path)
        try:
            text = Path(path).read_text().strip()
        except OSError as error:
            raise SettingsError(f"the token file {path}: {error.strerror}") from None
    elif text.startswith("env:"):
        text = os.environ.get(text.removeprefix("env:"), "")
    token = text.removeprefix("token:").strip()
    if not token or not token.isascii() or any(char.isspace() for char in token):
        raise SettingsError("--auth-params has no token: expected token:TOKEN or file:///PATH")
    return token


def _basic(parameters: str) -> str:
    from base64 import b64encode  # noqa: PLC0415

    pairs = _pairs(parameters)
    if not {"userId", "password"} <= pairs.keys():
        raise SettingsError('--auth-params: expected {"userId": "...", "password": "..."}')
    return b64encode(f"{pairs['userId']}:{pairs['password']}".encode()).decode()


def _pairs(text: str) -> dict[str, str]:
    """`{"key": "value"}` or `key:value,key:value`."""
    if text.strip().startswith("{"):
        try:
            return {str(key): str(value) for key, value in json.loads(text).items()}
        except ValueError:
            raise SettingsError("--auth-params begins with { and is not JSON") from None
    pairs = (part.partition(":") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}
