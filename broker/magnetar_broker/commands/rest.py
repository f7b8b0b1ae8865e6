"""Requests of commands to the REST API of a broker, sent as `magnetar admin` sends them."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import click

CONF_VARIABLE: Final = "PULSAR_CLIENT_CONF"

Login = Mapping[str, str | None]
"""The values of the options that `login_options` adds, by name."""
NO_LOGIN: Final[Login] = {}


class RestError(Exception):
    """A request failed; the text has the reason and the remedy."""


def login_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for the address of the broker and for credentials.

    The command receives them as `admin_url`, None if it is not given, and `login`.
    """

    @wraps(command)
    def with_login(**values: Any) -> None:
        command(login={name: values.pop(name) for name in _NAMES}, **values)

    for option in _OPTIONS:
        with_login = option(with_login)
    return with_login


_OPTIONS: Final = (
    click.option("--client-conf", "conf_path", envvar=CONF_VARIABLE, metavar="FILE",
                 help="A client.conf: webServiceUrl, authPlugin, authParams, tls..."),
    click.option("--tls-key-file", "tls_key_path", envvar="MAGNETAR_TLS_KEY_FILE", metavar="FILE",
                 help="The key of that certificate, as PEM."),
    click.option("--tls-cert-file", "tls_cert_path", envvar="MAGNETAR_TLS_CERT_FILE",
                 metavar="FILE", help="The certificate to show to the broker, as PEM."),
    click.option("--tls-trust-cert-path", envvar="MAGNETAR_TLS_TRUST_CERT_PATH", metavar="FILE",
                 help="Certificates to trust, as PEM; default those of the system."),
    click.option("--auth-params", envvar="MAGNETAR_AUTH_PARAMS", metavar="TEXT",
                 help="What the plugin needs, such as token:TOKEN or file:///PATH."),
    click.option("--auth-plugin", envvar="MAGNETAR_AUTH_PLUGIN", metavar="NAME",
                 help="token, basic, tls, oauth2, or the class of Pulsar's."),
    click.option("--admin-url", envvar="MAGNETAR_ADMIN_URL", metavar="URL",
                 help="URL of the broker's HTTP port; also from the environment variable "
                 "MAGNETAR_ADMIN_URL (not for doctor)."),
)  # fmt: skip
_NAMES: Final = (
    "conf_path", "tls_key_path", "tls_cert_path", "tls_trust_cert_path", "auth_params",
    "auth_plugin",
)  # fmt: skip


def ask(
    url: str | None,
    path: str,
    method: str = "GET",
    timeout_s: float = 10.0,
    login: Login = NO_LOGIN,
) -> Any:
    """Return the JSON of the broker's answer, or its text if it is not JSON; `RestError` otherwise.

    Without a URL, the broker of client.conf is asked, or the one of this machine.
    """
    # The client of `magnetar admin` is used, so that there is one way to log in, with its options.
    from magnetar.admin.client import AdminClient, NoAnswer, Refused  # noqa: PLC0415 (heavy)
    from magnetar.admin.settings import settings_from  # noqa: PLC0415
    from magnetar.security.client_conf import SettingsError, read_conf  # noqa: PLC0415

    flags: dict[str, Any] = dict(login)
    try:
        conf = read_conf(flags.pop("conf_path", None))
        settings = settings_from(conf, url=url, timeout_s=timeout_s, **flags)
        with AdminClient(settings) as client:
            return client.ask(method, path).value
    except SettingsError as error:
        raise RestError(str(error)) from error
    except Refused as error:
        raise RestError(f"{settings.url}: {error} (status {error.status})") from error
    except NoAnswer as error:
        raise RestError(f"cannot reach the broker at {settings.url}: {error}") from error
