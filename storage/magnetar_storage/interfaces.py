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

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple, Protocol

from magnetar_storage.errors import StorageError
from magnetar_storage.world.runtime import Done

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
    """Bytes of all payloads."""


class DamagedEntries(NamedTuple):
    """Entries `first` to `last` of a segment, which cannot be read, with their bytes as stored."""

    segment: SegmentId
    first: int
    last: int
    why: str
    data: bytes
    log: str
    """The key of the log that has them."""


class SegmentKind(StrEnum):
    """The uses that a log has for segments."""

    MESSAGES = "messages"
    KEPT = "kept"
    """What is left of rewritten segments (`sparse_segment`)."""
    CURSORS = "cursors"
    """Cursors and attached states."""
    DELAYS = "delays"
    COMPACTED = "compacted"
    SCRATCH = "scratch"
    """Of no use after a crash."""


class Replaced(NamedTuple):
    """A segment of which another one keeps a part: what the log's record says of it."""

    id: SegmentId
    first_offset: int
    entries: int
    first_messages: int
    """Messages of the log before it."""
    messages: int
    created_ms: int
    sealed_ms: int


@dataclass(frozen=True, slots=True)
class SegmentOrigin:
    """What a segment was created for: enough to list it again when its log's record is lost."""

    log: str
    """The key of the log's record in the metadata store."""
    kind: SegmentKind
    epoch: int = 0
    """Of the log's record."""
    created_ms: int = 0
    first_offset: int = 0
    """The offset of its first entry, of `MESSAGES` (`SegmentWriter.begin`); of others, the offset
    after the log's last durable entry then."""
    replaces: tuple[Replaced, ...] = ()
    """Of `KEPT`: the segments of which it keeps a part, oldest first."""


class SegmentWriter(Protocol):
    """The single writer of a segment."""

    @property
    def segment(self) -> SegmentId: ...

    @property
    def confirmed(self) -> int:
        """The last durable entry's id, -1 while there is none."""

    def begin(self, first_offset: int) -> None:
        """Note `SegmentOrigin.first_offset`; nothing may have been appended yet."""

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        """Queue a run of entries and return the first one's id (ids are 0, 1, 2...).

        `counts[i]` is how many messages entry i holds; the store only adds them up.
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
        """Entries from `first` on: at least one if one exists, else an empty run.

        Raises `Corrupt` if the first entry is damaged; a run ends before a later damaged
        entry.
        """

    async def stored_bytes(self, first: int, stop: int) -> bytes:
        """The bytes in which entries first..stop-1 are stored, as they are, without a check.

        They are whole records, so they may have further entries; empty if none are stored.
        """

    def messages_before(self, entry: int) -> int:
        """How many messages entries 0..entry-1 hold; `entry` may be one past the last."""

    def close(self) -> None:
        """Release the reader's resources."""


class SegmentStore(Protocol):
    """Creates, settles, reads and removes segments."""

    @property
    def trouble(self) -> StorageError | None:
        """Why nothing can be appended at present; None while appending works."""

    @property
    def is_failing(self) -> bool:
        """Whether the next append is likely to fail: there is trouble, or there was no room."""

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> SegmentWriter:
        """A new, empty segment; durable on return.

        Its id is above all that this process gave before, and above `beyond`, which another
        process may have given.  The origin becomes durable with the first entries.
        """

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        """What a segment was created for; `NoSegment` if it does not exist.

        None if it is empty, or an earlier release has created it, or the origin is damaged.
        """

    async def recover(self, segment: SegmentId) -> Sealed:
        """Fence any writer, settle the end and seal.  Idempotent; `NoSegment` if missing."""

    async def reader(self, segment: SegmentId) -> SegmentReader:
        """A reader of an existing segment, else `NoSegment`."""

    async def delete(self, segment: SegmentId) -> None:
        """Delete the segment; a segment that does not exist is no error."""

    def segments(self) -> AsyncIterator[SegmentId]:
        """All segments that this process may find to be orphans."""

    def closed(self) -> list[SegmentId]:
        """The segments that do not change any more and that this process is to check for damage."""

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        """Put segments that nobody lists into quarantine; returns those that were put there.

        They are settled by that, and `segments` has them no more.  One that is asked for is back.
        A segment stays where it is if it is damaged, so that it cannot be settled.
        """

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        """Delete what was set aside before a time; returns the segments among it."""

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        """Put copies of damaged entries into quarantine; durable on return."""

    async def close(self) -> None:
        """Make everything durable, checkpoint, and release the data directory."""


Version = int
"""Opaque; differs whenever the value was written."""


class Absent(Enum):
    """Passed as `expect`: the key must not exist yet."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Versioned(NamedTuple):
    value: bytes
    version: Version


class Change(NamedTuple):
    """A key that changed; `value` is None when it was deleted."""

    key: str
    value: bytes | None
    version: Version


class Resync(Enum):
    """Changes may have been missed: list the prefix again."""

    RESYNC = "resync"


RESYNC = Resync.RESYNC


class Changes(Protocol):
    """The changes under one prefix, in order; for one reader."""

    def __aiter__(self) -> AsyncIterator[Change | Resync]: ...
    async def __anext__(self) -> Change | Resync: ...

    def end(self) -> None:
        """No more changes will come; those that came may still be read."""


@dataclass(frozen=True)
class Lease:
    """Keys put under a lease are deleted when its owner stops renewing it."""

    id: str


class MetadataStore(Protocol):
    """Small values under paths such as `/topics/...`, each with a version.

    Single-key compare-and-set is all there is: it fits SQLite, etcd, ZooKeeper.
    It is never used per message.  The writes of one process take place, and end, in the order in
    which it asks for them.
    """

    async def get(self, key: str) -> Versioned | None:
        """The value, or None if there is none."""

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
    ) -> Version:
        """Write durably if the key is at version `expect` (None: at any), else `BadVersion`.

        `Unavailable` means the outcome is unknown: read the key to find out.
        """

    async def delete(self, key: str, expect: Version | None = None) -> None:
        """Delete the key if it is at version `expect` (None: at any, and it may be missing)."""

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """Keys that start with `prefix` and sort after `after`, in order."""

    def watch(self, prefix: str) -> Changes:
        """Changes under `prefix` from now on, those made by this process included.

        They end when the store is closed, or can be reached no more.
        """

    async def lease(self, ttl_seconds: float) -> Lease:
        """A lease of this process; a local store's lasts as long as the process."""

    async def revoke(self, lease: Lease) -> None:
        """End the lease now: its keys are deleted."""

    async def close(self) -> None:
        """Release the store."""
