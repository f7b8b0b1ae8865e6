"""The broker that a command connects to, by its options and `client.conf`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, Final

import click

from magnetar.admin.client import tls_of
from magnetar.admin.settings import DEFAULT_URL as DEFAULT_ADMIN_URL
from magnetar.admin.settings import AdminSettings, settings_from
from magnetar.api import connect
from magnetar.base.base_errors import CredentialsError
from magnetar.cli.options import login_options
from magnetar.client import Client
from magnetar.security.authentication import Authentication
from magnetar.security.client_conf import SettingsError, flag_of, read_conf
from magnetar.security.credentials import authentication_of

DEFAULT_URL: Final = "pulsar://localhost:6650"


@dataclass(frozen=True, slots=True)
class Target:
    """A broker, as given by the command line and `client.conf`."""

    url: str
    auth: Authentication | None
    settings: AdminSettings
    """The settings for its HTTP port in client.conf; both ports have the credentials and TLS."""

    def connect(self) -> Client:
        """Create a client of the broker; ValueError if the options contradict each other."""
        return connect(
            self.url,
            auth=self.auth,
            tls=tls_of(self.settings),
            # Shorter than the operation, so that the error says that the broker is silent.
            connect_timeout_s=self.settings.timeout_s / 2,
            operation_timeout_s=self.settings.timeout_s,
        )

    def admin(self, url: str | None, timeout_s: float) -> AdminSettings:
        """Return the settings for the target's admin API, at `url` if that is given."""
        url = url or self.settings.url
        plain_http = self.auth is not None and self.auth.certificate and url.startswith("http:")
        return replace(
            self.settings,
            url=url,
            timeout_s=timeout_s,
            auth_plugin="",
            auth_params="",
            auth=None if plain_http else self.auth,
        )


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which receives their values as `broker`, a `Target`."""

    @wraps(command)
    def with_target(**values: Any) -> None:
        given = {name: values.pop(name) for name in _NAMES}
        try:
            broker = _target(read_conf(values.pop("conf_path")), values.pop("url"), given)
        except (SettingsError, CredentialsError) as error:
            raise click.UsageError(str(error)) from error
        command(broker=broker, **values)

    for option in _OPTIONS:
        with_target = option(with_target)
    return with_target


def _target(conf: dict[str, str], url: str | None, given: dict[str, Any]) -> Target:
    """Return the broker: options take precedence over `client.conf`, and both over the defaults."""
    chosen = url or conf.get("brokerServiceUrl") or DEFAULT_URL
    if not url and flag_of(conf, "useTls", None, False):
        chosen = chosen.replace("pulsar://", "pulsar+ssl://", 1)
    settings = settings_from(conf, conf.get("webServiceUrl") or DEFAULT_ADMIN_URL, **given)
    return Target(chosen, authentication_of(settings.auth_plugin, settings.auth_params), settings)


_OPTIONS: Final = (
    login_options,
    click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=10.0,
                 show_default=True, help="Time limit of a request to the broker, in seconds."),
    click.option("--url", "-u", envvar="MAGNETAR_URL", metavar="URL",
                 help=f"Service URL; default {DEFAULT_URL}, or brokerServiceUrl of client.conf. "
                 "Also from the environment variable MAGNETAR_URL."),
)  # fmt: skip
_NAMES: Final = signature(settings_from).parameters.keys() - {"conf", "url"}
