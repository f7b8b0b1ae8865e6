"""Reading a log: from memory, from its segments, and from the keepers of thinned ones.

What was reclaimed is a hole.  Whoever reads at a hole gets what comes behind it; cursors
take holes for acknowledged (`skip_holes`), so they never ask for one.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from magnetar_storage.cursor import Cursor
from magnetar_storage.engine import Engine
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import Run, SegmentId, SegmentReader
from magnetar_storage.keeper import KeeperReader
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.offsets import OffsetSet
from magnetar_storage.positions import Positions

MAX_READERS = 16
"""Open readers a log keeps, of segments and of keepers; the first opened is closed first."""


class Closes(Protocol):
    def close(self) -> None: ...


R = TypeVar("R", bound=Closes)


class Readers(Generic[R]):
    """Open readers by segment."""

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: dict[SegmentId, R] = {}

    async def get(self, segment: SegmentId, opening: Callable[[SegmentId], Awaitable[R]]) -> R:
        """The segment's reader; `opening` opens it if need be."""
        reader = self._readers.get(segment)
        if reader is None:
            reader = await opening(segment)
            if segment in self._readers:  # another coroutine was faster
                reader.close()
                return self._readers[segment]
            self._readers[segment] = reader
            if len(self._readers) > MAX_READERS:
                self._readers.pop(next(iter(self._readers))).close()
        return reader

    def present(self, segment: SegmentId | None) -> R | None:
        """The segment's reader if it is open."""
        return None if segment is None else self._readers.get(segment)

    def drop(self, segment: SegmentId) -> None:
        """The segment will not be read any more."""
        reader = self._readers.pop(segment, None)
        if reader is not None:
            reader.close()

    def clear(self) -> None:
        """Close all."""
        while self._readers:
            self._readers.popitem()[1].close()


