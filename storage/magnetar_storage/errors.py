"""The errors that storage raises.

    StorageError
    ├── NoSegment           the segment does not exist (if it should, its data is lost)
    ├── Unavailable         the outcome is unknown, or the store cannot work now
    │   ├── DiskFull        nothing was written; works again when there is room
    │   │   └── DiskLow     refused before a write: free space is below the limit
    │   ├── WriterFailed    this writer cannot be used any more; open the log again
    │   │   └── LogClosed   its owner has closed or deleted the log
    │   ├── LeaseEnded      the lease of a metadata key has ended; nothing was written
    │   ├── ProcessUnavailable   storage works, but the process that has it cannot be reached
    │   └── AccessDenied    the store of objects refused the credentials
    ├── Fenced              another owner recovered this segment: this one must stop
    ├── Corrupt             bytes on disk are not what was written
    ├── Incomplete          parts of the data directory are missing, or belong to another one
    ├── BadVersion          a metadata key changed since it was read
    ├── TooLarge            a key or value exceeds what the metadata store accepts
    ├── NoObject            the object does not exist in its store of objects
    ├── ObjectChanged       the object is not the one that was read: nothing was written
    ├── ConditionsNotKept   the store of objects ignores conditions of writes
    └── DataDirLocked       another process works on this data directory

*Missing*, *unknown* and *corrupt* are never mistaken for one another.
"""

from dataclasses import dataclass
from typing import Self


class StorageError(Exception):
    """Base of all errors that storage raises deliberately."""

    def again(self) -> Self:
        """Return a copy, caused by this error, to raise to another caller.

        An exception object that is raised twice would collect the stacks of both callers.
        """
        # Without `__init__`: an error of another process does not have the arguments for it.
        # promise[type(self).__new__(type(self), *self.args) -> type(self)(*self.args)]: an error of
        #   another process can refuse several callers
        fresh = type(self).__new__(type(self), *self.args)
        vars(fresh).update(vars(self))
        fresh.__cause__ = self
        return fresh


class NoSegment(StorageError):
    """The segment does not exist: it was never created, or it was deleted."""


class Unavailable(StorageError):
    """The outcome is unknown or the store cannot work at present; conclude nothing from it."""


class DiskFull(Unavailable):
    """The disk was full; nothing was written and nothing was acknowledged."""


class DiskLow(DiskFull):
    """Free space is below the limit: requests that need more of the disk are refused."""


class WriterFailed(Unavailable):
    """An earlier append failed, so all later ones fail: recover the segment, and roll over."""


class LogClosed(WriterFailed):
    """Nothing has failed: the log was closed or deleted while it was used; open it again."""


class LeaseEnded(Unavailable):
    """The key was to be put under a lease that has ended: nothing was written."""


class ProcessUnavailable(Unavailable):
    """Another process of the broker has ended or cannot be reached now: try again later."""


class AccessDenied(Unavailable):
    """The store of objects rejected the credentials, or they lack a permission.

    Retrying fails until an operator changes one of them.
    """


class Fenced(StorageError):
    """Another owner recovered the segment or changed the record; stop, and acknowledge nothing."""


class BadVersion(StorageError):
    """The key's version is not the expected one: read it again, then decide what to write."""


class TooLarge(StorageError):
    """The key or the value exceeds what the metadata store accepts; nothing was written."""


class NoObject(StorageError):
    """The object does not exist: it was never created, or it was deleted."""


class ObjectChanged(StorageError):
    """The object does not have the expected tag, or another write is in progress.

    Nothing was written by this request, but an earlier attempt with an unknown outcome may have
    written: read the object again.
    """


class ConditionsNotKept(StorageError):
    """The store of objects ignores conditions of writes: it must not be the primary storage."""


class DataDirLocked(StorageError):
    """Another process holds the data directory."""


class Incomplete(StorageError):
    """Parts of the data directory are missing, or do not belong to it: nothing is served."""

    segments: tuple[int, ...] = ()
    """The segments whose files are missing."""


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
