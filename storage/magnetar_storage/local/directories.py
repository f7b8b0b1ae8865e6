"""The store directories of a data directory: number 0 is its root, number n is `workers/<n>`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from magnetar_storage.errors import Corrupt, Incomplete, Unavailable
from magnetar_storage.local import layout
from magnetar_storage.local.segment_ids import DIRECTORIES
from magnetar_storage.runtime.disk import Disk, ReadableDisk
from magnetar_storage.runtime.subtree import Subtree

WORKERS = "workers"


def name_of(directory: int) -> str:
    """Return the name of a store directory within the data directory; empty for its root."""
    return f"{WORKERS}/{directory}" if directory else ""


def path_of(directory: int, name: str) -> str:
    """Return the name within the data directory of a file in a store directory."""
    return f"{name_of(directory)}/{name}" if directory else name


def disk_of(disk: Disk, directory: int) -> Disk:
    """Return the disk for the files of one store directory, from that of the data directory."""
    return Subtree(disk, name_of(directory)) if directory else disk


@contextmanager
def named(directory: int) -> Iterator[None]:
    """Give errors the names that files have in the data directory."""
    try:
        yield
    except Corrupt as error:
        raise replace(error, file=path_of(directory, error.file)) from error
    except Incomplete as error:
        if not directory:
            raise
        whole = Incomplete(f"{name_of(directory)}: {error}")
        whole.segments = error.segments
        raise whole from error


def present(disk: ReadableDisk) -> list[int]:
    """Return the store directories' numbers, in order; other names in `workers` are ignored."""
    numbers = range(1, DIRECTORIES)
    names = set(disk.list(WORKERS))
    return [0, *(number for number in numbers if str(number) in names)]


def check(disk: ReadableDisk, found: list[int]) -> None:
    """Refuse a data directory that lacks store directories, or has more than its format allows.

    With the format of a single directory, an earlier release would ignore the others.
    """
    if len(found) == 1 and layout.FORMAT_FILE not in disk.list(""):
        return  # it is new, or will be refused by `layout.prepare`
    what = layout.format_of(disk)
    if missing := [name_of(number) for number in what.stores if number not in found]:
        raise Incomplete(
            f"the data directory lacks {', '.join(missing)}, with what workers have stored there: "
            "put it back, or restore a snapshot (docs/backup.md)"
        )
    if len(found) > 1 and what == layout.ALONE:
        raise Corrupt(
            layout.FORMAT_FILE,
            0,
            f"it names a single store directory, but {name_of(found[1])} exists: restore the file "
            "from a copy",
        )


def prepare(disk: Disk, workers: int) -> list[int]:
    """Create the missing store directories for `workers` workers; returns the numbers of all.

    The caller holds the lock of the data directory, and no process has it open.  With one worker a
    new data directory has a single store directory.
    """
    if workers > DIRECTORIES:
        raise Unavailable(f"{workers} workers: a data directory has room for {DIRECTORIES}")
    layout.prepare(disk)
    found = present(disk)
    check(disk, found)
    missing = [number for number in range(1, workers) if number not in found]
    if missing and layout.format_of(disk) == layout.ALONE:
        # Before there is another directory, so that earlier releases refuse from then on.
        # promise: earlier releases refuse a data directory with several directories
        layout.write_format(disk, layout.SEVERAL)
    for number in missing:
        disk.make_dir(name_of(number))
    everything = sorted({*found, *missing})
    # promise[len(everything) > 1 -> missing]: a directory that a killed start has made is synced
    #   before use
    if len(everything) > 1:
        # Also if none is new: an earlier start may have been killed between making and syncing.
        disk.sync_dir(WORKERS)
        disk.sync_dir("")
    for number in missing:
        layout.prepare(disk_of(disk, number), number)
    return everything
