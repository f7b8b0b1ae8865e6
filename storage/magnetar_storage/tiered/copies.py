"""The `SegmentCopies` of a broker: threads, stores of objects by place, and names of objects."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from magnetar_storage.errors import LogClosed
from magnetar_storage.interfaces import CopyCounts, SegmentCopy, SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segments
from magnetar_storage.local.segment_writer import LocalReader, LocalSegment
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.objects.object_disk import ObjectDisk, StoredFile
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.tiered import copying
from magnetar_storage.tiered.read_ahead import ReadAhead

OpenPlace = Callable[[str], Objects]
"""Opens the store of objects of a place; called in threads, `Unavailable` if that fails."""


class FinishedFiles(Protocol):
    """The files of the finished segments of a store."""

    async def finished_file(self, segment: SegmentId) -> ReadableDisk:
        """Finish the file of a settled segment, and return the disk that has it.

        `NoSegment` if the segment does not exist.
        """


class TieredCopies:
    """Copies segments in threads of their own, so that nobody else waits for the network."""

    def __init__(
        self,
        files: FinishedFiles,
        open_place: OpenPlace,
        uploads: Sequence[Worker],
        reads: Sequence[Worker],
        cache_bytes: int,
        prefix: Callable[[], str],
        nonce: Callable[[], str],
    ) -> None:
        """`uploads` and `reads` are threads that work at the same time, each on segments of its
        own; `reads` keep `cache_bytes` of objects together.  Names of objects begin with `prefix`,
        which no other data directory has, and end with a `nonce`, which never comes twice.
        """
        self._files = files
        self._uploads = [(worker, _Places(open_place)) for worker in uploads]
        self._lanes = [_Lane(worker, open_place, cache_bytes // len(reads)) for worker in reads]
        self._prefix = prefix
        self._nonce = nonce
        self._copied_bytes = self._copy_errors = self._deleted = 0

    @property
    def counts(self) -> CopyCounts:
        """The numbers since the start of this process."""
        ahead = [one for lane in self._lanes for one in lane.opened]
        return CopyCounts(
            self._copied_bytes,
            self._copy_errors,
            sum(one.read_bytes for one in ahead),
            sum(one.read_errors for one in ahead),
            self._deleted,
        )

    def new_name(self, segment: SegmentId) -> str:
        """Return `prefix/segment-nonce.seg`."""
        return f"{self._prefix()}/{segment:016x}-{self._nonce()}.seg"

    async def upload(
        self, segment: SegmentId, copy: SegmentCopy, goes_on: Callable[[], bool]
    ) -> int:
        """Copy a segment as `copying.copy` does."""
        disk = await self._files.finished_file(segment)
        worker, places = self._uploads[segment % len(self._uploads)]

        def job() -> int:
            return copying.copy(disk, segment, places.of(copy.place), copy.name, goes_on)

        try:
            size = await worker.run(job)
        except LogClosed:
            raise
        except Exception:
            self._copy_errors += 1
            raise
        self._copied_bytes += size
        return size

    async def reader(self, segment: SegmentId, copy: SegmentCopy) -> LocalReader:
        """Open a copy with two requests, one for its trailer and one for its index."""
        return await self._lanes[segment % len(self._lanes)].reader(segment, copy)

    async def delete(self, copy: SegmentCopy) -> None:
        """Delete the object in a thread of the uploads."""
        worker, places = self._uploads[0]
        await worker.run(lambda: places.of(copy.place).delete(copy.name))
        self._deleted += 1


class _Places:
    """The stores of objects that one thread uses, opened when they are needed first."""

    def __init__(self, open_place: OpenPlace) -> None:
        self._open = open_place
        self._opened: dict[str, Objects] = {}

    def of(self, place: str) -> Objects:
        found = self._opened.get(place)
        if found is None:
            found = self._opened[place] = self._open(place)
        return found


class _Lane:
    """One thread that reads copies, with what it has read ahead."""

    def __init__(self, worker: Worker, open_place: OpenPlace, cache_bytes: int) -> None:
        self._worker = worker
        self._places = _Places(open_place)
        self._cache_bytes = cache_bytes
        self._ahead: dict[str, ReadAhead] = {}

    @property
    def opened(self) -> list[ReadAhead]:
        """The readers of the places that were opened."""
        return list(self._ahead.values())

    async def reader(self, segment: SegmentId, copy: SegmentCopy) -> LocalReader:
        disk, opened = await self._worker.run(partial(self._load, segment, copy))
        return LocalReader(opened, disk, self._worker)

    def _load(self, segment: SegmentId, copy: SegmentCopy) -> tuple[ObjectDisk, LocalSegment]:
        """Load the index, in the thread."""
        ahead = self._ahead.get(copy.place)
        if ahead is None:
            objects = self._places.of(copy.place)
            ahead = self._ahead[copy.place] = ReadAhead(objects, copy.place, self._cache_bytes)
        file = StoredFile(copy.name, copy.size)
        disk = ObjectDisk(ahead, {segments.file_name(segment): file})
        index, _ = footer.load(disk, segment)
        return disk, LocalSegment(segment, index, index.offsets[-1], index.sealed())
