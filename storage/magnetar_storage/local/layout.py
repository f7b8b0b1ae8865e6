"""The data directory: checking its format, and creating a new one (docs/formats.md)."""

from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.world.disk import Disk
from magnetar_storage.world.whole_files import read_file, write_file

FORMAT_FILE = "FORMAT"
LOCK_FILE = "LOCK"
VERSION = 2
FORMAT = b"magnetar data directory, format "
FIRST_SEGMENT = 1


def prepare(disk: Disk) -> None:
    """Create the directory's files if it is new; else check its format."""
    disk.make_dir("journal")
    disk.make_dir("segments")
    if FORMAT_FILE in disk.list(""):
        _check(disk)
        return
    if disk.list("journal") or disk.list("segments"):
        raise Corrupt(
            FORMAT_FILE,
            0,
            "the file is missing, but journal or segments exist; restore it from a copy",
        )
    first = Checkpoint(0, JournalPosition(1, 0, 0), FIRST_SEGMENT)
    write_file(disk, checkpoints.file_name(0), checkpoints.encode(first))
    # Written last, so that its presence proves the rest.
    write_file(disk, FORMAT_FILE, FORMAT + b"%d\n" % VERSION)


def _check(disk: Disk) -> None:
    text = read_file(disk, FORMAT_FILE)
    if not text.startswith(FORMAT) or not text[len(FORMAT) :].strip().isdigit():
        wanted = (FORMAT + b"%d" % VERSION).decode()
        raise Corrupt(FORMAT_FILE, 0, f'expected the line "{wanted}"; restore the file from a copy')
    version = int(text[len(FORMAT) :])
    if version != VERSION:
        raise Unavailable(
            f"the data directory has format {version}, but this release reads {VERSION} only: "
            "use a release that reads it"
        )
