"""The interface of a storage engine: segments of entries, and versioned metadata.

Local disk, object stores and BookKeeper must all fit behind these classes.  One
conformance suite (`tests/storage/test_conformance.py`) runs against every driver:

1. an append that was reported durable is returned by any later `recover`;
2. after `recover` returns, no append on the old writer is reported durable;
3. concurrent recoveries agree on the end;
4. appends never reported may survive a recovery, but without gaps or reordering;
5. one failed append fails all later ones of its writer; the caller must open the log again;
6. missing (`NoSegment`), unknown (`Unavailable`) and damaged (`Corrupt`) are three answers;
7. a `seal` whose outcome is unknown is settled by `recover`.
"""

import math
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple, Protocol

from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.runtime.execution import Done

SegmentId = int
"""Identifies a segment: ids only grow and are never reused (the wire's ledger id)."""


class Run(NamedTuple):
    """Consecutive entries: entry `first + i` is `payloads[i]` and holds `counts[i]` messages."""

    first: int
    payloads: list[bytes]
    counts: Sequence[int]


class Sealed(NamedTuple):
    """The final size of a segment; `entries - 1` is its last entry's id."""

    entries: int
    messages: int
    size: int
    """The bytes of all payloads."""


class DamagedEntries(NamedTuple):
    """Unreadable entries `first` to `last` of a segment, with their bytes as stored."""

    segment: SegmentId
    first: int
    last: int
    why: str
    data: bytes
    log: str
    """The key of the log that contains them."""


class SegmentKind(StrEnum):
    """The purposes for which a log creates segments."""

    MESSAGES = "messages"
    KEPT = "kept"
    """The remaining entries of rewritten segments (`sparse_segment`)."""
    CURSORS = "cursors"
    """Cursors and attached states."""
    DELAYS = "delays"
    COMPACTED = "compacted"
    SCRATCH = "scratch"
    """Temporary data, useless after a crash."""


class Replaced(NamedTuple):
    """A log's record of a segment of which another segment keeps a part."""

    id: SegmentId
    first_offset: int
    entries: int
    first_messages: int
    """The number of messages in the log before this segment."""
    messages: int
    created_ms: int
    sealed_ms: int


@dataclass(frozen=True, slots=True)
class SegmentOrigin:
    """The purpose of a segment: enough to list it again if its log's record is lost."""

    log: str
    """The key of the log's record in the metadata store."""
    kind: SegmentKind
    epoch: int = 0
    """The epoch of the log's record."""
    created_ms: int = 0
    first_offset: int = 0
    """For `MESSAGES`, the offset of the first entry (`SegmentWriter.begin`); for other kinds, the
    offset after the log's last durable entry when the segment was created."""
    replaces: tuple[Replaced, ...] = ()
    """For `KEPT`, the segments of which it keeps a part, oldest first."""
    first_messages: int | None = None
    """For `MESSAGES`, the number of messages in the log before this segment; only of logs with
    broker metadata, None for others."""


class SegmentWriter(Protocol):
    """The single writer of a segment."""

    @property
    def segment(self) -> SegmentId: ...

    @property
    def confirmed(self) -> int:
        """The id of the last durable entry; -1 before the first one."""

    def begin(self, first_offset: int, first_messages: int | None = None) -> None:
        """Set these fields of the `SegmentOrigin`; must be called before the first append."""

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        """Queue a run of entries and return the first one's id (ids are 0, 1, 2...).

        `counts[i]` is the number of messages in entry i; the store only adds them up.
        `done(None)` is called when the whole run is durable, in the order of the appends;
        `done(error)` if it failed, and then for every later append too.  The caller must not
        change the sequences any more.  There is one callback per run, since a future per entry
        would cost more than the append itself.
        """

    async def seal(self) -> Sealed:
        """Wait for all appends, then close the segment for good."""


