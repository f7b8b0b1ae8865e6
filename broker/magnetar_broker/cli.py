"""The commands `magnetar standalone`, `magnetar broker` and `magnetar verify`."""

import gc
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from magnetar_broker.base.start_failed import StartFailed
from magnetar_broker.config.exposure import refused_exposure
from magnetar_broker.config.load import ConfigError, Loaded, load
from magnetar_storage.errors import Incomplete, StorageError

if TYPE_CHECKING:
    from magnetar_broker.verify import ObjectChecks

OPTION_KEYS = {
    "data_dir": "magnetarDataDirectory",
    "port": "brokerServicePort",
    "http_port": "webServicePort",
    "bind": "bindAddress",
    "workers": "magnetarWorkers",
    "insecure_public_bind": "magnetarAllowUnauthenticatedBind",
}


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of both commands, which take precedence over environment and file."""
    for option in (
        click.option(
            "--workers",
            metavar="N|auto",
            help="Processes that serve topics; auto: one for each core. Default: magnetarWorkers.",
        ),
        click.option(
            "--insecure-public-bind",
            is_flag=True,
            default=None,
            help="Serve other machines without authentication: they may do everything.",
        ),
        click.option(
            "--bind",
            metavar="ADDR",
            help="Address to listen on. Default: bindAddress, 127.0.0.1 if unset.",
        ),
        click.option(
            "--http-port",
            type=int,
            help="Port for HTTP; 0 takes any free port. Default: webServicePort.",
        ),
        click.option(
            "--port",
            type=int,
            help="Port for clients; 0 takes any free port. Default: brokerServicePort.",
        ),
        click.option(
            "--data-dir", metavar="DIR", help="The data directory. Default: magnetarDataDirectory."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--conf", metavar="FILE", help="A configuration file such as conf/standalone.conf.")
@_options
def standalone(conf: str | None, **options: object) -> None:
    """Start a broker; without a configuration file, all settings have defaults."""
    _start(conf, options)


@click.command()
@click.option("--conf", metavar="FILE", required=True, help="The broker's configuration file.")
@_options
def broker(conf: str, **options: object) -> None:
    """Start a broker with the settings of a configuration file."""
    _start(conf, options)


CANNOT_CHECK = 2
"""Exit code of `verify`: 0 without damage, 1 with damage."""


@click.command()
@click.argument("data_dir")
@click.option("--json", "machine", is_flag=True, help="Print one JSON object instead of a table.")
@click.option(
    "--objects",
    type=click.Choice(["size", "all"]),
    help="Check ledgers that are only in a store of objects, too: that their objects have the "
    "right size, or all entries in them.",
)
@click.option(
    "--conf",
    metavar="FILE",
    help="The broker's configuration file, for the credentials of stores of objects; without it "
    "they come from the environment.",
)
def verify(data_dir: str, machine: bool, objects: str | None, conf: str | None) -> None:
    """Check every record in DATA_DIR. No broker may use it; nothing is changed.

    Exits with 0 if there is no damage, 1 if there is damage, 2 if it cannot be checked.
    """
    try:
        from magnetar_broker.verify import as_json, as_text, check  # noqa: PLC0415 (not for --help)

        checks = None if objects is None else _object_checks(conf, objects)
        report = check(data_dir, not machine, checks)
    except (ConfigError, StorageError, OSError) as error:
        click.echo(f"cannot check {data_dir}: {error}", err=True)
        raise SystemExit(CANNOT_CHECK) from error
    click.echo(as_json(report) if machine else as_text(report))
    raise SystemExit(int(report.damaged))


def _object_checks(conf: str | None, objects: str) -> "ObjectChecks":
    """Return the checks of objects, with the credentials of the settings."""
    from magnetar_broker.server.data_directory.copies import open_place  # noqa: PLC0415
    from magnetar_broker.verify import ObjectChecks  # noqa: PLC0415 (heavy; not for --help)

    settings = load(conf, os.environ, {}).settings
    return ObjectChecks(partial(open_place, settings), objects == "all")


def _start(conf: str | None, options: dict[str, object]) -> None:
    gc.disable()  # nothing that the start creates is garbage; the daemon enables it when ready
    overrides = {OPTION_KEYS[name]: str(v) for name, v in options.items() if v is not None}
    try:
        from magnetar_broker.server.processes.start import start  # noqa: PLC0415 (heavy; not for --help)

        exit_code = start(partial(_read, conf, overrides))
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the module {error.name} is not installed: install magnetar again, "
            "with its dependencies"
        ) from error
    except Incomplete as error:
        from magnetar_broker.verify import those_who_miss  # noqa: PLC0415 (not for every start)

        data_dir = _read(conf, overrides).settings.data_dir
        raise click.ClickException(f"{error}{those_who_miss(data_dir, error.segments)}") from error
    except (ConfigError, StorageError, OSError, StartFailed) as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(exit_code)


def _read(conf: str | None, overrides: dict[str, str]) -> Loaded:
    """Return the settings of a broker; ConfigError if it must not start with them."""
    loaded = load(conf, os.environ, overrides)
    if (why := refused_exposure(loaded.settings, os.uname().nodename)) is not None:
        raise ConfigError(why)
    return loaded
