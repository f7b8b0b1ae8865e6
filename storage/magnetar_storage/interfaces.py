"""What a storage engine is: segments of entries, and versioned metadata.

Local disk, object stores and BookKeeper must all fit behind these classes.  One
conformance suite (`tests/storage/test_conformance.py`) runs against every driver:

1. an append that was reported durable is returned by any later `recover`;
2. after `recover` returns, no append on the old writer is reported durable;
3. concurrent recoveries agree on the end;
4. appends never reported may survive a recovery, but without gaps or reordering;
5. one failed append fails all later ones: the writer is dead, and the caller rolls over;
6. missing (`NoSegment`), unknown (`Unavailable`) and damaged (`Corrupt`) are three answers;
7. a `seal` whose outcome is unknown is settled by `recover`.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from magnetar_storage.errors import StorageError
from magnetar_storage.world import Done

SegmentId = int
"""Names a segment for ever: ids only grow and are never used again (the wire's ledger id)."""


class Run(NamedTuple):
    """Consecutive entries: entry `first + i` is `payloads[i]` and holds `counts[i]` messages."""

    first: int
    payloads: list[bytes]
    counts: Sequence[int]


class Sealed(NamedTuple):
    """The settled end of a segment; `entries - 1` is its last entry's id."""

    entries: int
    messages: int
    size: int
    """Bytes of all payloads."""


class SegmentWriter(Protocol):
    """The only one who may append to a segment."""

    @property
    def segment(self) -> SegmentId: ...

    @property
    def confirmed(self) -> int:
        """The last durable entry's id, -1 while there is none."""

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        """Queue a run of entries and return the first one's id (ids are 0, 1, 2...).

        `counts[i]` is how many messages entry i holds; the store only adds them up.
        `done(None)` comes when the whole run is durable, in the order of the appends;
        `done(error)` when it is not, and then for every later append too.  The sequences
        belong to the writer from here on.  A callback a run, not a future an entry.
        """

    async def seal(self) -> Sealed:
        """Wait for all appends, then close the segment for good."""


class SegmentReader(Protocol):
    """Reads one segment, sealed or growing; never past the last durable entry."""

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        """Entries from `first` on: at least one if there is any, else an empty run.

        Raises `Corrupt` when the first entry asked for is damaged; damage further on
        ends the run before it.
        """

    def messages_before(self, entry: int) -> int:
        """How many messages entries 0..entry-1 hold; `entry` may be one past the last."""

    def close(self) -> None:
        """Give back what the reader holds."""


class SegmentStore(Protocol):
    """Creates, settles, reads and removes segments."""

    @property
    def trouble(self) -> StorageError | None:
        """Why nothing can be appended at present; None while all is well."""

    @property
    def is_failing(self) -> bool:
        """Whether the next append is likely to fail: there is trouble, or there was no room."""

    async def create(self) -> SegmentWriter:
        """A new, empty segment with an id above all earlier ones; durable on return."""

    async def recover(self, segment: SegmentId) -> Sealed:
        """Fence any writer, settle the end and seal.  Idempotent; `NoSegment` if missing."""

    async def reader(self, segment: SegmentId) -> SegmentReader:
        """A reader of an existing segment, else `NoSegment`."""

    async def delete(self, segment: SegmentId) -> None:
        """Remove the segment; removing it twice is no error."""

    def segments(self) -> AsyncIterator[SegmentId]:
        """Every segment there is, for finding orphans."""

    async def close(self) -> None:
        """Make everything durable, checkpoint, and release the data directory."""


Version = int
"""Opaque; differs whenever the value was written."""


class Absent(Enum):
    """What `expect` says of a key that must not exist yet."""

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


@dataclass(frozen=True)
class Lease:
    """Keys put under a lease vanish when its holder stops renewing it."""

    id: str


class MetadataStore(Protocol):
    """Small values under paths such as `/topics/...`, each with a version.

    Single-key compare-and-set is all there is: it fits SQLite, etcd, ZooKeeper.
    Nothing per message ever comes here.
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
        """Write durably if the key is as expected (None: whatever it is), else `BadVersion`.

        `Unavailable` means the outcome is unknown: read the key to find out.
        """

    async def delete(self, key: str, expect: Version | None = None) -> None:
        """Remove the key if it is as expected; a missing key is no error unless expected."""

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """Keys that start with `prefix` and sort after `after`, in order."""

    def watch(self, prefix: str) -> AsyncIterator[Change | Resync]:
        """Changes under `prefix` from now on, those made by this process included."""

    async def lease(self, ttl_seconds: float) -> Lease:
        """A lease of this process; a local store's lasts as long as the process."""

    async def revoke(self, lease: Lease) -> None:
        """End the lease now: its keys are deleted."""

    async def close(self) -> None:
        """Release the store."""
