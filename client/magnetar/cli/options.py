"""The options of commands that reach a broker: where it is, and credentials."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar

import click

from magnetar.security.client_conf import CONF_VARIABLE, SettingsError, read_conf

C = TypeVar("C", bound=Callable[..., Any] | click.Command)

LOGIN: Final = (
    click.option("--client-conf", "conf_path", envvar=CONF_VARIABLE, metavar="FILE",
                 help="A client.conf: the address of the broker, authPlugin, authParams, tls..."),
    click.option("--tls-enable-hostname-verification/--tls-disable-hostname-verification",
                 "tls_hostname_verification", default=None,
                 help="Whether the certificate must name the host; enabled by default."),
    click.option("--tls-allow-insecure", is_flag=True, default=None,
                 help="Accept every certificate of the broker."),
    click.option("--tls-key-file", "tls_key_path", envvar="MAGNETAR_TLS_KEY_FILE", metavar="FILE",
                 help="The key of that certificate, as PEM."),
    click.option("--tls-cert-file", "tls_cert_path", envvar="MAGNETAR_TLS_CERT_FILE",
                 metavar="FILE", help="The certificate to show to the broker, as PEM."),
    click.option("--tls-trust-cert-path", "--tlsTrustCertsFilePath", "tls_trust_cert_path",
                 envvar="MAGNETAR_TLS_TRUST_CERT_PATH", metavar="FILE",
                 help="Certificates to trust, as PEM; default those of the system."),
    click.option("--auth-params", envvar="MAGNETAR_AUTH_PARAMS", metavar="TEXT",
                 help="What the plugin needs, such as token:TOKEN or file:///PATH."),
    click.option("--auth-plugin", envvar="MAGNETAR_AUTH_PLUGIN", metavar="NAME",
                 help="token, basic, tls, oauth2, or the class of Pulsar's."),
)  # fmt: skip
ADMIN_URL: Final = partial(click.option, "--admin-url", envvar="MAGNETAR_ADMIN_URL", metavar="URL")
"""The option for the address of the HTTP port."""


def login_options(command: C) -> C:
    """Give a command the options of `LOGIN`; their names are those of `settings_from`."""
    for option in LOGIN:
        command = option(command)
    return command


def asking(command: click.Command) -> click.Command:
    """Return a command of the broker, which receives `admin_url` and a function `ask`, as its
    `AskingCommand` says, with the options for them."""
    found = copy(command)
    found.params = list(command.params)
    login_options(found)
    ADMIN_URL(
        help="URL of the broker's HTTP port; also from the environment variable MAGNETAR_ADMIN_URL "
        "(not for doctor)."
    )(found)
    own = {param.name for param in command.params} | {"admin_url"}

    def call(**values: Any) -> Any:
        assert command.callback is not None
        login = {name: values.pop(name) for name in list(values) if name not in own}
        return command.callback(ask=partial(_ask, login), **values)

    found.callback = call
    return found


def _ask(
    login: dict[str, Any], url: str | None, path: str, method: str = "GET", timeout_s: float = 10.0
) -> Any:
    """Send a request, and return the JSON of the answer, or its text if it is not JSON."""
    from magnetar.admin.client import AdminClient, NoAnswer, Refused  # noqa: PLC0415 (heavy)
    from magnetar.admin.settings import settings_from  # noqa: PLC0415

    flags = dict(login)
    try:
        conf = read_conf(flags.pop("conf_path"))
        settings = settings_from(conf, url=url, timeout_s=timeout_s, **flags)
        with AdminClient(settings) as client:
            return client.ask(method, path).value
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    except Refused as error:
        text = f"{settings.url}: {error} (status {error.status})"
        raise click.ClickException(text) from error
    except NoAnswer as error:
        text = f"cannot reach the broker at {settings.url}: {error}"
        raise click.ClickException(text) from error
