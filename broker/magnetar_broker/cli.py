"""The commands `magnetar standalone` and `magnetar broker`."""

import os
from collections.abc import Callable

import click

from magnetar_broker.config.load import ConfigError, load
from magnetar_storage.errors import StorageError

OPTION_KEYS = {
    "data_dir": "magnetarDataDirectory",
    "port": "brokerServicePort",
    "http_port": "webServicePort",
    "bind": "bindAddress",
}


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """What both commands take; the command line wins over the file and the environment."""
    for option in (
        click.option("--bind", metavar="ADDR", help="Address to listen on; 127.0.0.1 if not told."),
        click.option("--http-port", type=int, help="Port for HTTP; 0 takes any."),
        click.option("--port", type=int, help="Port for clients; 0 takes any."),
        click.option("--data-dir", metavar="DIR", help="Where everything is kept."),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--conf", metavar="FILE", help="A configuration file such as conf/standalone.conf.")
@_options
def standalone(conf: str | None, **options: object) -> None:
    """Start a broker with all it needs in this process; every setting has a default."""
    _start(conf, options)


@click.command()
@click.option("--conf", metavar="FILE", required=True, help="The broker's configuration file.")
@_options
def broker(conf: str, **options: object) -> None:
    """Start a broker as a configuration file says."""
    _start(conf, options)


def _start(conf: str | None, options: dict[str, object]) -> None:
    from magnetar_broker.server.daemon import serve  # noqa: PLC0415 (heavy, and not for --help)

    overrides = {OPTION_KEYS[name]: str(v) for name, v in options.items() if v is not None}
    try:
        settings, warnings = load(conf, os.environ, overrides)
        serve(settings, warnings)
    except (ConfigError, StorageError, OSError) as error:
        raise click.ClickException(str(error)) from error
