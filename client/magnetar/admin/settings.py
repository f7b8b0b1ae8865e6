"""The settings for reaching a broker's admin API: from flags, the environment and `client.conf`."""

from dataclasses import dataclass, field
from typing import Final

from magnetar.base.base_errors import CredentialsError
from magnetar.security.authentication import Authentication
from magnetar.security.client_conf import SettingsError, flag_of
from magnetar.security.credentials import authentication_of as _of_plugin

DEFAULT_URL: Final = "http://localhost:8080"
DEFAULT_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """The address of the admin API, and the credentials for it."""

    url: str = DEFAULT_URL
    """The address; several hosts are separated by commas: `http://one:8080,two:8080`."""
    auth_plugin: str = ""
    auth_params: str = field(default="", repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    tls_allow_insecure: bool = False
    tls_trust_cert_path: str = ""
    tls_hostname_verification: bool = True
    tls_cert_path: str = ""
    tls_key_path: str = ""
    auth: Authentication | None = None
    """An authentication of `magnetar.auth`, in place of plugin and parameters."""


def settings_from(
    conf: dict[str, str],
    url: str | None = None,
    auth_plugin: str | None = None,
    auth_params: str | None = None,
    timeout_s: float | None = None,
    tls_allow_insecure: bool | None = None,
    tls_trust_cert_path: str | None = None,
    tls_hostname_verification: bool | None = None,
    tls_cert_path: str | None = None,
    tls_key_path: str | None = None,
) -> AdminSettings:
    """Return the settings: flags take precedence over `client.conf`, and both over the defaults."""
    # promise[True -> False]: the host in a certificate is checked unless told otherwise
    return AdminSettings(
        url=url or conf.get("webServiceUrl") or conf.get("serviceUrl") or DEFAULT_URL,
        auth_plugin=auth_plugin or conf.get("authPlugin", ""),
        auth_params=auth_params or conf.get("authParams", ""),
        timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
        tls_allow_insecure=flag_of(conf, "tlsAllowInsecureConnection", tls_allow_insecure, False),
        tls_trust_cert_path=tls_trust_cert_path or conf.get("tlsTrustCertsFilePath", ""),
        tls_hostname_verification=flag_of(
            conf, "tlsEnableHostnameVerification", tls_hostname_verification, True
        ),
        tls_cert_path=tls_cert_path or conf.get("tlsCertificateFilePath", ""),
        tls_key_path=tls_key_path or conf.get("tlsKeyFilePath", ""),
    )


def authentication_of(settings: AdminSettings) -> Authentication | None:
    """Return the client's authentication; SettingsError if plugin or parameters are not known."""
    if settings.auth is not None:
        return settings.auth
    try:
        found = _of_plugin(settings.auth_plugin, settings.auth_params)
    except CredentialsError as error:
        raise SettingsError(str(error)) from None
    if found is not None and found.certificate and not settings.url.startswith("https:"):
        raise SettingsError(
            f"--auth-plugin tls needs https://, and the address is {settings.url}: a certificate "
            "is shown by TLS only"
        )
    return found
