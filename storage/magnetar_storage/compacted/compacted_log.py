"""Reading a log's compacted data by offset, also where the log's own entries are deleted."""

from collections import OrderedDict

from magnetar_storage.compacted.compacted_part import PartReader, Stretch
from magnetar_storage.errors import NoSegment, StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log.compacted_record import Compacted, CompactedPart
from magnetar_storage.log.log import Log

MAX_READERS = 4
"""The most parts that are kept open; each keeps a map of up to a megabyte in memory."""
NOTHING = Compacted(0)


class CompactedLog:
    """The compacted data that the log's record lists at present."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: OrderedDict[SegmentId, PartReader] = OrderedDict()

    @property
    def listed(self) -> Compacted:
        """The compacted data at present; `NOTHING` before the first compaction."""
        return self._log.record.compacted or NOTHING

    @property
    def horizon(self) -> int:
        """The offset before which entries are read from compacted data, not from the log."""
        return self.listed.horizon

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Stretch | None:
        """Read entries of one ledger, the first at or after `offset`; None if there are none."""
        while True:
            listed = self.listed
            try:
                return await self._read(listed, offset, max_entries, max_bytes)
            except StorageError:
                if listed is self.listed:
                    raise
                # A compaction has replaced it meanwhile: continue in the new data.

    async def _read(
        self, listed: Compacted, offset: int, max_entries: int, max_bytes: int
    ) -> Stretch | None:
        for part in listed.parts[listed.part_of(offset) :]:
            reader = await self._reader(part)
            at = reader.map.at(offset)
            if at < part.entries:
                return await reader.read(at, max_entries, max_bytes)
        return None

    async def offset_at(self, ledger: int, entry: int) -> int:
        """Return the offset of a position that the log may have deleted, or of the next kept."""
        while True:
            listed = self.listed
            if not listed.parts:
                return listed.horizon
            part = listed.parts[listed.part_at(ledger, entry)]
            try:
                offset = (await self._reader(part)).map.offset_at(ledger, entry)
                return max(min(offset, listed.horizon), 0)
            except StorageError:
                if listed is self.listed:
                    raise

    async def last(self) -> Stretch | None:
        """Read the last entry only; None if there is none."""
        while True:
            listed = self.listed
            if not listed.parts:
                return None
            try:
                reader = await self._reader(listed.parts[-1])
                return await reader.read(listed.parts[-1].entries - 1, 1, 1)
            except StorageError:
                if listed is self.listed:
                    raise

    async def _reader(self, part: CompactedPart) -> PartReader:
        reader = self._open.get(part.segment)
        if reader is None:
            store = self._log.engine.store
            reader = await PartReader.open(store, part.segment, part.entries)
            if part.segment in self._open or part.segment not in self.listed.segments:
                reader.close()  # another coroutine opened it meanwhile, or it was replaced
                if part.segment not in self._open:
                    raise NoSegment(f"compacted data in segment {part.segment} was replaced")
                return self._open[part.segment]
            self._open[part.segment] = reader
        self._open.move_to_end(part.segment)
        while len(self._open) > MAX_READERS:
            self._open.popitem(last=False)[1].close()
        return reader

    def forget_replaced(self) -> None:
        """Close the parts that the record no longer lists."""
        replaced = [s for s in self._open if s not in self.listed.segments]
        self._log.engine.damage.forget_segments(replaced)
        for segment in replaced:
            self._open.pop(segment).close()

    def close(self) -> None:
        """Close all parts."""
        while self._open:
            self._open.popitem()[1].close()
