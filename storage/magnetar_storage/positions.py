"""Where a log's entries are: offsets over the whole history, positions on the wire.

Offsets count entries over all segments ever; a position (ledger, entry) is how the wire
names the same thing.  Both stay what they are when entries are reclaimed.
"""

from bisect import bisect_right
from collections.abc import Iterable

from magnetar_storage.errors import NoSegment
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log_record import LogRecord, Segment

Position = tuple[int, int]
"""(ledger, entry) as on the wire; entry -1 is the place before a ledger's first entry."""

NOWHERE: Position = (-1, -1)


class Positions:
    """A log's segment list with the offsets derived from it."""

    def __init__(self, record: LogRecord) -> None:
        self.end = 0
        """The offset after the last durable entry."""
        self.messages_end = 0
        """How many messages all durable entries of the history hold."""
        self._record = record
        self._bases: list[int] = []
        self._messages: list[int] = []  # before each segment; -1 behind an unsettled one
        self._by_id: dict[SegmentId, int] = {}  # id -> base

    @property
    def first_offset(self) -> int:
        """The oldest offset still kept."""
        return self._record.first_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segment list, oldest first."""
        return self._record.segments

    def position(self, offset: int) -> Position:
        """Where an entry is; before the first kept one: (first ledger, -1) or nowhere."""
        bases = self._bases
        if not bases:
            return NOWHERE
        at = bisect_right(bases, offset) - 1
        if at < 0:
            return self._record.segments[0].id, -1
        return self._record.segments[at].id, offset - bases[at]

    def segment_end(self, offset: int) -> int:
        """The offset at which the segment of `offset` ends, as far as it is durable."""
        at = bisect_right(self._bases, offset)
        return min(self._bases[at], self.end) if at < len(self._bases) else self.end

    def offset_of(self, ledger: int, entry: int) -> int | None:
        """The offset of a durable entry, None when there is no such entry (any more).

        One that was reclaimed may have an offset still.
        """
        base = self._by_id.get(ledger)
        if base is None or entry < 0:
            return None
        offset = base + entry
        return offset if offset < self.segment_end(base) else None

    def offsets_of(self, ledger: int, first: int, stop: int) -> range:
        """The same for the entries from `first` to before `stop`, as far as they exist."""
        base = self._by_id.get(ledger)
        if base is None:
            return range(0)
        return range(base + max(first, 0), min(base + stop, self.segment_end(base)))

    def offsets_among(self, ledger: int, entries: Iterable[int]) -> list[int]:
        """The same for any entries."""
        base = self._by_id.get(ledger)
        if base is None:
            return []
        size = self.segment_end(base) - base
        return [base + entry for entry in entries if 0 <= entry < size]

    def closed_ms(self, offset: int) -> int | None:
        """When the segment of an entry was closed; None while it is open."""
        _, segment, _ = self._segment_at(offset)
        return None if segment.entries is None else segment.sealed_ms

    def closed_before(self, timestamp_ms: int) -> int:
        """The offset below which the oldest segments were all closed before a time."""
        offset = self.first_offset
        for segment in self._record.segments:
            if segment.entries is None or segment.sealed_ms >= timestamp_ms:
                break
            offset += segment.entries
        return offset

    def seek(self, ledger: int, entry: int) -> int:
        """The offset at a position or, where nothing is there, of the next entry after it."""
        for segment, base in zip(self._record.segments, self._bases, strict=True):
            if segment.id == ledger:
                return min(base + max(entry, 0), self.segment_end(base))
            if segment.id > ledger:
                return base
        return self.end

    def _segment_at(self, offset: int) -> tuple[int, Segment, int]:
        """The segment of an offset that is not before the first: index, segment, base."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0:
            raise NoSegment("the log has no segments (any more)")
        return at, self._record.segments[at], self._bases[at]

    def _index(self) -> None:
        """Derive offsets from the segment list; what follows an unsettled one is known already."""
        base, messages = self._record.first_offset, self._record.first_messages
        known = self._by_id
        self._bases, self._messages, self._by_id = [], [], {}
        for segment in self._record.segments:
            base = known.get(segment.id, base)
            self._bases.append(base)
            self._messages.append(messages)
            self._by_id[segment.id] = base
            if segment.entries is None:
                messages = -1
            elif messages >= 0:
                base, messages = base + segment.entries, messages + segment.messages
