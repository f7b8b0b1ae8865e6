"""A cache of one directory's finished segments, with their indexes: the most recently used."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.execution import Worker


class FinishedSegments:
    """A cache of segments whose file has a footer and no longer changes."""

    def __init__(
        self, disk: ReadableDisk, reads: Worker, limit: int, report: Callable[[Finding], None]
    ) -> None:
        """Keep at most `limit` segments; `report` is called with damage that loses no entry."""
        self._disk = disk
        self._reads = reads
        self._limit = limit
        self._report = report
        self._kept: OrderedDict[SegmentId, LocalSegment] = OrderedDict()

    def present(self, number: SegmentId) -> LocalSegment | None:
        """Return the segment; None if it is not in memory."""
        found = self._kept.get(number)
        if found is not None:
            self._kept.move_to_end(number)
        return found

    async def load(self, number: SegmentId) -> LocalSegment:
        """Load the segment from its file; `NoSegment` if the file does not exist."""
        # In the thread of reads: an index may have 50,000 entries, and its file may not be cached.
        index, trouble = await self._reads.run(partial(footer.load, self._disk, number))
        if trouble is not None:
            self._report(Finding(segment.file_name(number), 0, trouble, number))
        if number not in self._kept:  # else another caller has loaded it meanwhile
            self.keep(LocalSegment(number, index, index.offsets[-1], index.sealed()))
        return self._kept[number]

    def keep(self, one: LocalSegment) -> None:
        """Add a segment whose file has just been given a footer."""
        self._kept[one.id] = one
        # Indexes of all segments would not fit into memory: there may be a million.
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def pop(self, number: SegmentId) -> LocalSegment | None:
        """Remove a deleted segment; returns it if it was in memory."""
        return self._kept.pop(number, None)
