"""Finished segments of one directory in memory, with their indexes: those that were used last."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.world.disk import ReadableDisk
from magnetar_storage.world.runtime import Worker


class FinishedSegments:
    """A cache of segments whose file has a footer, and will not change any more."""

    def __init__(
        self, disk: ReadableDisk, reads: Worker, limit: int, report: Callable[[Finding], None]
    ) -> None:
        """At most `limit` are kept; `report` is called with damage that costs no entry."""
        self._disk = disk
        self._reads = reads
        self._limit = limit
        self._report = report
        self._kept: OrderedDict[SegmentId, LocalSegment] = OrderedDict()

    def present(self, number: SegmentId) -> LocalSegment | None:
        """The segment if it is in memory."""
        found = self._kept.get(number)
        if found is not None:
            self._kept.move_to_end(number)
        return found

    async def load(self, number: SegmentId) -> LocalSegment:
        """The segment, read from its file; `NoSegment` if there is no file."""
        index, trouble = await self._reads.run(partial(footer.load, self._disk, number))
        if trouble is not None:
            self._report(Finding(segment.file_name(number), 0, trouble, number))
        if number not in self._kept:  # else another caller has loaded it meanwhile
            self.keep(LocalSegment(number, index, index.offsets[-1], index.sealed()))
        return self._kept[number]

    def keep(self, one: LocalSegment) -> None:
        """Keep a segment in memory whose file has just got its footer."""
        self._kept[one.id] = one
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def pop(self, number: SegmentId) -> LocalSegment | None:
        """Forget a segment that was deleted; returns it if it was in memory."""
        return self._kept.pop(number, None)
