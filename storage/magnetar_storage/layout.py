"""The data directory: which format it has, and making a new one (docs/formats.md)."""

from magnetar_storage import checkpoint as checkpoints
from magnetar_storage.checkpoint import Checkpoint
from magnetar_storage.disk import Disk
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.journal import Position
from magnetar_storage.whole_files import read_file, write_file

FORMAT_FILE = "FORMAT"
LOCK_FILE = "LOCK"
VERSION = 2
FORMAT = b"magnetar data directory, format "
FIRST_SEGMENT = 1


def prepare(disk: Disk) -> None:
    """Make the directory ready to be read, or refuse it with a remedy."""
    disk.make_dir("journal")
    disk.make_dir("segments")
    if FORMAT_FILE in disk.list(""):
        _check(disk)
        return
    if disk.list("journal") or disk.list("segments"):
        raise Corrupt(
            FORMAT_FILE, 0, "the file is missing though there is data; restore it from a copy"
        )
    first = Checkpoint(0, Position(1, 0, 0), FIRST_SEGMENT)
    write_file(disk, checkpoints.file_name(0), checkpoints.encode(first))
    # Last: where it exists, the rest does.
    write_file(disk, FORMAT_FILE, FORMAT + b"%d\n" % VERSION)


def _check(disk: Disk) -> None:
    text = read_file(disk, FORMAT_FILE)
    if not text.startswith(FORMAT) or not text[len(FORMAT) :].strip().isdigit():
        wanted = (FORMAT + b"%d" % VERSION).decode()
        raise Corrupt(FORMAT_FILE, 0, f'not the line "{wanted}"; restore it from a copy')
    version = int(text[len(FORMAT) :])
    if version != VERSION:
        raise Unavailable(
            f"the data directory has format {version}, this release knows {VERSION}: "
            "use a release that knows it"
        )
