"""A store directory: checking its format, and creating a new one (docs/formats.md)."""

import re
from typing import NamedTuple

from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import segment_ids
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.runtime.disk import Disk, ReadableDisk
from magnetar_storage.runtime.whole_files import read_file, write_file

FORMAT_FILE = "FORMAT"
LOCK_FILE = "LOCK"
HEAD = b"magnetar data directory, format "


class Format(NamedTuple):
    """The content of a FORMAT file."""

    version: int
    directory: bytes = UNKNOWN.directory
    """The id of the data directory; zeros before version 4."""
    stores: tuple[int, ...] = ()
    """The store directories that must exist; named in the FORMAT of the data directory."""


ALONE, SEVERAL = Format(2), Format(3)
"""The formats of earlier releases, and of a directory that no broker has served yet: a data
directory with one store directory, and one with several."""
IDENTIFIED = 4
"""The first version with an id."""
PRESENT = 5
"""The version that a start writes to every directory: segments have an ORIGIN."""
FIRST_LINE = re.compile(HEAD + rb"(\d{1,9})\n?")
IDENTITY = re.compile(rb"id ([0-9a-f]{32})\nstores((?: \d{1,3})*)\n")
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
    # Not a new directory: a first checkpoint would let the broker start without its data.
    if disk.list("journal") or disk.list("segments"):
        raise Corrupt(
            FORMAT_FILE,
            0,
            "the file is missing, but journal or segments exist; restore it from a copy",
        )
    # Each store directory has ids of its own, so that its files cannot be taken for those of
    # another.
    first_segment = segment_ids.first_above(0, directory) if directory else FIRST_SEGMENT
    first = Checkpoint(0, JournalPosition(1, 0, 0), first_segment)
    write_file(disk, checkpoints.file_name(0), checkpoints.encode(first))
    # Written last, so that its presence proves the rest.
    write_format(disk, SEVERAL if directory else ALONE)


def write_format(disk: Disk, what: Format) -> None:
    """Record the format of a directory durably."""
    text = HEAD + b"%d\n" % what.version
    # Earlier formats are one line: the releases that wrote them read nothing else.
    if what.version >= IDENTIFIED:
        stores = " ".join(map(str, what.stores))
        text += f"id {what.directory.hex()}\nstores {stores}".rstrip().encode() + b"\n"
    write_file(disk, FORMAT_FILE, text)


def format_of(disk: ReadableDisk) -> Format:
    """Read the format of a directory; `Unavailable` if this release does not know it."""
    text = read_file(disk, FORMAT_FILE) if FORMAT_FILE in disk.list("") else b""
    found = FIRST_LINE.match(text)
    if found is None:
        wanted = (HEAD + b"%d" % PRESENT).decode()
        raise _damaged(f'expected the line "{wanted}"')
    version = int(found[1])
    if version in (ALONE.version, SEVERAL.version):
        return Format(version)
    # Never guess: files of a later format may mean something else than they seem to.
    if version not in (IDENTIFIED, PRESENT):
        raise Unavailable(
            f"the data directory has format {version}, but this release reads "
            f"{ALONE.version} to {PRESENT} only: use a release that reads it"
        )
    rest = IDENTITY.fullmatch(text, found.end())
    if rest is None:
        raise _damaged("expected lines with the id and the store directories")
    return Format(version, bytes.fromhex(rest[1].decode()), tuple(map(int, rest[2].split())))


def _damaged(why: str) -> Corrupt:
    return Corrupt(FORMAT_FILE, 0, f"{why}; restore the file from a copy")
