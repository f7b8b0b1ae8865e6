"""The command `magnetar repair`: makes a data directory usable that lacks something."""

import os
import sys
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

import click

from magnetar_broker.config.load import ConfigError, load
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import directories, layout, limits, recovery
from magnetar_storage.multi_store import belonging
from magnetar_storage.runtime.disk import LocalDisk, ReadOnlyDisk
from magnetar_storage.verify.overlay import Overlay

if TYPE_CHECKING:
    from magnetar_broker.server.data_directory.lost_objects import Search

CANNOT = 2
"""The exit code if nothing could be done; 1 if something is missing, and nothing was changed."""


@click.command()
@click.argument("data_dir")
@click.option("--apply", is_flag=True, help="Change the directory; without it, only report.")
@click.option(
    "--conf",
    metavar="FILE",
    help="The broker's configuration file: ledgers are looked for in its store of objects, too.",
)
@click.option(
    "--place",
    "places",
    metavar="PLACE",
    multiple=True,
    help="A further store of objects, which a policy named, such as s3://bucket?region=eu-west-1.",
)
@click.option(
    "--prefix",
    "prefixes",
    metavar="TEXT",
    multiple=True,
    help="A further prefix of objects, as a directory has it that was restored or repaired before.",
)
def repair(
    data_dir: str,
    apply: bool,
    conf: str | None,
    places: tuple[str, ...],
    prefixes: tuple[str, ...],
) -> None:
    """Make DATA_DIR, which lacks something, usable again, so that a broker starts on it.

    Use it if what is missing cannot be put back and no snapshot can be restored.  Files of ledgers
    that are missing are given up: the messages, or subscriptions, in them are lost.  A metadata.db
    that is missing, damaged, of another data directory, or too old is rebuilt from what the ledgers
    tell; the former one is kept.  Ledgers that are only in a store of objects are found again if
    --conf or --place says where.  No object is changed or deleted.

    No broker may use the directory.  Exits with 0 if nothing is missing any more, with 1 if
    something is and --apply was not given, and with 2 if it cannot be repaired.
    """
    try:
        search = _search(conf, places, prefixes)
        metadata_trouble = _report_metadata(data_dir)
        lost = _report_lost(data_dir)
        if metadata_trouble:
            # First: if a place cannot be read, nothing is given up either.
            _rebuild(data_dir, apply, search)
        if apply and lost:
            _give_up(data_dir)
            click.echo(f"{len(lost)} ledgers given up: magnetar verify {data_dir} lists the damage")
    except (ConfigError, StorageError, OSError) as error:
        click.echo(f"cannot repair {data_dir}: {error}", err=True)
        raise SystemExit(CANNOT) from error
    if (lost or metadata_trouble) and not apply:
        click.echo("nothing was changed: --apply does it")
        raise SystemExit(1)
    if not lost and not metadata_trouble:
        click.echo("nothing is missing: nothing to repair")


def _report_metadata(data_dir: str) -> bool:
    """Print why no broker starts with the metadata, if so; return whether that is the case."""
    from magnetar_broker.server.data_directory.rebuilding import metadata_trouble  # noqa: PLC0415 (heavy)

    found = metadata_trouble(data_dir)
    if found is not None:
        click.echo(found.why)
    return found is not None


def _report_lost(data_dir: str) -> dict[SegmentId, str]:
    """Return the segments that lack data, and list them with the topics that need them."""
    from magnetar_broker.verify import those_who_miss  # noqa: PLC0415 (heavy; not for --help)

    lost = _missing(data_dir)
    for number, why in lost.items():
        click.echo(f"{number}: {why}{those_who_miss(data_dir, [number])}")
    if lost:
        click.echo(f"{len(lost)} ledgers lack data, which can only be given up")
    return lost


def _missing(data_dir: str) -> dict[SegmentId, str]:
    """Return the segments whose file is missing or too short, with the reason; change nothing."""
    disk = ReadOnlyDisk(data_dir)
    layout.format_of(disk)
    lost: dict[SegmentId, str] = {}
    with closing(disk.lock(layout.LOCK_FILE)):
        for number in directories.present(disk):
            store = directories.disk_of(Overlay(disk), number)
            lost |= recovery.recover(store, limits.DEFAULT, number).lost
    return lost


def _give_up(data_dir: str) -> None:
    disk = LocalDisk(data_dir)
    with ExitStack() as locks:
        locks.enter_context(closing(disk.lock(layout.LOCK_FILE)))
        for number in directories.present(disk):
            store = directories.disk_of(disk, number)
            if number:
                locks.enter_context(closing(store.lock(layout.LOCK_FILE)))
            recovery.recover(store, belonging.GIVING_UP, number)


def _files(data_dir: str) -> int:
    """Return how many ledgers have a file, about."""
    disk = ReadOnlyDisk(data_dir)
    folders = [directories.path_of(n, "segments") for n in directories.present(disk)]
    return sum(len(disk.list(folder)) for folder in folders)


def _search(
    conf: str | None, places: tuple[str, ...], prefixes: tuple[str, ...]
) -> "Search | None":
    """Return the search for objects that the options ask for; None if they name no place."""
    if conf is None and not places:
        return None
    from magnetar_broker.server.data_directory.copies import open_place  # noqa: PLC0415 (heavy)
    from magnetar_broker.server.data_directory.lost_objects import Search, place_in  # noqa: PLC0415

    settings = load(conf, os.environ, {}).settings
    usual = place_in(settings)
    return Search(partial(open_place, settings), (*([usual] if usual else []), *places), prefixes)


def _rebuild(data_dir: str, apply: bool, search: "Search | None") -> None:
    """Rebuild the metadata and check the result, or print what would be rebuilt."""
    from magnetar_broker.server.data_directory.rebuilding import as_text, rebuild  # noqa: PLC0415 (heavy)
    from magnetar_broker.verify import ObjectChecks, check  # noqa: PLC0415
    from magnetar_broker.verify import as_text as as_report  # noqa: PLC0415

    quiet = not sys.stderr.isatty()
    with click.progressbar(
        length=_files(data_dir), label="reading ledgers", file=sys.stderr, hidden=quiet
    ) as bar:
        result = rebuild(data_dir, apply, bar.update, search)
    click.echo(as_text(result))
    if apply:
        checks = None if search is None else ObjectChecks(search.open_place, reads_all=False)
        click.echo(as_report(check(data_dir, True, checks)))
