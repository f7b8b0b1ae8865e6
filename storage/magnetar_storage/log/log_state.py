"""The state of a log that is read and changed without waiting: offsets, positions, the failure.

An *offset* counts entries over all segments that the log ever had; a *position* (ledger, entry)
is how the wire names the same entry.  Neither changes when other entries are deleted.

This class has no coroutines, so that it can be compiled.  Work that waits for the store has classes
of its own, which use this state: `StoredRecord`, `LogReader`, `Rollover`, `Rewriting`.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from magnetar_storage.errors import NoSegment, StorageError, WriterFailed
from magnetar_storage.interfaces import SegmentId, SegmentKind, SegmentOrigin, SegmentWriter
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.positions import NOWHERE, Position

NO_LIMIT: Final = (1 << 63) - 1
"""An offset above all offsets: no transaction is open."""
NOTHING_HIDDEN: Final = OffsetSet()
"""The empty set that all logs without transactions share; there may be very many."""


class LogState:
    """A log's segment list with the offsets derived from it, its open segment, its failure."""

    next_message = -1
    """The number of messages before the next append; -1 if it is not counted, because entries have
    no broker metadata."""

    def __init__(self, key: str, engine: Engine, record: LogRecord) -> None:
        self.key = key
        """The key of the record in the metadata store."""
        self.engine = engine
        self.record = record
        """The record as stored; only `StoredRecord.commit` replaces it, `index` follows."""
        self.terminated = record.terminated
        """Whether nothing can be appended ever again."""
        self.failed: StorageError | None = None
        """The error that ended appending for good; None while the log works."""
        self.on_failure: Callable[[StorageError], None] | None = None
        """Called once when the log fails by itself; not when it is closed or deleted."""
        self.on_reclaimed: Callable[[], None] | None = None
        """Called in the same turn in which `holes` or `first_offset` grew: every cursor of the
        log must `skip_reclaimed` then, since it may have been moved to deleted entries while the
        change was being stored."""
        self.end = 0
        """The offset after the last durable entry."""
        self.visible_end = 0
        """Entries from here on must not be delivered: they are not durable, or lie after the first
        entry of an open transaction."""
        self.visible_limit = NO_LIMIT
        """The first entry of the oldest open transaction (`limit_visible`)."""
        self.hidden = NOTHING_HIDDEN
        """Entries that no consumer gets: those of aborted transactions, and all markers.  Every
        cursor of the log must skip them (`Cursor.skip`)."""
        self.messages_end = 0
        """The number of messages in all durable entries of the history."""
        self.next_offset = 0
        """The offset that the next append gets; entries from `end` on are not durable yet."""
        self.holes = OffsetSet()
        """Offsets above `first_offset` whose entries were deleted."""
        self.tail = engine.cache.tail()
        """The newest entries, in memory."""
        self.writer: SegmentWriter | None = None
        """The writer of the open segment; None until `Rollover.start_writing`."""
        self.open_segment: SegmentId = -1
        """The segment that was begun last, whether or not it is still open."""
        self.with_next_append: Callable[[], None] | None = None
        """Called after an append, to queue what waits for a sync of the disk that entries need
        anyway; set by `CursorLog` while acknowledgements wait, and by it set to None again."""
        self.roll_entries = engine.roll.max_entries
        self.roll_bytes = engine.roll.max_bytes
        """The size from which an open segment is big: `Rollover.roll_if_due` decides."""
        self.open_entries = 0
        """The number of entries appended to the open segment."""
        self.open_bytes = 0
        """The bytes of the durable entries of the open segment."""
        self.ending_bytes = 0
        """The bytes of the durable entries of the previous segment, until that is settled."""
        self.bases: list[int] = []
        """The offset of each segment's first entry."""
        self.messages: list[int] = []
        """The number of messages before each segment; -1 after a segment that is not settled."""
        self._by_id: dict[SegmentId, int] = {}  # segment id -> base

    # Failure --------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End appending for good; the first of several causes is kept."""
        if self.failed is None:
            self.failed = error if isinstance(error, StorageError) else WriterFailed(str(error))
            if self.on_failure is not None:
                self.on_failure(self.failed)

    def reclaimed(self) -> None:
        """Report that entries were deleted; the offsets must be indexed before."""
        if self.on_reclaimed is not None:
            self.on_reclaimed()  # promise: cursors are notified of holes

    # Transactions ---------------------------------------------------------------

    def limit_visible(self, offset: int) -> None:
        """Stop the delivery of entries from this offset on; `NO_LIMIT` ends that."""
        self.visible_limit = offset
        self.visible_end = min(self.end, offset)

    def last_visible(self) -> int:
        """Return the last entry that can be delivered; below `first_offset` if there is none."""
        offset = self.visible_end
        below = offset - 1
        while below < offset:
            offset = below
            if self.hidden:
                below = self.hidden.last_missing(below)
            # Rewriting leaves the last entry, but it may have been set aside for damage.
            below = self.holes.last_missing(below)
        return offset

    # Offsets and positions ------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The oldest offset that is kept."""
        return self.record.first_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segment list, oldest first."""
        return self.record.segments

    @property
    def is_writing(self) -> bool:
        """Whether there is an open segment to append to."""
        return self.writer is not None

    @property
    def size(self) -> int:
        """The bytes of all payloads that are kept."""
        return sum(map(self.size_of, self.record.segments))

    def size_of(self, segment: Segment) -> int:
        """Return the bytes of payloads that are kept of a listed segment."""
        if segment.entries is not None:
            return segment.size
        # The record has no size of a segment that is not settled; during a rollover two are not.
        is_open = self.writer is not None and segment.id == self.writer.segment
        return self.open_bytes if is_open else self.ending_bytes

    def position(self, offset: int) -> Position:
        """Return the position of an entry; (first ledger, -1) or `NOWHERE` before the first one."""
        bases = self.bases
        if not bases:
            return NOWHERE
        at = bisect_right(bases, offset) - 1
        if at < 0:
            return self.record.segments[0].id, -1
        return self.record.segments[at].id, offset - bases[at]

    def segment_end(self, offset: int) -> int:
        """Return the offset at which the segment of `offset` ends, as far as it is durable."""
        at = bisect_right(self.bases, offset)
        return min(self.bases[at], self.end) if at < len(self.bases) else self.end

    def offset_of(self, ledger: int, entry: int) -> int | None:
        """Return the offset of a durable entry; None if the log has no such entry.

        A deleted entry still has an offset while its ledger is listed.
        """
        base = self._by_id.get(ledger)
        if base is None or entry < 0:
            return None
        offset = base + entry
        return offset if offset < self.segment_end(base) else None

    def last_up_to(self, ledger: int, entry: int) -> int | None:
        """Return the offset up to which a position acknowledges, as `offset_of` does.

        For entry -1 of a ledger this is the offset before the ledger, -1 for the first one: clients
        name the entry before a batch that they acknowledge in part.
        """
        base = self._by_id.get(ledger)
        # promise[without base - 1 if entry == -1 and base is not None else]: the entry before a
        #   ledger is the end of the one before it
        return base - 1 if entry == -1 and base is not None else self.offset_of(ledger, entry)

    def offsets_of(self, ledger: int, first: int, stop: int) -> range:
        """Return the offsets of a ledger's entries first..stop-1 that `offset_of` knows."""
        base = self._by_id.get(ledger)
        if base is None:
            return range(0)
        return range(base + max(first, 0), min(base + stop, self.segment_end(base)))

    def offsets_among(self, ledger: int, entries: Iterable[int]) -> list[int]:
        """Return the offsets of entries of a ledger, leaving out those that `offset_of` does not
        know.
        """
        base = self._by_id.get(ledger)
        if base is None:
            return []
        size = self.segment_end(base) - base
        return [base + entry for entry in entries if 0 <= entry < size]

    def closed_ms(self, offset: int) -> int | None:
        """Return the time at which an entry's segment was closed; None while it is open."""
        _, segment, _ = self.segment_at(offset)
        return None if segment.entries is None else segment.sealed_ms

    def closed_before(self, timestamp_ms: int) -> int:
        """Return the offset below which all segments were closed before a time."""
        offset = self.first_offset
        for segment in self.record.segments:
            if segment.entries is None or segment.sealed_ms >= timestamp_ms:
                break
            offset += segment.entries
        return offset

    def seek(self, ledger: int, entry: int) -> int:
        """Return the offset at a position or, if nothing is there, of the next entry."""
        for segment, base in zip(self.record.segments, self.bases, strict=True):
            if segment.id == ledger:
                return min(base + max(entry, 0), self.segment_end(base))
            # Ids ascend: this is the first one after a ledger that was deleted.
            if segment.id > ledger:
                return base
        return self.end

    def segment_at(self, offset: int) -> tuple[int, Segment, int]:
        """Return index, segment and base at an offset; `NoSegment` before the first segment."""
        at = bisect_right(self.bases, offset) - 1
        if at < 0:
            raise NoSegment(f"{self.key} has no segment for offset {offset}: it was deleted")
        return at, self.record.segments[at], self.bases[at]

    def is_remote(self, offset: int) -> bool:
        """Return whether an entry that is present is only in a store of objects."""
        return self.segment_at(offset)[1].is_remote

    def index(self) -> None:
        """Derive the offsets from the segment list, after each change of the record.

        The base of a segment after an unsettled one cannot be derived: it was noted when the
        segment was begun (`begin_segment`).
        """
        base, messages = self.record.first_offset, self.record.first_messages
        known = self._by_id
        self.bases, self.messages, self._by_id = [], [], {}
        for segment in self.record.segments:
            base = known.get(segment.id, base)
            self.bases.append(base)
            self.messages.append(messages)
            self._by_id[segment.id] = base
            if segment.entries is None:
                messages = -1
            elif messages >= 0:
                base, messages = base + segment.entries, messages + segment.messages

    def origin_of(self, kind: SegmentKind) -> SegmentOrigin:
        """Return the origin of a new segment of this log."""
        record, now_ms = self.record, self.engine.clock.now_ms()
        return SegmentOrigin(self.key, kind, record.epoch, now_ms, self.end)

    def begin_segment(self, writer: SegmentWriter) -> None:
        """Append to a new segment from now on; the record lists it already."""
        # promise: a segment notes the offset of its first entry
        messages = self.next_message
        writer.begin(self.next_offset, messages if messages >= 0 else None)
        # Noted, since the segment before may still have entries that are not durable: its length,
        # from which `index` would derive this, is known when it is sealed.
        self._by_id[writer.segment] = self.next_offset
        self.index()
        self.end_segment()
        self.writer = writer
        self.open_segment = writer.segment

    def end_segment(self) -> SegmentWriter | None:
        """End the open segment, if any, and return its writer; the caller settles it."""
        writer, self.writer = self.writer, None
        self.ending_bytes = self.open_bytes
        self.open_entries = self.open_bytes = 0
        return writer
