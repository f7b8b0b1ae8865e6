"""A store directory: checking its format, and creating a new one (docs/formats.md)."""

from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import segment_ids
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.world.disk import Disk, ReadableDisk
from magnetar_storage.world.whole_files import read_file, write_file

FORMAT_FILE = "FORMAT"
LOCK_FILE = "LOCK"
ALONE, SEVERAL = 2, 3
"""The formats: a data directory that is one store directory, and one that has several."""
FORMAT = b"magnetar data directory, format "
FIRST_SEGMENT = 1


def prepare(disk: Disk, directory: int = 0) -> None:
    """Create the files of store directory number `directory` if it is new; else check its format.

    Directory 0 is the data directory itself, and is created with the format `ALONE`.
    """
    disk.make_dir("journal")
    disk.make_dir("segments")
    if FORMAT_FILE in disk.list(""):
        format_of(disk)
        return
    if disk.list("journal") or disk.list("segments"):
        raise Corrupt(
            FORMAT_FILE,
            0,
            "the file is missing, but journal or segments exist; restore it from a copy",
        )
    first_segment = segment_ids.first_above(0, directory) if directory else FIRST_SEGMENT
    first = Checkpoint(0, JournalPosition(1, 0, 0), first_segment)
    write_file(disk, checkpoints.file_name(0), checkpoints.encode(first))
    # Written last, so that its presence proves the rest.
    write_format(disk, SEVERAL if directory else ALONE)


def write_format(disk: Disk, version: int) -> None:
    """Record the format of a directory durably."""
    write_file(disk, FORMAT_FILE, FORMAT + b"%d\n" % version)


def format_of(disk: ReadableDisk) -> int:
    """The format of a directory; `Unavailable` if this release does not know it."""
    text = read_file(disk, FORMAT_FILE) if FORMAT_FILE in disk.list("") else b""
    if not text.startswith(FORMAT) or not text[len(FORMAT) :].strip().isdigit():
        wanted = (FORMAT + b"%d" % ALONE).decode()
        raise Corrupt(FORMAT_FILE, 0, f'expected the line "{wanted}"; restore the file from a copy')
    version = int(text[len(FORMAT) :])
    if version not in (ALONE, SEVERAL):
        raise Unavailable(
            f"the data directory has format {version}, but this release reads {ALONE} and "
            f"{SEVERAL} only: use a release that reads it"
        )
    return version