class SegmentReader(Protocol):
    """Reads one segment, sealed or growing; never past the last durable entry."""

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        """Read entries from `first` on: at least one if one exists, else an empty run.

        Raises `Corrupt` if the first entry is damaged; a run ends before a later damaged
        entry.
        """

    async def stored_bytes(self, first: int, stop: int) -> bytes:
        """Read the bytes in which entries first..stop-1 are stored, without a check.

        The bytes are whole records, which may contain further entries; empty if none are stored.
        """

    async def messages_before(self, entry: int) -> int:
        """Count the messages in entries 0..entry-1; `entry` may be one past the last.

        May wait: a store that does not have the segment's index in memory reads what it needs, and
        raises as `read` does.
        """

    def messages_in(self, entry: int) -> int | None:
        """Return the number of messages in an existing entry; None if it is not known at once.

        Never waits and never reads.  Callers that get None do without the number.
        """

    def close(self) -> None:
        """Release the resources of the reader."""


class SegmentStore(Protocol):
    """Creates, settles, reads and removes segments."""

    @property
    def trouble(self) -> StorageError | None:
        """The error with which appends fail at present; None while they work."""

    @property
    def is_failing(self) -> bool:
        """Whether the next append is likely to fail: `trouble` is set, or the disk was full."""

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> SegmentWriter:
        """Create an empty segment; durable on return.

        Its id is larger than all ids that this process has assigned, and than `beyond`, which
        another process may have assigned.  The origin becomes durable with the first entries.
        """

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        """Return the origin of a segment; `NoSegment` if the segment does not exist.

        None if the segment is empty, was created by an earlier release, or has a damaged origin.
        """

    async def recover(self, segment: SegmentId) -> Sealed:
        """Fence any writer, settle the end and seal.  Idempotent; `NoSegment` if missing."""

    async def reader(self, segment: SegmentId) -> SegmentReader:
        """Open a reader of the segment; `NoSegment` if the segment does not exist."""

    async def delete(self, segment: SegmentId) -> None:
        """Delete the segment; a missing segment is not an error."""

    def segments(self) -> AsyncIterator[SegmentId]:
        """Iterate over the segments that are orphans if no log lists them.

        These are segments that this process has created before the call, and segments of processes
        that have ended and whose changes of metadata have all had their effect.  A segment of
        another living process is never among them: it is created first and listed then, so only
        its own process can tell it from an orphan.
        """

    def closed(self) -> list[SegmentId]:
        """Return the segments that no longer change and that this process checks for damage."""

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        """Move unlisted segments to quarantine; returns those that were moved.

        Segments that `segments` does not yield stay, even if they are named.  The others are
        settled first, and `segments` no longer yields them.  A segment that is used later
        is moved back.  A segment that cannot be settled, because it is damaged, is not moved.
        """

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        """Delete data quarantined before `before_ms`; returns the deleted segments."""

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        """Put copies of damaged entries into quarantine; durable on return."""

    async def close(self) -> None:
        """Make everything durable, checkpoint, and release the data directory."""


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """A copy of a finished segment in a store of objects, byte for byte."""

    place: str
    """The store of objects, without secrets: `s3://bucket/prefix?region=...`."""
    name: str
    """The name of the object; never used again for another one."""
    size: int = 0
    """The bytes of the object, once the copy is complete."""
    completed_ms: int = 0
    """The time at which the copy was complete; 0 while the object may be missing."""
    is_only: bool = False
    """Whether the entries are read from here because the segment is deleted from the store."""


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """The totals of what one process has copied, read from copies and deleted since its start."""

    copied_bytes: int = 0
    copy_errors: int = 0
    """The segments that could not be copied; each further attempt counts again."""
    read_bytes: int = 0
    read_errors: int = 0
    deleted: int = 0
    """The objects that were deleted."""


class SegmentCopies(Protocol):
    """Makes, reads and deletes copies of finished segments in stores of objects.

    Every call may raise `Unavailable`, also if an object is missing: a wrong place looks the same.
    """

    @property
    def counts(self) -> CopyCounts:
        """The numbers since the start of this process."""

    def new_name(self, segment: SegmentId) -> str:
        """Return a name for an object that no object has had."""

    async def upload(
        self, segment: SegmentId, copy: SegmentCopy, goes_on: Callable[[], bool]
    ) -> int:
        """Copy a settled segment of the store and verify the copy; returns the object's bytes.

        `goes_on` is called from another thread; when it returns False the copying ends soon, with
        `LogClosed`.  `Corrupt` if the segment is damaged: then nothing is copied.
        """

    async def is_there(self, copy: SegmentCopy) -> bool:
        """Return whether the object of a complete copy exists, with its size."""

    async def reader(self, segment: SegmentId, copy: SegmentCopy) -> SegmentReader:
        """Open a reader of a complete copy."""

    async def delete(self, copy: SegmentCopy) -> None:
        """Delete the object, unless other data directories may use it.

        A missing object is not an error.
        """


