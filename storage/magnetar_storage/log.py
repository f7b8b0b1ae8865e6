"""A log: the entries of one topic, over a versioned list of single-writer segments.

Offsets count entries over the whole history; a position (ledger, entry) is how the
wire names the same thing.  Taking a log over is: claim the record, settle the end of
the last segment, and only then create a new one, list it, append to it.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from magnetar_storage.cache import EntryCache
from magnetar_storage.errors import BadVersion, Fenced, StorageError, WriterFailed
from magnetar_storage.interfaces import (
    ABSENT,
    MetadataStore,
    Run,
    SegmentId,
    SegmentReader,
    SegmentStore,
    SegmentWriter,
    Version,
)
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.world import Clock, Done, Promise, Tasks

Position = tuple[int, int]
"""(ledger, entry) as on the wire; entry -1 is the place before a ledger's first entry."""

NOWHERE: Position = (-1, -1)

MAX_READERS = 16
"""Open segment readers a log keeps; the least recently opened is closed first."""


@dataclass(frozen=True)
class RollLimits:
    """When a segment is closed and the next one begun."""

    max_entries: int = 50_000
    max_bytes: int = 2048 << 20
    min_age_ms: int = 10 * 60_000
    max_age_ms: int = 240 * 60_000

    def reached(self, entries: int, size: int, age_ms: int) -> bool:
        """Whether a segment of this size and age should end."""
        if entries == 0:
            return False
        big = self.is_big(entries, size)
        return age_ms >= self.max_age_ms or (big and age_ms >= self.min_age_ms)

    def is_big(self, entries: int, size: int) -> bool:
        """Whether a segment of this size should end as soon as it is old enough."""
        return entries >= self.max_entries or size >= self.max_bytes


@dataclass(frozen=True)
class Engine:
    """What logs work with: one of each in a broker."""

    store: SegmentStore
    metadata: MetadataStore
    cache: EntryCache
    clock: Clock
    tasks: Tasks
    roll: RollLimits = RollLimits()


