"""The segments of all store directories of a data directory, for one of its processes.

A process creates segments in one directory.  It reads and deletes segments of others, because
topics move between workers: what a topic has appended before stays where it is.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

from magnetar_storage.errors import NoSegment, StorageError, Unavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import DamagedEntries, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local import directories
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.local.segment_writer import LocalReader, LocalWriter
from magnetar_storage.local.store import LocalStore
from magnetar_storage.multi_store import belonging
from magnetar_storage.multi_store.foreign_directory import ForeignDirectory
from magnetar_storage.runtime.disk import ReadableDisk


class JoinedStore:
    """A `SegmentStore` over directories open in this process and directories open in others."""

    def __init__(
        self,
        own: int,
        opened: Mapping[int, LocalStore],
        foreign: Mapping[int, ForeignDirectory],
        findings: list[Finding],
    ) -> None:
        """`own` is the directory for new segments, one of those `opened` by this process."""
        self.findings = findings
        """The findings of all directories, like `LocalStore.findings`."""
        self._own = opened[own]
        self._opened = opened
        self._directories: dict[int, LocalStore | ForeignDirectory] = {**opened, **foreign}

    def belong(self, identity: Callable[[], Identity]) -> None:
        """Set the function whose result the stores note from now on.

        `identity` returns the id of the data directory, and the starts and the revision that its
        metadata has stored durably.  Call `compare` first.
        """
        for store in self._opened.values():
            store.identity = identity

    def compare(self, metadata: Identity) -> None:
        """Raise `Incomplete` if a journal proves that the metadata is an older copy.

        Call this before any process of the broker notes the state of this metadata.
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
        """The bytes that this process replayed from journals when it opened its directories."""
        return sum(store.replayed_bytes for store in self._opened.values())

    @property
    def last_id(self) -> SegmentId:
        """An upper bound of all segment ids, past and present, in this process's directories."""
        return max(store.last_id for store in self._opened.values())

    async def advance_beyond(self, segment: SegmentId) -> None:
        """Assign only ids above `segment` to new segments; durable on return.

        Before this process serves a topic, call it with the largest id of every process that has
        served it: on a start, with the largest `last_id` of all.
        """
        await self._own.advance_beyond(segment)

    @property
    def directories(self) -> Mapping[int, LocalStore]:
        """The stores open in this process, by directory number."""
        return self._opened

    def opened(self, segment: SegmentId) -> LocalStore:
        """Return the segment's store, to answer another process; `Unavailable` if not open here."""
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

    async def finished_file(self, segment: SegmentId) -> ReadableDisk:
        """Finish a segment, and return the disk of the directory that has its file."""
        return await self._directory(segment).finished_file(segment)

    async def delete(self, segment: SegmentId) -> None:
        found = self._directories.get(directory_of(segment))
        if found is not None:
            # promise[found -> self._own]: a process deletes through the directory that owns the
            #   segment
            await found.delete(segment)

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        """Move segments that `segments` has yielded to quarantine."""
        moved: dict[SegmentId, Sealed] = {}
        for number, store in self._opened.items():
            own = [segment for segment in segments if directory_of(segment) == number]
            if own:
                moved |= await store.set_aside(own, why)
        return moved

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        """Keep a copy of damaged entries in the directory for new segments."""
        await self._own.keep_damaged(entries, why)

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        """Delete old files of quarantine in the directories open in this process."""
        deleted: list[SegmentId] = []
        for store in self._opened.values():
            deleted += await store.delete_set_aside(before_ms)
        return deleted

    async def segments(self) -> AsyncIterator[SegmentId]:
        """List the segments of the directories open in this process, as `SegmentStore` requires."""
        for store in self._opened.values():
            async for segment in store.segments():
                yield segment

    def closed(self) -> list[SegmentId]:
        """List the segments of the directories open in this process, as `SegmentStore` requires."""
        return [segment for store in self._opened.values() for segment in store.closed()]

    async def close(self) -> None:
        """Close all directories open in this process, then raise the first error."""
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