class ReadableLog(Positions):
    """A log's entries and how many messages they hold."""

    def __init__(self, engine: Engine, record: LogRecord) -> None:
        super().__init__(record)
        self.engine = engine
        self.holes = OffsetSet()
        """Offsets whose entries were reclaimed, from the first offset on."""
        self._tail = engine.cache.tail()
        self._readers: Readers[SegmentReader] = Readers()
        self._keepers: Readers[KeeperReader] = Readers()

    async def _reader(self, segment: SegmentId) -> SegmentReader:
        return await self._readers.get(segment, self.engine.store.reader)

    async def _keeper(self, segment: SegmentId) -> KeeperReader:
        return await self._keepers.get(segment, partial(KeeperReader.open, self.engine.store))

    # Entries --------------------------------------------------------------------

    def recent(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Entries from memory, without waiting; None when `offset` is not there."""
        return self._tail.get(offset, max_entries, max_bytes)

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Run:
        """The first entries from `offset` on that are there: a run of one segment, without holes.

        The run tells where it begins, which is later than asked for where entries were
        trimmed or reclaimed.  An empty run is the end.
        """
        while True:
            offset = self.holes.next_missing(max(offset, self.first_offset))
            if offset >= self.end:
                return Run(offset, [], ())
            _, segment, base = self._segment_at(offset)
            stop = min(self.segment_end(offset), self.holes.next_present(offset) or self.end)
            limit = min(max_entries, stop - offset)
            try:
                return await self._read_in(segment, base, offset, limit, max_bytes)
            except StorageError:
                if segment.stored_in in self._record.stored:
                    raise
                # It was trimmed or thinned meanwhile: look again where the entries are.

    def behind_damage(self, offset: int, error: Corrupt | NoSegment) -> int:
        """Where to read on when `read` failed like this: behind what it says, else the segment."""
        offset = self.holes.next_missing(max(offset, self.first_offset))
        stop = self.segment_end(offset)
        if isinstance(error, Corrupt) and error.last_entry is not None:
            stop = min(stop, offset + error.last_entry + 1 - self.position(offset)[1])
        return max(stop, offset + 1)

    async def _read_in(
        self, segment: Segment, base: int, offset: int, max_entries: int, max_bytes: int
    ) -> Run:
        if segment.is_whole:
            reader = await self._reader(segment.id)
            run = await reader.read(offset - base, max_entries, max_bytes)
            return Run(run.first + base, run.payloads, run.counts)
        if segment.kept_in is None:
            raise NoSegment(f"nothing is left of segment {segment.id}")
        try:
            keeper = await self._keeper(segment.kept_in)
            return await keeper.read(offset, max_entries, max_bytes)
        except Corrupt as error:
            raise _in_ledger(error, segment, base) from error

    async def first_where(self, holds: Callable[[bytes], bool]) -> int:
        """The first offset whose payload satisfies `holds`, found by halving; else the end.

        `holds` must not turn false again further on.  Holes are passed over; what is damaged
        counts as what comes behind it.
        """
        low, high = self.first_offset, self.end
        while low < high:
            middle = (low + high) // 2
            run = await self._readable(middle, high)
            if not run.payloads or holds(run.payloads[0]):
                high = middle
            else:
                low = run.first + 1
        return min(self.holes.next_missing(low), self.end)

    async def _readable(self, offset: int, before: int) -> Run:
        """The first entry from an offset on that can be read; none if that is not below another."""
        while offset < before:
            try:
                return await self.read(offset, 1, 1)
            except (Corrupt, NoSegment) as error:
                offset = self.behind_damage(offset, error)
        return Run(offset, [], ())

    # Messages -------------------------------------------------------------------

    def messages_at(self, offset: int) -> int | None:
        """How many messages an entry holds, if that is known without reading."""
        run = self._tail.get(offset, 1, 1)
        if run is not None:
            return run.counts[0]
        if not self.first_offset <= offset < self.end or offset in self.holes:
            return None
        _, segment, base = self._segment_at(offset)
        if segment.is_whole:
            reader = self._readers.present(segment.id)
            if reader is None:
                return None
            entry = offset - base
            return reader.messages_before(entry + 1) - reader.messages_before(entry)
        keeper = self._keepers.present(segment.kept_in)
        before = keeper.messages_before(offset) if keeper is not None else None
        behind = keeper.messages_before(offset + 1) if keeper is not None else None
        return None if before is None or behind is None else behind - before

    async def messages_before(self, offset: int) -> int:
        """How many messages of the whole history lie before `offset`.

        Exact at every entry that is there, right behind it, and at the borders of segments;
        further inside a hole it is what is true at the hole's end, or at its segment's.
        """
        if offset >= self.end:
            return self.messages_end
        if offset <= self.first_offset:
            return self._record.first_messages
        at, segment, base = self._segment_at(offset)  # what is at `at` may move with each await
        messages = await self._messages_base(at)
        if segment.is_whole:
            reader = await self._reader(segment.id)
            return messages + reader.messages_before(offset - base)
        behind = messages + segment.messages
        if offset == base or segment.kept_in is None:
            return messages if offset == base else behind
        keeper = await self._keeper(segment.kept_in)
        within = keeper.messages_before(offset)
        return behind if within is None else min(within, behind)

    async def _messages_base(self, at: int) -> int:
        """How many messages lie before a segment; the one before it may not be settled yet."""
        if self._messages[at] >= 0:
            return self._messages[at]
        before, entries = self._record.segments[at - 1].id, self._bases[at] - self._bases[at - 1]
        messages = await self._messages_base(at - 1)
        reader = await self._reader(before)
        return messages + reader.messages_before(entries)

    # Holes ----------------------------------------------------------------------

    def skip_holes(self, cursor: Cursor) -> None:
        """Make a cursor count what was trimmed or reclaimed as acknowledged.

        A crash may have undone acknowledgements that it had been trimmed for.
        To be called for every cursor of the log when it is new or was opened, when it was
        moved, and when `on_reclaimed` says that entries are gone.
        """
        cursor.ack_up_to(self.first_offset - 1)
        if self.holes:
            cursor.skip(self.holes)

    async def _find_holes(self) -> None:
        """Learn from the keepers what is left of thinned segments.

        Of a damaged keeper nothing is known: nothing is taken for a hole, and whoever still
        needs its entries is told of the damage on reading.
        """
        self.holes.clear()
        for segment, base in zip(self._record.segments, self._bases, strict=True):
            stop = base + (segment.entries or 0)
            if segment.kept_in is not None:
                try:
                    keeper = await self._keeper(segment.kept_in)
                except (Corrupt, NoSegment):
                    continue
                self.holes.add(base, stop)
                for run in keeper.map.runs(base, stop):
                    self.holes.remove(*run)
            elif not segment.is_whole:
                self.holes.add(base, stop)


def _in_ledger(error: Corrupt, segment: Segment, base: int) -> Corrupt:
    """Damage in a keeper, told in the entries of the ledger that they are on the wire."""
    if error.first_entry is None or error.last_entry is None:
        return error
    last = min(error.last_entry - base, (segment.entries or 0) - 1)
    first = max(error.first_entry - base, 0)
    return Corrupt(error.file, error.offset, error.why, segment.id, first, last)
