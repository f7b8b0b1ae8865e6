"""The segments of all store directories of a data directory, for one of its processes.

A process creates segments in one directory.  It reads and deletes segments of others, because
topics move between workers: what a topic has appended before stays where it is.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

from magnetar_storage.errors import NoSegment, StorageError, Unavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import DamagedEntries, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.joined import belonging
from magnetar_storage.joined.foreign_directory import ForeignDirectory
from magnetar_storage.local import directories
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.local.segment_writer import LocalReader, LocalWriter
from magnetar_storage.local.store import LocalStore


class JoinedStore:
    """A `SegmentStore` over directories that are open here and directories that others have."""

    def __init__(
        self,
        own: int,
        opened: Mapping[int, LocalStore],
        foreign: Mapping[int, ForeignDirectory],
        findings: list[Finding],
    ) -> None:
        """`own` is the directory for new segments, one of those `opened` by this process."""
        self.findings = findings
        """As `LocalStore.findings`, of all directories."""
        self._own = opened[own]
        self._opened = opened
        self._directories: dict[int, LocalStore | ForeignDirectory] = {**opened, **foreign}

    def belong(self, identity: Callable[[], Identity]) -> None:
        """Have everything from now on note what `identity` returns then: the data directory, and
        what its metadata has stored durably.  Call `compare` before.
        """
        for store in self._opened.values():
            store.identity = identity

    def compare(self, metadata: Identity) -> None:
        """`Incomplete` if the metadata lacks what a journal proves: it is an older copy.

        To be called before any process of the broker notes anything of this metadata.
        """
        noted = {
            directories.path_of(number, "journal"): store.identity()
            for number, store in self._opened.items()
        }
        # promise: metadata is refused that is older than a segment in a journal
        belonging.compare(noted, metadata)

    @property
    def trouble(self) -> StorageError | None:
        return self._own.trouble

    @property
    def is_failing(self) -> bool:
        return self._own.is_failing

    @property
    def replayed_bytes(self) -> int:
        """How much of the journals of the directories that are open here the start has read."""
        return sum(store.replayed_bytes for store in self._opened.values())

    @property
    def last_id(self) -> SegmentId:
        """No segment of the directories that are open here has, or had, a larger id."""
        return max(store.last_id for store in self._opened.values())

    async def advance_beyond(self, segment: SegmentId) -> None:
        """As `LocalStore.advance_beyond`, for new segments.

        Before this process serves a topic, call it with the largest id of every process that has
        served it: on a start, with the largest `last_id` of all.
        """
        await self._own.advance_beyond(segment)

    @property
    def directories(self) -> Mapping[int, LocalStore]:
        """The stores that are open here, by the number of their directory."""
        return self._opened

    def opened(self, segment: SegmentId) -> LocalStore:
        """Its store, for answering another process; `Unavailable` if it is not open here."""
        number = directory_of(segment)
        if number not in self._opened:
            raise Unavailable(f"segment {segment} is in directory {number}, which is not open here")
        return self._opened[number]

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> LocalWriter:
        return await self._own.create(origin, beyond)

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        return await self._directory(segment).origin(segment)

    async def recover(self, segment: SegmentId) -> Sealed:
        return await self._directory(segment).recover(segment)

    async def reader(self, segment: SegmentId) -> LocalReader:
        return await self._directory(segment).reader(segment)

    async def delete(self, segment: SegmentId) -> None:
        found = self._directories.get(directory_of(segment))
        if found is not None:
            # promise[found -> self._own]: a process deletes through the directory that owns the
            #   segment
            await found.delete(segment)

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        """As `SegmentStore.set_aside`, of segments that `segments` has named."""
        moved: dict[SegmentId, Sealed] = {}
        for number, store in self._opened.items():
            own = [segment for segment in segments if directory_of(segment) == number]
            if own:
                moved |= await store.set_aside(own, why)
        return moved

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        """As `SegmentStore.keep_damaged`, in the directory for new segments."""
        await self._own.keep_damaged(entries, why)

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        """As `SegmentStore.delete_set_aside`, of the directories that are open here."""
        deleted: list[SegmentId] = []
        for store in self._opened.values():
            deleted += await store.delete_set_aside(before_ms)
        return deleted

    async def segments(self) -> AsyncIterator[SegmentId]:
        """Those of the directories that are open here."""
        for store in self._opened.values():
            async for segment in store.segments():
                yield segment

    def closed(self) -> list[SegmentId]:
        """Those of the directories that are open here."""
        return [segment for store in self._opened.values() for segment in store.closed()]

    async def close(self) -> None:
        """Close every directory that is open here; then raise what failed first."""
        failure: BaseException | None = None
        # Directory 0 is the last: its lock is that of the data directory.
        for number in sorted(self._opened, reverse=True):
            try:
                await self._opened[number].close()
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _directory(self, segment: SegmentId) -> LocalStore | ForeignDirectory:
        number = directory_of(segment)
        found = self._directories.get(number)
        if found is None:
            name = directories.name_of(number)
            raise NoSegment(f"there is no segment {segment}: the data directory has no {name}")
        return found
