"""Writing compacted data: new parts, hidden in the trash until one change lists them all."""

from magnetar_storage.compacted.compacted_part import PartMap, Stretch
from magnetar_storage.interfaces import SegmentId, SegmentKind, SegmentWriter
from magnetar_storage.log.compacted_record import Compacted, CompactedPart
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.runtime.execution import Promise, settling

PART_ENTRIES = 1 << 17
PART_BYTES = 256 << 20
APPEND_BYTES = 512 << 10
"""The size of an append; small, since other topics need the journal too."""


class Scratch:
    """Temporary segments, listed as trash while in use so that the next start deletes them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._segments: set[SegmentId] = set()

    async def create(self, kind: SegmentKind) -> SegmentWriter:
        """Create a further segment."""
        writer = await self._log.stored_record.create_in_trash(self._log.origin_of(kind))
        self._segments.add(writer.segment)
        return writer

    def settled(self) -> None:
        """Let `StoredRecord.empty_trash` delete the segments that the record does not use."""
        self._log.stored_record.unfinished -= self._segments
        self._segments.clear()


class Appender:
    """Appends to one segment in pieces, and waits for each when the next one comes."""

    def __init__(self, log: Log, writer: SegmentWriter) -> None:
        self.segment = writer.segment
        self.entries = 0
        self._clock = log.engine.clock
        self._writer = writer
        self._under_way: Promise | None = None

    async def append(self, payloads: list[bytes], counts: list[int]) -> None:
        """Queue entries once earlier ones are durable; the caller must not reuse the lists."""
        await self.durable()
        self._under_way = self._clock.promise()
        self._writer.append(payloads, counts, settling(self._under_way))
        self.entries += len(payloads)

    async def append_each(self, payloads: list[bytes]) -> None:
        """Append each entry separately, for entries without messages that are read one by one."""
        await self.durable()
        for payload in payloads[:-1]:
            self._writer.append([payload], [0], _nothing)
        self.entries += len(payloads) - 1
        await self.append(payloads[-1:], [0])

    async def durable(self) -> None:
        """Wait until all appends are durable; raises the error if one failed."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            await under_way

    async def seal(self) -> None:
        """Wait until all appends are durable and seal the segment."""
        await self.durable()
        await self._writer.seal()


class CompactedWriter:
    """Takes the entries in order; then `end`, and `list` replaces the earlier compacted data.

    The last part ends with the list of parts for the record, so that they are found if the record
    is lost.
    """

    def __init__(self, log: Log, scratch: Scratch) -> None:
        self._log = log
        self._scratch = scratch
        self._parts: list[CompactedPart] = []
        self._part: Appender | None = None
        self._map = PartMap()
        self._first = (0, 0, 0)  # the part's first offset, ledger and entry
        self._size = self._messages = 0
        self._horizon = 0
        self._payloads: list[bytes] = []
        self._counts: list[int] = []
        self._gathered = 0

    async def add(self, stretch: Stretch) -> None:
        """Append the entries of a stretch."""
        if not stretch.payloads:
            return
        # Only when there are further entries: the last part is ended by `end`.
        if len(self._map.offsets) >= PART_ENTRIES or self._size >= PART_BYTES:
            await self._end_part()
        if self._part is None:
            new = await self._scratch.create(SegmentKind.COMPACTED)
            self._part = Appender(self._log, new)
            first = stretch.offsets[0]
            self._first = first, stretch.ledger, first - stretch.base
        self._map.add(stretch.ledger, stretch.base, stretch.offsets)
        self._payloads += stretch.payloads
        self._counts += stretch.counts
        self._messages += sum(stretch.counts)
        self._gathered += sum(map(len, stretch.payloads))
        if self._gathered >= APPEND_BYTES:
            await self._write(self._part)

    async def _write(self, part: Appender) -> None:
        payloads, counts = self._payloads, self._counts
        self._payloads, self._counts = [], []
        self._size, self._gathered = self._size + self._gathered, 0
        await part.append(payloads, counts)

    async def _end_part(self, horizon: int | None = None) -> None:
        """End the present part, if there is one; with `horizon` it is the last one."""
        part, self._part = self._part, None
        if part is None:
            return
        if self._payloads:
            await self._write(part)
        entries, messages = part.entries, self._messages
        first, ledger, entry = self._first
        self._parts.append(
            CompactedPart(part.segment, first, ledger, entry, entries, messages, self._size)
        )
        # Behind the entries, so that an entry's number is its index in the map.
        pieces = self._map.pieces()
        if horizon is not None:
            # promise: compacted data is found without the record
            pieces.append(Compacted(horizon, tuple(self._parts)).encode())
        await part.append_each(pieces)
        await part.seal()  # promise: compacted data is sealed before it is listed
        self._map, self._size, self._messages = PartMap(), 0, 0

    async def end(self, horizon: int) -> None:
        """Write the rest and end; all entries below `horizon` were added."""
        self._horizon = horizon
        await self._end_part(horizon)

    async def list(self) -> Compacted:
        """List the new data in the record, and the old data as trash; durable on return.

        If this fails, the change may have taken place: the new parts must not be deleted then.
        """
        compacted = Compacted(self._horizon, tuple(self._parts))

        def listing(record: LogRecord) -> LogRecord:
            return record.with_compacted(compacted)

        await self._log.stored_record.commit(listing)
        return compacted


def _nothing(error: BaseException | None) -> None:
    """Ignore the outcome: the last append has that of all, since they are in order."""
