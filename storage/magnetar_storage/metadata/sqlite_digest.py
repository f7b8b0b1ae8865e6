"""The digest of `metadata.db`: if it matches, nothing has changed since the last full check.

The digest is optional: if it is missing, damaged or does not match, everything is checked.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from magnetar_storage.runtime.disk import File, ReadableDisk
from magnetar_storage.runtime.whole_files import file_size, read_file

FILE = "metadata.digest"
MAGIC = b"MAGNMETA"
VERSION = 1
FIELDS = Struct("<8sIIQ")
"""Magic, version, checksum of the database's file, its bytes."""
CHECKSUM = Struct("<I")
PIECE_BYTES = 1 << 20


class Checks(NamedTuple):
    """The checks to make when a database is opened."""

    structure: bool
    rows: bool


ALL = Checks(structure=True, rows=True)


def needed(disk: ReadableDisk, database: str) -> Checks:
    """Return the checks that are required before the database is used.

    No process may have it open.
    """
    try:
        # promise[read_file(disk, FILE) != encode(disk, database) -> not read_file(disk, FILE)]:
        #   only the digest of this very file is believed
        if read_file(disk, FILE) != encode(disk, database):
            return ALL
    except FileNotFoundError:  # either file may be missing
        return ALL
    # Frames of the log have checksums of their own.  The structure is spread over both files: only
    # a check of it shows that they belong together.
    return Checks(structure=has_log(disk, database), rows=False)


def encode(disk: ReadableDisk, database: str) -> bytes:
    """Return the digest of the database's file in its present state."""
    file = disk.open(database)
    try:
        size = file.size()
        head = FIELDS.pack(MAGIC, VERSION, _checksum(file, size), size)
    finally:
        file.close()
    return head + CHECKSUM.pack(crc32c(head))


def _checksum(file: File, size: int) -> int:
    crc = 0
    for at in range(0, size, PIECE_BYTES):
        crc = crc32c(file.read(at, PIECE_BYTES), crc)
    return crc


def has_log(disk: ReadableDisk, database: str) -> bool:
    """Return whether SQLite's log may have data that is not in the database's file yet."""
    try:
        return file_size(disk, f"{database}-wal") > 0
    except FileNotFoundError:
        return False