PAGE = 1000
"""The most keys that a listing of metadata returns by default."""
PAGE_BYTES = 4 << 20
"""The bytes of values after which `MetadataStore.read_under` returns no further key."""

Version = int
"""Opaque; differs whenever the value was written."""


class Absent(Enum):
    """Passed as `expect`: the key must not exist yet."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Versioned(NamedTuple):
    value: bytes
    version: Version


Listed = tuple[str, Versioned | Corrupt]
"""A key and its value, or the error if the value is damaged."""


class Guard(NamedTuple):
    """A condition on a write: another key, such as that of a leader, is still at `version`.

    A write whose guard does not hold fails with `Fenced` and changes nothing.
    """

    key: str
    version: Version


class Change(NamedTuple):
    """A key that changed; `value` is None when it was deleted."""

    key: str
    value: bytes | None
    version: Version


class Resync(Enum):
    """Changes may have been missed, as before the first one: list the prefix (again)."""

    RESYNC = "resync"


RESYNC = Resync.RESYNC


class Changes(Protocol):
    """The changes under one prefix, in order; for one reader."""

    def __aiter__(self) -> AsyncIterator[Change | Resync]: ...
    async def __anext__(self) -> Change | Resync: ...

    def end(self) -> None:
        """End the changes; those that have arrived can still be read."""


class Lease:
    """Keys put under a lease are deleted when its owner stops renewing it.

    The store renews it for its owner.  An owner whose work needs the lease asks `deadline` before
    each step that nobody else may make, and stops at `when_lost`.
    """

    __slots__ = ("_at_loss", "deadline", "id", "is_lost")

    def __init__(self, id: str, deadline: float = math.inf) -> None:
        self.id = id
        self.deadline = deadline
        """The `Clock.uptime` before which the lease does not end unless it is revoked."""
        self.is_lost = False
        """Whether the lease has ended, or may have."""
        self._at_loss: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call once when the lease is lost; now if it is already."""
        if self.is_lost:
            call()
        else:
            self._at_loss.append(call)

    def lose(self) -> None:
        """Report the loss; for the store."""
        if not self.is_lost:
            self.is_lost = True
            calls, self._at_loss = self._at_loss, []
            for call in calls:
                call()


class MetadataStore(Protocol):
    """Small values under paths such as `/topics/...`, each with a version.

    Single-key compare-and-set is the only primitive: SQLite, etcd and ZooKeeper all have it.
    The store is never used per message.  The writes of one process are applied, and complete, in
    the order in which the process requests them.
    """

    async def get(self, key: str) -> Versioned | None:
        """Return the value of a key; None if the key does not exist."""

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        """Write durably if the key is at version `expect` (None: at any), else `BadVersion`.

        A guard that does not hold is reported (`Fenced`) rather than a version that differs.
        `Unavailable` means the outcome is unknown: read the key to find out.
        """

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        """Delete the key if it is at version `expect` (None: at any, and it may be missing).

        `guard` is as in `put`.
        """

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        """Return up to `limit` keys that start with `prefix` and sort after `after`, in order."""

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        """Return the keys of `list`, each with its value, or with the error if that is damaged.

        Fewer than `limit`, but at least one, if the values are large (`PAGE_BYTES`): read on
        after the last key until nothing is returned.  Raises `Corrupt` if a key is damaged.
        """

    def watch(self, prefix: str) -> Changes:
        """Watch the changes under `prefix` from now on, changes by this process included.

        The first one is `RESYNC`: a reader that lists the prefix whenever it gets `RESYNC`, and
        applies the changes that follow, misses nothing.  The changes end when the store is closed
        or can no longer be reached.
        """

    async def lease(self, ttl_seconds: float) -> Lease:
        """Create a lease of this process; in a local store it lasts as long as the process.

        Until it is revoked it is renewed so that it lasts `ttl_seconds` after the last renewal.
        """

    async def revoke(self, lease: Lease) -> None:
        """End the lease now: its keys are deleted, and it is lost."""

    async def close(self) -> None:
        """Release the store."""
