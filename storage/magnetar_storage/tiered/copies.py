"""The `SegmentCopies` of a broker: changes and reads of copies, and the names of objects."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from magnetar_storage.errors import LogClosed, NoObject, Unavailable
from magnetar_storage.interfaces import CopyCounts, SegmentCopy, SegmentId
from magnetar_storage.local.segment_writer import LocalReader
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.tiered import copying, own_objects
from magnetar_storage.tiered.open_places import OpenPlace, OpenPlaces
from magnetar_storage.tiered.place_threads import AllThreads, PlaceThreads

T = TypeVar("T")

AWAY_SECONDS: Final = 10
"""The time for which no change is tried in a place that could not be reached."""


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
        new_workers: Callable[[], Sequence[Worker]],
        cache_bytes: int,
        prefix: Callable[[], str],
        nonce: Callable[[], str],
        uptime: Callable[[], float],
    ) -> None:
        """`new_workers` returns threads, which work at the same time: a place has some for uploads
        and others for reads, and `cache_bytes` of all places are read ahead.  Names of objects
        begin with `prefix`, which no other data directory has, and end with a `nonce`, which never
        comes twice.
        """
        self._files = files
        self._open = OpenPlaces(open_place)
        self._threads = AllThreads(new_workers, cache_bytes)
        self._prefix = prefix
        self._nonce = nonce
        self._uptime = uptime
        self._places: dict[str, _Place] = {}
        self._copied_bytes = self._copy_errors = self._deleted = 0

    @property
    def counts(self) -> CopyCounts:
        """The numbers since the start of this process."""
        ahead = [lane.ahead for lane in self._threads.lanes]
        return CopyCounts(
            self._copied_bytes,
            self._copy_errors,
            sum(one.read_bytes for one in ahead),
            sum(one.read_errors for one in ahead),
            self._deleted,
        )

    def new_name(self, segment: SegmentId) -> str:
        """Return a name with the prefix and a nonce."""
        return own_objects.name_of(self._prefix(), segment, self._nonce())

    async def upload(
        self, segment: SegmentId, copy: SegmentCopy, goes_on: Callable[[], bool]
    ) -> int:
        """Copy a segment as `copying.copy` does."""
        disk = await self._files.finished_file(segment)
        place = self._place(copy.place)

        def job() -> int:
            return copying.copy(disk, segment, place.objects(), copy.name, goes_on)

        try:
            size = await place.change(copy.name, job)
        except LogClosed:
            raise
        except Exception:
            self._copy_errors += 1
            raise
        self._copied_bytes += size
        return size

    async def is_there(self, copy: SegmentCopy) -> bool:
        """Return whether the object of a complete copy exists, with its size; one request."""
        place = self._place(copy.place)

        def job() -> bool:
            try:
                return place.objects().size(copy.name) == copy.size
            except NoObject:
                return False

        return await place.change(copy.name, job)

    async def reader(self, segment: SegmentId, copy: SegmentCopy) -> LocalReader:
        """Open a copy in the thread that reads it."""
        place = self._place(copy.place)
        return await place.threads.lane(copy.name).reader(place, segment, copy)

    async def delete(self, copy: SegmentCopy) -> None:
        """Delete the object in a thread of the uploads, unless another directory may use it."""
        # promise[never]: a data directory that was copied deletes no object of the other one
        if not own_objects.is_own(self._prefix(), copy.name):
            return
        place = self._place(copy.place)

        def job() -> bool:
            # promise: a data directory deletes no object that a copy of it may list
            if own_objects.is_shared(place.objects(), self._prefix()):
                return False
            place.objects().delete(copy.name)
            return True

        if await place.change(copy.name, job):
            self._deleted += 1

    def _place(self, text: str) -> "_Place":
        found = self._places.get(text)
        if found is None:
            found = _Place(text, self._open, self._threads.assign(), self._uptime)
            self._places[text] = found
        return found


class _Place:
    """A store of objects, and whether it could be reached."""

    __slots__ = ("_away_until", "_open", "_uptime", "_why_away", "text", "threads")

    def __init__(
        self, text: str, open_places: OpenPlaces, threads: PlaceThreads, uptime: Callable[[], float]
    ) -> None:
        self.text = text
        self.threads = threads
        self._open = open_places
        self._uptime = uptime
        self._away_until = 0.0
        self._why_away = ""

    async def change(self, name: str, job: Callable[[], T]) -> T:
        """Run a job on an object in a thread, after all earlier ones on the object.

        For some seconds after the place could not be reached all jobs fail at once: very many may
        wait, and each would wait for its own answer.
        """
        return await self.threads.upload(name).run(lambda: self._attempt(job))

    def _attempt(self, job: Callable[[], T]) -> T:
        if self._uptime() < self._away_until:
            raise Unavailable(f"{self._why_away}; it is tried again in {AWAY_SECONDS} s")
        try:
            return job()
        except LogClosed:
            raise
        except Unavailable as error:
            self._away_until, self._why_away = self._uptime() + AWAY_SECONDS, str(error)
            raise

    def objects(self) -> Objects:
        """Return the store; called in any of the threads."""
        return self._open.get(self.text)