class Log:
    """Append, read, trim.  When appending ends for good `failed` is set, once: reopen then."""

    def __init__(self, key: str, engine: Engine, record: LogRecord, version: Version) -> None:
        self.key = key
        self.engine = engine
        self.failed: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] | None = None
        """Told when the log fails by itself; not when it is closed or deleted."""
        self.end = 0
        """The offset after the last durable entry."""
        self.messages_end = 0
        """How many messages all durable entries of the history hold."""
        self._record = record
        self._version = version
        self._committing: Promise | None = None
        self._bases: list[int] = []
        self._messages: list[int] = []  # before each segment; -1 behind an unsettled one
        self._by_id: dict[SegmentId, int] = {}  # id -> base
        self._readers: dict[SegmentId, SegmentReader] = {}
        self._writer: SegmentWriter | None = None
        self._unlisted: SegmentWriter | None = None  # of a new segment that is not in use yet
        self._open_entries = self._open_bytes = 0  # appended to the writer's segment
        self._queued = 0  # offset the next append gets
        self._switching: Promise | None = None  # unsettled while the writer is being replaced
        self._tail = engine.cache.tail()

    # Opening and closing --------------------------------------------------------

    @classmethod
    async def open(cls, key: str, engine: Engine, create: bool) -> "Log | None":
        """Claim the log and settle its end; None when it does not exist and `create` is off."""
        found = await engine.metadata.get(key)
        if found is None:
            if not create:
                return None
            record = LogRecord()
            version = await engine.metadata.put(key, record.encode(), ABSENT)
        else:
            record, version = LogRecord.decode(key, found.value), found.version
        log = cls(key, engine, record, version)
        await log._take_over()
        return log

    async def _take_over(self) -> None:
        loose = [s for s in self._record.segments if s.entries is None]
        if loose:
            await self._commit(lambda record: replace(record, epoch=record.epoch + 1))
            for segment in loose:
                end = await self.engine.store.recover(segment.id)
                settled = segment.settled(end, self.engine.clock.now_ms())
                await self._commit(partial(_with_segment, settled))
        await self._drop_empty()
        self._index()
        record = self._record
        self.end = self._queued = record.first_offset + sum(s.entries or 0 for s in record.segments)
        self.messages_end = record.first_messages + sum(s.messages for s in record.segments)
        await self._empty_trash()

    async def _drop_empty(self) -> None:
        empty = tuple(s.id for s in self._record.segments if s.entries == 0)
        if empty:
            kept = tuple(s for s in self._record.segments if s.entries != 0)
            await self._commit(
                lambda record: replace(record, segments=kept, trash=record.trash + empty)
            )

    async def start_writing(self) -> None:
        """Create and list the segment that `append` needs; nothing to do when there is one."""
        await self._switched()
        if self.failed is not None:
            raise self.failed.again()
        if self._writer is None:
            self._switching = self.engine.clock.promise()
            try:
                await self._next_segment()
            finally:
                await self._end_switch()

    async def close(self) -> None:
        """Seal what is open; the log must not be used afterwards."""
        self.failed = self.failed or WriterFailed(f"{self.key} was closed")
        await self._switched()
        writer, self._writer = self._writer, None
        await self._discard_unlisted()
        if writer is not None:
            await self._settle(writer)
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    async def delete(self) -> None:
        """Remove every segment, then the record."""
        self.failed = self.failed or WriterFailed(f"{self.key} was deleted")
        await self._switched()
        await self._discard_unlisted()
        self._writer = None
        record = self._record
        doomed = [s.id for s in record.segments]
        if record.cursor_segment is not None:
            doomed.append(record.cursor_segment)
        doomed += record.delay_segments
        await self._commit(
            lambda record: replace(
                record,
                segments=(),
                cursor_segment=None,
                delay_segments=(),
                trash=record.trash + tuple(doomed),
            )
        )
        await self._empty_trash()
        await self.engine.metadata.delete(self.key, self._version)
        self._index()

    # Appending ------------------------------------------------------------------

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> Position:
        """Queue a run of entries (`counts` messages each); returns the first one's position.

        `done` comes in the order of the appends, after `end` has moved and the run can
        be read.  `start_writing` must have been awaited once.
        """
        writer = self._writer
        if self.failed is not None:
            raise self.failed.again()
        if writer is None:
            raise WriterFailed(f"{self.key} is not open for writing")
        offset = self._queued
        first = writer.append(
            payloads, counts, partial(self._appended, writer, offset, payloads, counts, done)
        )
        self._queued = offset + len(payloads)
        self._open_entries += len(payloads)
        return writer.segment, first

    def _appended(
        self,
        writer: SegmentWriter,
        offset: int,
        payloads: Sequence[bytes],
        counts: Sequence[int],
        done: Done,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            self.fail(error)
        else:
            self.end = offset + len(payloads)
            self.messages_end += sum(counts)
            size = self._tail.append(offset, payloads, counts)
            if writer is self._writer:
                self._open_bytes += size
                # Age alone is looked at by whoever calls `roll_if_due` now and then.
                if self.engine.roll.is_big(self._open_entries, self._open_bytes):
                    self.roll_if_due()
        done(error)

    def fail(self, error: BaseException) -> None:
        """Appending ends for good; of several causes the first one counts."""
        if self.failed is None:
            self.failed = error if isinstance(error, StorageError) else WriterFailed(str(error))
            if self.on_failure is not None:
                self.on_failure(self.failed)

    def roll_if_due(self) -> None:
        """Begin a new segment when the open one has reached its limits; call it now and then."""
        if self._writer is None or self._switching is not None or self.failed is not None:
            return
        age_ms = self.engine.clock.now_ms() - self._record.segments[-1].created_ms
        if self.engine.roll.reached(self._open_entries, self._open_bytes, age_ms):
            self._switching = self.engine.clock.promise()
            self.engine.tasks.spawn(self._roll())

    async def _roll(self) -> None:
        old = self._writer
        try:
            await self._next_segment()
            if old is not None:
                await self._settle(old)
        except StorageError as error:
            self.fail(error)
        finally:
            await self._end_switch()

    async def _switched(self) -> None:
        """Wait until no writer is being replaced."""
        while self._switching is not None:
            await self._switching

    async def _end_switch(self) -> None:
        if self.failed is not None:
            await self._discard_unlisted()
        switching, self._switching = self._switching, None
        if switching is not None:
            switching.set_result(None)

    async def _next_segment(self) -> None:
        """Create a segment, list it, and only then let appends go there."""
        writer = self._unlisted or await self.engine.store.create()
        self._unlisted = writer  # the next attempt's, should this one fail
        segment = Segment(writer.segment, self.engine.clock.now_ms())
        await self._commit(lambda record: replace(record, segments=(*record.segments, segment)))
        self._unlisted = None
        self._by_id[segment.id] = self._queued
        self._index()
        self._writer = writer
        self._open_entries = self._open_bytes = 0

    async def _discard_unlisted(self) -> None:
        writer, self._unlisted = self._unlisted, None
        if writer is not None:
            await self.discard_unlisted(writer.segment)

    async def discard_unlisted(self, segment: SegmentId) -> None:
        """Delete a new segment that could not be listed, if the stored record lacks it indeed.

        Where that cannot be found out it is left over, for the next start to find.
        """
        with suppress(StorageError):  # what made the listing fail was told already
            found = await self.engine.metadata.get(self.key)
            if found is None or segment not in LogRecord.decode(self.key, found.value).listed:
                await self.engine.store.delete(segment)

    async def _settle(self, writer: SegmentWriter) -> None:
        end = await writer.seal()
        now_ms = self.engine.clock.now_ms()
        for segment in self._record.segments:
            if segment.id == writer.segment:
                await self._commit(partial(_with_segment, segment.settled(end, now_ms)))
        self._index()

    # Positions ------------------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The oldest offset still kept."""
        return self._record.first_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segment list, oldest first."""
        return self._record.segments

    @property
    def size(self) -> int:
        """Bytes of all payloads kept."""
        return sum(s.size for s in self._record.segments) + self._open_bytes

    @property
    def properties(self) -> dict[str, str]:
        """The log's own properties; replace them with `set_properties`."""
        return self._record.properties

    async def set_properties(self, properties: dict[str, str]) -> None:
        """Store other properties; durable on return."""
        await self._commit(lambda record: replace(record, properties=properties))

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
        """The offset of a durable entry, None when there is no such entry (any more)."""
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

    def seek(self, ledger: int, entry: int) -> int:
        """The offset at a position or, where nothing is there, of the next entry after it."""
        for segment, base in zip(self._record.segments, self._bases, strict=True):
            if segment.id == ledger:
                return min(base + max(entry, 0), self.segment_end(base))
            if segment.id > ledger:
                return base
        return self.end

    # Reading --------------------------------------------------------------------

    def recent(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Entries from memory, without waiting; None when `offset` is not there."""
        return self._tail.get(offset, max_entries, max_bytes)

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Run:
        """Entries from `offset` on, of one segment; an empty run at the end.

        An offset that was trimmed reads from the first one kept.
        """
        offset = max(offset, self.first_offset)
        if offset >= self.end:
            return Run(offset, [], ())
        at = bisect_right(self._bases, offset) - 1
        base = self._bases[at]
        reader = await self._reader(self._record.segments[at].id)
        limit = min(max_entries, self.segment_end(offset) - offset)
        run = await reader.read(offset - base, limit, max_bytes)
        return Run(run.first + base, run.payloads, run.counts)

    def messages_at(self, offset: int) -> int | None:
        """How many messages an entry holds, if that is known without reading."""
        run = self._tail.get(offset, 1, 1)
        if run is not None:
            return run.counts[0]
        at = bisect_right(self._bases, offset) - 1
        reader = self._readers.get(self._record.segments[at].id) if at >= 0 else None
        if reader is None or not self.first_offset <= offset < self.end:
            return None
        entry = offset - self._bases[at]
        return reader.messages_before(entry + 1) - reader.messages_before(entry)

    async def messages_before(self, offset: int) -> int:
        """How many messages of the whole history lie before `offset`."""
        if offset >= self.end:
            return self.messages_end
        if offset <= self.first_offset:
            return self._record.first_messages
        at = bisect_right(self._bases, offset) - 1  # what `at` finds may move with each await
        segment, base = self._record.segments[at].id, self._bases[at]
        messages = await self._messages_base(at)
        reader = await self._reader(segment)
        return messages + reader.messages_before(offset - base)

    async def first_where(self, holds: Callable[[bytes], bool]) -> int:
        """The first offset whose payload satisfies `holds`, found by halving; else the end.

        `holds` must not turn false again further on.
        """
        low, high = self.first_offset, self.end
        while low < high:
            middle = (low + high) // 2
            run = await self.read(middle, 1, 1)
            if not run.payloads or holds(run.payloads[0]):
                high = middle
            else:
                low = middle + 1
        return low

    async def _reader(self, segment: SegmentId) -> SegmentReader:
        reader = self._readers.get(segment)
        if reader is None:
            reader = await self.engine.store.reader(segment)
            if segment in self._readers:  # another coroutine was faster
                reader.close()
                return self._readers[segment]
            self._readers[segment] = reader
            while len(self._readers) > MAX_READERS:
                self._readers.pop(next(iter(self._readers))).close()
        return reader

    async def _messages_base(self, at: int) -> int:
        """How many messages lie before a segment; the one before it may not be settled yet."""
        if self._messages[at] >= 0:
            return self._messages[at]
        before, entries = self._record.segments[at - 1].id, self._bases[at] - self._bases[at - 1]
        messages = await self._messages_base(at - 1)
        reader = await self._reader(before)
        return messages + reader.messages_before(entries)

    # Trimming -------------------------------------------------------------------

    async def trim(self, before: int) -> int:
        """Delete settled segments that end at or below offset `before`; returns how many."""
        doomed: list[Segment] = []
        first = self.first_offset
        for segment in self._record.segments:
            if segment.entries is None or first + segment.entries > before:
                break
            first += segment.entries
            doomed.append(segment)
        if not doomed:
            return 0
        await self._commit(partial(_without, frozenset(segment.id for segment in doomed)))
        self._index()
        for segment in doomed:
            reader = self._readers.pop(segment.id, None)
            if reader is not None:
                reader.close()
        await self._empty_trash()
        return len(doomed)

    async def discard_segment(self, segment: SegmentId) -> None:
        """Delete a segment that the record no longer lists (it must be in the trash)."""
        await self.engine.store.delete(segment)
        await self._commit(
            lambda record: replace(record, trash=tuple(t for t in record.trash if t != segment))
        )

    async def _empty_trash(self) -> None:
        for segment in self._record.trash:
            await self.discard_segment(segment)

    # The record -----------------------------------------------------------------

    @property
    def cursor_segment(self) -> SegmentId | None:
        """Where the cursors' states are."""
        return self._record.cursor_segment

    async def replace_cursor_segment(self, segment: SegmentId) -> None:
        """List another cursor segment and delete the old one."""
        old = self._record.cursor_segment
        trash = () if old is None else (old,)
        await self._commit(
            lambda record: replace(record, cursor_segment=segment, trash=record.trash + trash)
        )
        await self._empty_trash()

    @property
    def delay_segments(self) -> tuple[SegmentId, ...]:
        """Where the delayed entries are that the cursor segment does not list."""
        return self._record.delay_segments

    async def add_delay_segment(self, segment: SegmentId) -> None:
        """List one more of them; only then may it be written to."""
        await self._commit(
            lambda record: replace(record, delay_segments=(*record.delay_segments, segment))
        )

    async def drop_delay_segments(self, doomed: Collection[SegmentId]) -> None:
        """Delete some of them."""
        gone = tuple(doomed)
        await self._commit(
            lambda record: replace(
                record,
                delay_segments=tuple(s for s in record.delay_segments if s not in gone),
                trash=record.trash + gone,
            )
        )
        await self._empty_trash()

    async def _commit(self, change: Callable[[LogRecord], LogRecord]) -> None:
        """Compare-and-set the record; one change at a time."""
        while self._committing is not None:
            await self._committing
        self._committing = self.engine.clock.promise()
        try:
            record = change(self._record)
            self._version = await self.engine.metadata.put(self.key, record.encode(), self._version)
            self._record = record
        except BadVersion as error:
            fenced = Fenced(f"{self.key} was taken over by another owner")
            self.fail(fenced)
            raise fenced from error
        finally:
            committing, self._committing = self._committing, None
            committing.set_result(None)

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


def _with_segment(settled: Segment, record: LogRecord) -> LogRecord:
    segments = tuple(settled if s.id == settled.id else s for s in record.segments)
    return replace(record, segments=segments)


def _without(doomed: frozenset[SegmentId], record: LogRecord) -> LogRecord:
    gone = tuple(s for s in record.segments if s.id in doomed)
    kept = tuple(s for s in record.segments if s.id not in doomed)
    return replace(
        record,
        first_offset=record.first_offset + sum(s.entries or 0 for s in gone),
        first_messages=record.first_messages + sum(s.messages for s in gone),
        segments=kept,
        trash=record.trash + tuple(s.id for s in gone),
    )
