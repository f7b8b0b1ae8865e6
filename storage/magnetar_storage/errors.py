"""What storage may answer instead of a result.

    StorageError
    ├── NoSegment           it is not there (and should it be, that is data loss)
    ├── Unavailable         the outcome is unknown, or the store cannot work now
    │   ├── DiskFull        nothing was written; works again when there is room
    │   └── WriterFailed    this writer is dead; open the log anew
    ├── Fenced              somebody else recovered this segment: we own it no longer
    ├── Corrupt             bytes on disk are not what was written
    ├── BadVersion          a metadata key changed since it was read
    └── DataDirLocked       another process works on this data directory

*Missing*, *unknown* and *corrupt* are never mistaken for one another.
"""

from copy import copy
from dataclasses import dataclass
from typing import Self


class StorageError(Exception):
    """Base of everything storage raises on purpose."""

    def again(self) -> Self:
        """The same for one more who is refused; what is raised twice keeps both their stacks."""
        fresh = copy(self)
        fresh.__cause__ = self
        return fresh


class NoSegment(StorageError):
    """The segment does not exist: it was never created, or it was deleted."""


class Unavailable(StorageError):
    """The outcome is unknown or the store cannot work at present; nothing may be concluded."""


class DiskFull(Unavailable):
    """No room was left; the write did not happen and nothing was acknowledged."""


class WriterFailed(Unavailable):
    """An earlier append failed, so every later one fails; recover the segment and roll over."""


class Fenced(StorageError):
    """Another owner recovered the segment; this writer must stop and never acknowledge again."""


class BadVersion(StorageError):
    """The key's version is not the expected one: read it again and decide anew."""


class DataDirLocked(StorageError):
    """Another process holds the data directory."""


@dataclass
class Corrupt(StorageError):
    """Bytes that were acknowledged cannot be read back: damage, not a torn tail."""

    file: str
    offset: int
    why: str
    segment: int | None = None
    first_entry: int | None = None
    last_entry: int | None = None

    def __str__(self) -> str:
        where = f"{self.file} at byte {self.offset}: {self.why}"
        if self.segment is None:
            return where
        if self.first_entry is None:
            return f"{where} (segment {self.segment})"
        return f"{where} (segment {self.segment}, entries {self.first_entry} to {self.last_entry})"
