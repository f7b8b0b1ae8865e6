"""The options for the address of a broker, and for credentials."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import click

from magnetar.admin.settings import DEFAULT_URL as DEFAULT_ADMIN_URL
from magnetar.admin.settings import AdminSettings
from magnetar.api import connect
from magnetar.base.base_errors import CredentialsError
from magnetar.client import Client
from magnetar.security.authentication import Authentication
from magnetar.security.client_conf import CONF_VARIABLE, SettingsError, flag_of, read_conf
from magnetar.security.credentials import authentication_of
from magnetar.security.tls import Tls

DEFAULT_URL: Final = "pulsar://localhost:6650"


@dataclass(frozen=True, slots=True)
class Target:
    """A broker, as given by the command line and `client.conf`."""

    url: str
    auth: Authentication | None
    tls: Tls
    timeout_s: float
    web_url: str = DEFAULT_ADMIN_URL
    """The address of the HTTP port in client.conf."""

    def connect(self) -> Client:
        """Create a client of the broker; ValueError if the options contradict each other."""
        return connect(
            self.url,
            auth=self.auth,
            tls=self.tls,
            # Shorter than the operation, so that the error says that the broker is silent.
            connect_timeout_s=self.timeout_s / 2,
            operation_timeout_s=self.timeout_s,
        )

    def admin(self, url: str | None, timeout_s: float) -> AdminSettings:
        """Return the settings for its admin API, at `url` if that is given."""
        url = url or self.web_url
        plain_http = self.auth is not None and self.auth.certificate and url.startswith("http:")
        return AdminSettings(
            url,
            timeout_s=timeout_s,
            tls_allow_insecure=self.tls.allow_insecure,
            tls_trust_cert_path=str(self.tls.trust_file or ""),
            tls_hostname_verification=self.tls.verify_hostname,
            tls_cert_path=str(self.tls.cert_file or ""),
            tls_key_path=str(self.tls.key_file or ""),
            auth=None if plain_http else self.auth,
        )


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which receives their values as `broker`, a `Target`."""

    @wraps(command)
    def with_target(**values: Any) -> None:
        given = {name: values.pop(name) for name in _NAMES}
        try:
            broker = _target(read_conf(values.pop("client_conf")), **given)
        except (SettingsError, CredentialsError) as error:
            raise click.UsageError(str(error)) from error
        command(broker=broker, **values)

    for option in _OPTIONS:
        with_target = option(with_target)
    return with_target


def _target(
    conf: dict[str, str],
    url: str | None,
    timeout_s: float,
    auth_plugin: str | None,
    auth_params: str | None,
    tls_trust_cert_path: str | None,
    tls_cert_file: str | None,
    tls_key_file: str | None,
    tls_allow_insecure: bool | None,
    tls_hostname_verification: bool | None,
) -> Target:
    """Return the broker: options take precedence over `client.conf`, and both over the defaults."""
    chosen = url or conf.get("brokerServiceUrl") or DEFAULT_URL
    if not url and flag_of(conf, "useTls", None, False):
        chosen = chosen.replace("pulsar://", "pulsar+ssl://", 1)
    return Target(
        chosen,
        authentication_of(
            auth_plugin or conf.get("authPlugin", ""), auth_params or conf.get("authParams", "")
        ),
        Tls(
            tls_trust_cert_path or conf.get("tlsTrustCertsFilePath") or None,
            tls_cert_file or conf.get("tlsCertificateFilePath") or None,
            tls_key_file or conf.get("tlsKeyFilePath") or None,
            verify_hostname=flag_of(
                conf, "tlsEnableHostnameVerification", tls_hostname_verification, True
            ),
            allow_insecure=flag_of(conf, "tlsAllowInsecureConnection", tls_allow_insecure, False),
        ),
        timeout_s,
        conf.get("webServiceUrl") or DEFAULT_ADMIN_URL,
    )


_OPTIONS: Final = (
    click.option("--client-conf", envvar=CONF_VARIABLE, metavar="FILE",
                 help="A client.conf: brokerServiceUrl, authPlugin, authParams, tls..."),
    click.option("--tls-enable-hostname-verification/--tls-disable-hostname-verification",
                 "tls_hostname_verification", default=None,
                 help="Whether the certificate must name the host; enabled by default."),
    click.option("--tls-allow-insecure", is_flag=True, default=None,
                 help="Accept every certificate of the broker."),
    click.option("--tls-key-file", envvar="MAGNETAR_TLS_KEY_FILE", metavar="FILE",
                 help="The key of that certificate, as PEM."),
    click.option("--tls-cert-file", envvar="MAGNETAR_TLS_CERT_FILE", metavar="FILE",
                 help="The certificate to show to the broker, as PEM."),
    click.option("--tls-trust-cert-path", "--tlsTrustCertsFilePath", "tls_trust_cert_path",
                 envvar="MAGNETAR_TLS_TRUST_CERT_PATH", metavar="FILE",
                 help="Certificates to trust, as PEM; default those of the system."),
    click.option("--auth-params", envvar="MAGNETAR_AUTH_PARAMS", metavar="TEXT",
                 help="What the plugin needs, such as token:TOKEN or file:///PATH."),
    click.option("--auth-plugin", envvar="MAGNETAR_AUTH_PLUGIN", metavar="NAME",
                 help="token, basic, tls, oauth2, or the class of Pulsar's."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=10.0,
                 show_default=True, help="Time limit of a request to the broker, in seconds."),
    click.option("--url", "-u", envvar="MAGNETAR_URL", metavar="URL",
                 help=f"Service URL; default {DEFAULT_URL}, or brokerServiceUrl of client.conf. "
                 "Also from the environment variable MAGNETAR_URL."),
)  # fmt: skip
_NAMES: Final = (
    "url", "timeout_s", "auth_plugin", "auth_params", "tls_trust_cert_path", "tls_cert_file",
    "tls_key_file", "tls_allow_insecure", "tls_hostname_verification",
)  # fmt: skip
