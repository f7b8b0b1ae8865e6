"""The command `magnetar repair`: gives up what is missing in a data directory."""

from contextlib import ExitStack, closing
from dataclasses import replace

import click

from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import directories, layout, limits, recovery
from magnetar_storage.verify.overlay import Overlay
from magnetar_storage.world.disk import LocalDisk, ReadOnlyDisk

CANNOT = 2
"""Exit code if nothing could be done; 1: something is missing, and nothing was changed."""


@click.command()
@click.argument("data_dir")
@click.option("--apply", is_flag=True, help="Change the directory; without it, only report.")
def repair(data_dir: str, apply: bool) -> None:
    """Give up the files of ledgers that are missing in DATA_DIR, so that a broker starts on it.

    Use it if they cannot be put back and no snapshot can be restored: the messages, or
    subscriptions, in these files are lost.  No broker may use the directory.  Exits with 0 if
    nothing is missing any more, with 1 if something is and --apply was not given, and with 2 if it
    cannot be repaired.
    """
    from magnetar_broker.verify import those_who_miss  # noqa: PLC0415 (heavy; not for --help)

    try:
        lost = _missing(data_dir)
        for number, why in lost.items():
            click.echo(f"{number}: {why}{those_who_miss(data_dir, [number])}")
        if not lost:
            click.echo("no file of a ledger is missing: nothing to give up")
        elif apply:
            _give_up(data_dir)
            click.echo(f"{len(lost)} ledgers given up: magnetar verify {data_dir} lists the damage")
        else:
            click.echo(f"{len(lost)} ledgers lack data, nothing was changed: --apply gives it up")
            raise SystemExit(1)
    except (StorageError, OSError) as error:
        click.echo(f"cannot repair {data_dir}: {error}", err=True)
        raise SystemExit(CANNOT) from error


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
            recovery.recover(store, replace(limits.DEFAULT, refuse_missing=False), number)
