"""The threads that work for places, and their read-ahead."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from magnetar_storage.interfaces import SegmentCopy, SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segments
from magnetar_storage.local.segment_writer import LocalReader, LocalSegment
from magnetar_storage.objects.interfaces import ReadableObjects
from magnetar_storage.objects.object_disk import ObjectDisk, StoredFile
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.tiered.read_ahead import Place, ReadAhead

W = TypeVar("W")

PLACES_APART: Final = 8
"""The most places that have threads of their own; further ones share them."""


class Lane:
    """One thread that reads copies, with what it has read ahead."""

    def __init__(self, worker: Worker, ahead: ReadAhead) -> None:
        self.ahead = ahead
        self._worker = worker

    async def reader(self, place: Place, segment: SegmentId, copy: SegmentCopy) -> LocalReader:
        """Open a copy: with one request, or with two if its index is very long."""
        file = StoredFile(copy.name, copy.size)
        objects: ReadableObjects = self.ahead.of(place)
        disk = ObjectDisk(objects, {segments.file_name(segment): file})

        def load() -> LocalSegment:
            # promise: opening a ledger of usual size costs one request
            self.ahead.open(place, copy.name, copy.size)
            index, _ = footer.load(disk, segment)
            return LocalSegment(segment, index, index.offsets[-1], index.sealed())

        return LocalReader(await self._worker.run(load), disk, self._worker)

    def trim(self) -> None:
        """Drop what exceeds the limit, if the limit was lowered."""
        # The thread of an idle lane is not even started.
        if self.ahead.exceeds_limit():
            self._worker.submit(self.ahead.trim, _raise)


class PlaceThreads:
    """Threads for the uploads of some places, and threads that read there."""

    def __init__(
        self, uploads: Sequence[Worker], reads: Sequence[Worker], lane_bytes: Callable[[], int]
    ) -> None:
        """`lane_bytes` returns the most bytes that each thread reads ahead."""
        self._uploads = uploads
        self.lanes = [Lane(worker, ReadAhead(lane_bytes)) for worker in reads]

    def upload(self, name: str) -> Worker:
        """Return the thread that changes an object: always the same one, so that its jobs stay in
        order."""
        return _of(self._uploads, name)

    def lane(self, name: str) -> Lane:
        """Return the lane that reads an object: always the same one, for its read-ahead."""
        return _of(self.lanes, name)


class AllThreads:
    """The threads of a process: a place that does not answer holds up few others, or none."""

    def __init__(
        self,
        new_workers: Callable[[], Sequence[Worker]],
        cache_bytes: int,
        apart: int = PLACES_APART,
    ) -> None:
        """`apart` places have threads of their own; all lanes together read `cache_bytes` ahead."""
        self._new_workers = new_workers
        self._cache_bytes = cache_bytes
        self._apart = apart
        self._threads: list[PlaceThreads] = []
        self._places = 0
        self._lane_bytes = cache_bytes

    @property
    def lanes(self) -> list[Lane]:
        return [lane for threads in self._threads for lane in threads.lanes]

    def assign(self) -> PlaceThreads:
        """Return the threads for one more place; called once for each."""
        number = self._places % self._apart
        self._places += 1
        # promise[always]: threads have a limit, however many places there are
        if number < len(self._threads):
            return self._threads[number]
        found = PlaceThreads(self._new_workers(), self._new_workers(), lambda: self._lane_bytes)
        before = self.lanes
        self._threads.append(found)
        self._lane_bytes = self._cache_bytes // len(self.lanes)
        for lane in before:
            lane.trim()
        return found


def _of(workers: Sequence[W], name: str) -> W:
    return workers[hash(name) % len(workers)]


def _raise(_: object, error: BaseException | None) -> None:
    if error is not None:
        raise error
