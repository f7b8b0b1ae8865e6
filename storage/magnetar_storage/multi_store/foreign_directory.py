"""A store directory that is open in another process."""

from functools import partial

from magnetar_storage.interfaces import Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local import segment_origin
from magnetar_storage.local.finished_segments import FinishedSegments
from magnetar_storage.local.segment_writer import LocalReader
from magnetar_storage.multi_store.holder import Holder
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.execution import Worker


class ForeignDirectory:
    """A directory whose holder settles and deletes segments; finished files are read here."""

    def __init__(
        self, disk: ReadableDisk, reads: Worker, holder: Holder, files: FinishedSegments
    ) -> None:
        self._disk = disk
        self._reads = reads
        self._holder = holder
        self._files = files

    async def recover(self, segment: SegmentId) -> Sealed:
        return await self._holder.recover(segment)

    async def reader(self, segment: SegmentId) -> LocalReader:
        found = self._files.present(segment)
        if found is None:
            # A file that is not finished lacks entries, or has some that do not count.
            # promise: a foreign segment is read only when its file is finished
            await self._holder.finish(segment)
            found = await self._files.load(segment)
        return LocalReader(found, self._disk, self._reads)

    async def finished_file(self, segment: SegmentId) -> ReadableDisk:
        """Ask the holder to finish the segment, and return the disk that has its file."""
        await self._holder.finish(segment)
        return self._disk

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        await self._holder.finish(segment)
        named = await self._reads.run(partial(segment_origin.read, self._disk, segment))
        return None if named is None else named.origin

    async def delete(self, segment: SegmentId) -> None:
        await self._holder.delete(segment)
        self._files.pop(segment)
