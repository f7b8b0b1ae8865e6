"""Counts what a subscription has not acknowledged, from the cursor and the log's index.

No counters are kept along with deliveries and acknowledgements, so the numbers are right after a
crash too.  The holes of a cursor are counted chunk by chunk, other work of the event loop in
between, and a chunk is counted again only when it has changed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.subscriptions.batch_masks import full_mask, without_lowest
from magnetar_proto.broker_metadata import stored_time
from magnetar_proto.errors import BadMetadata
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import SIZE, OffsetSet
from magnetar_storage.runtime.execution import yield_turn

YIELD_EVERY = 500
"""Look-ups in the log, of some microseconds each, between two yields to the event loop."""

NOTHING = Backlog(0, 0)
Piece = tuple[int, int, int]
"""Entries as (start, stop, bits): those whose bit is set, or all of them if `bits` is 0."""


class BacklogCounter:
    """Counts the backlog of one cursor; it remembers chunks, so counting again is cheap."""

    def __init__(self, log: Log, cursor: Cursor) -> None:
        self._log = log
        self._cursor = cursor
        self._backlog = ChunkCounts(log)
        self._delayed = ChunkCounts(log)
        self._oldest: tuple[int, int | None] = (-1, None)  # offset, publish time

    async def count(self, delayed: OffsetSet | None = None) -> Backlog:
        """Return the whole backlog; `delayed` are the entries that count as delayed.

        Changes while it runs may be counted or not.  Raises `StorageError`.
        """
        first, end = self._bounds()
        if first >= end:
            return NOTHING
        # promise[without and not delayed]: delayed messages are counted in every subscription
        if self._cursor.is_plain and not delayed:  # as most are
            messages = await self._backlog.whole(first, end)
            return Backlog(messages, end - first, self._size_of_whole(first, end))
        size = sum([share.size for share in self._shares(first, end)])
        acked = self._cursor.acked
        entries = end - first - acked.count(first, end)
        messages = await self._backlog.sum(list(_missing(acked, first, end)))
        messages -= await self._acked_in_part(first, end)
        # Counted with awaits in between, so the two can differ: the delayed must not exceed all.
        late = 0
        if delayed:
            late = await self._delayed.sum(list(_present(delayed, acked, first, end)))
        return Backlog(messages, entries, size, min(late, messages))

    def entries(self) -> int:
        """Return the number of entries of which something is unacknowledged; reads no entries."""
        first, end = self._bounds()
        return end - first - self._cursor.acked.count(first, end)

    async def oldest_ms(self, estimates: bool = False) -> int | None:
        """Return the publish time of the oldest unacknowledged message, in ms since 1970.

        Return None if all messages are acknowledged, or the entry cannot be read.  With `estimates`
        nobody waits for the network: if the entry is only in a store of objects, the result is the
        time at which its ledger was created.
        """
        first, end = self._bounds()
        if first >= end:
            return None
        if estimates and self._oldest[0] != first:
            _, segment, _ = self._log.segment_at(first)
            # promise: statistics and metrics do not wait for a store of objects
            if segment.is_remote:
                return segment.created_ms
        return await self.published_ms(first)

    async def published_ms(self, offset: int) -> int | None:
        """Return the publish time of an entry, or the broker's time if the entry has it.

        None if it is unreadable.  Caches the last result.
        """
        if self._oldest[0] != offset or self._oldest[1] is None:
            self._oldest = (offset, await self._published_ms(offset))
        return self._oldest[1]

    def first_unacked(self) -> int:
        """Return the first entry that is not acknowledged; the log's end if all are."""
        return self._bounds()[0]

    def _bounds(self) -> tuple[int, int]:
        """Return the range (start, stop) that has all unacknowledged entries."""
        end = self._log.end
        return min(self._cursor.next_unacked(self._log.first_offset), end), end

    async def _published_ms(self, offset: int) -> int | None:
        try:
            run = self._log.tail.get(offset, 1, 1) or await self._log.entries.read(offset, 1, 1)
            return stored_time(run.payloads[0]) if run.payloads else None
        except (StorageError, BadMetadata):
            return None  # the dispatcher logs it when it reads the entry for a consumer

    async def _acked_in_part(self, first: int, end: int) -> int:
        """Return the number of acknowledged messages of entries that are acknowledged in part."""
        messages = 0
        # A copy, and each mask looked up again: acknowledgements arrive while a look-up waits.
        for offset in sorted(self._cursor.partial):
            mask = self._cursor.partial.get(offset)
            if mask is not None and first <= offset < end:
                messages += await self._backlog.between(offset, offset + 1) - mask.bit_count()
        return messages

    async def nth(self, messages: int) -> tuple[int, int | None]:
        """Return the position at which the backlog begins without its first `messages`.

        The result is the first entry that is left, and the mask of its messages that are left; the
        mask is None for all of them.
        """
        low, high = self._bounds()
        first, counts = low, ChunkCounts(self._log)
        # By halves: the index knows how many messages are before an entry, not the reverse.
        while low < high:  # before `low` there are no more than `messages`
            middle = (low + high + 1) // 2
            if await self._before(first, middle, counts) <= messages:
                low = middle
            else:
                high = middle - 1
        over = messages - await self._before(first, low, counts)
        if low >= self._log.end or over <= 0:
            return low, None
        mask = full_mask(await counts.between(low, low + 1))
        # A batch that claims too many messages is only skipped as a whole (`batch_masks`).
        if mask is None:
            return low + 1, None
        return low, without_lowest(self._cursor.partial.get(low, mask), over)

    async def messages_between(self, first: int, stop: int) -> int:
        """Return how many messages of the entries first..stop-1 are not acknowledged."""
        return await self._before(first, stop, ChunkCounts(self._log))

    async def _before(self, first: int, stop: int, counts: "ChunkCounts") -> int:
        messages = await counts.sum(list(_missing(self._cursor.acked, first, stop)))
        return messages - await self._acked_in_part(first, stop)

    def size(self) -> int:
        """Return bytes of what is not acknowledged, by the mean entry size of each segment."""
        return sum(share.size for share in self._shares(*self._bounds()))

    def offset_leaving(self, size: int) -> int:
        """Return the first offset from which on no more than `size` of these bytes are left."""
        for share in reversed(list(self._shares(*self._bounds()))):
            if share.size > size:
                return self._leaving(share, size * share.held // share.total)
            size -= share.size
        return self._bounds()[0]

    def _leaving(self, share: "Share", entries: int) -> int:
        """Return the first offset from which at most `entries` of a segment are unacknowledged."""
        # By halves, since the gaps of the cursor may be anywhere in the segment.
        low, high = share.start, share.stop
        while low < high:
            middle = (low + high) // 2
            if share.stop - middle - self._cursor.acked.count(middle, share.stop) <= entries:
                high = middle
            else:
                low = middle + 1
        return low

    def _size_of_whole(self, first: int, end: int) -> int:
        """Return bytes of all entries between these bounds."""
        log = self._log
        segments = log.segments
        # Most topics have only the segment that is being written, and need no walk.
        if len(segments) == 1 and segments[0].entries is None:
            return log.size_of(segments[0]) * (end - first) // max(end - log.first_offset, 1)
        return sum([share.size for share in self._shares(first, end)])

    def _shares(self, first: int, end: int) -> "Iterator[Share]":
        """Yield the unacknowledged entries between these bounds, segment by segment."""
        log, base = self._log, self._log.first_offset
        for segment in log.segments:
            stop = log.segment_end(base)
            start, until = max(base, first), min(stop, end)
            if start < until:
                left = until - start - self._cursor.acked.count(start, until)
                held = stop - base if segment.entries is None else segment.held
                yield Share(start, until, left, max(held, 1), log.size_of(segment))
            base = stop


class Share(NamedTuple):
    """The unacknowledged part of a segment."""

    start: int
    stop: int
    entries: int
    held: int
    """The number of entries of the segment, acknowledged ones included."""
    total: int
    """The bytes of those entries."""

    @property
    def size(self) -> int:
        """The bytes that are not acknowledged, as if all entries had the same size."""
        return self.total * self.entries // self.held


class ChunkCounts:
    """Counts the messages of entries; remembers each chunk until its bits change."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, tuple[int, int]] = {}  # by first offset: bits, messages
        self._lookups = 0

    async def sum(self, pieces: list[Piece]) -> int:
        """Return the messages of all these entries, which must exist."""
        # Only the chunks of this count are remembered: others were acknowledged or trimmed.
        known, self._known = self._known, {}
        total = 0
        for start, stop, bits in pieces:
            if not bits:
                total += await self.between(start, stop)
                continue
            same, messages = known.get(start, (0, 0))
            if same != bits:
                messages = await self._in_chunk(start, bits)
            self._known[start] = bits, messages
            total += messages
        return total

    async def whole(self, start: int, stop: int) -> int:
        """Return the messages of all entries from `start` to before `stop`."""
        if self._known:
            self._known = {}
        return await self.between(start, stop)

    async def _in_chunk(self, start: int, bits: int) -> int:
        low, high = start + (bits & -bits).bit_length() - 1, start + bits.bit_length()
        if await self.between(low, high) == high - low:
            return bits.bit_count()  # one message each
        entries = OffsetSet()
        entries.add_bits(start, bits)
        messages = 0
        for first, end in entries:
            messages += await self.between(first, end)
        return messages

    async def between(self, start: int, stop: int) -> int:
        """Return the messages of consecutive entries."""
        self._lookups += 1
        if self._lookups >= YIELD_EVERY:
            self._lookups = 0
            await yield_turn(self._log.engine.clock)
        before = self._log.entries.messages_before
        return await before(stop, estimates=True) - await before(start, estimates=True)


def _missing(acked: OffsetSet, first: int, end: int) -> Iterator[Piece]:
    """Yield the entries from `first` to before `end` that are not acknowledged."""
    at = first
    for start, stop in _chunks(acked, first, end):
        if at < start:
            yield at, start, 0
        if stop - start == SIZE:
            bits = ~acked.bits(start) & _window(start, first, end)
            if bits:
                yield start, stop, bits
        at = max(at, stop)
    if at < end:
        yield at, end, 0


def _present(chosen: OffsetSet, acked: OffsetSet, first: int, end: int) -> Iterator[Piece]:
    """Yield the entries of `chosen` from `first` to before `end` that are not acknowledged."""
    for start, stop in _chunks(chosen, first, end):
        # Mostly whole chunks, which need no look at their bits.
        if first <= start and stop <= end and not acked.count(start, stop):
            yield start, stop, chosen.bits(start) if stop - start == SIZE else 0
            continue
        for at in range(start, stop, SIZE):
            bits = chosen.bits(at) & ~acked.bits(at) & _window(at, first, end)
            if bits:
                yield at, at + SIZE, bits


def _chunks(offsets: OffsetSet, first: int, end: int) -> list[tuple[int, int]]:
    """Return the stretches of the set between two offsets: chunks, and longer runs of chunks."""
    # As the set stores them, so that nothing is computed for chunks outside of the bounds.
    stretches, bitmaps = offsets.parts(0)
    stretches += [(start, start + SIZE) for start, _ in bitmaps]
    return sorted((start, stop) for start, stop in stretches if start < end and first < stop)


def _window(start: int, first: int, end: int) -> int:
    """Return the bits of a chunk that lie from `first` to before `end`."""
    low, high = max(first - start, 0), min(end - start, SIZE)
    return (1 << high) - (1 << low)
