"""A log: the entries of one topic, over a versioned list of single-writer segments.

Offsets count entries over the whole history; a position (ledger, entry) is how the
wire names the same thing.  Taking a log over is: claim the record, settle the end of
the last segment, and only then create a new one, list it, append to it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from magnetar_storage.engine import Engine, RollLimits
from magnetar_storage.errors import StorageError, WriterFailed
from magnetar_storage.interfaces import ABSENT, SegmentWriter, Version
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.positions import NOWHERE, Position
from magnetar_storage.recorded_log import RecordedLog
from magnetar_storage.thinnable import Needed
from magnetar_storage.thinning import COPY_BYTES, Thinning
from magnetar_storage.world import Done, Promise

__all__ = ["NOWHERE", "Engine", "Log", "Position", "RollLimits"]

NEW = LogRecord()
"""Of every log that nothing was written to yet; there may be very many."""
NEW_VALUE = NEW.encode()


class Log(RecordedLog):
    """Append, read, trim.  When appending ends for good `failed` is set, once: reopen then."""

    def __init__(self, key: str, engine: Engine, record: LogRecord, version: Version) -> None:
        super().__init__(key, engine, record, version)
        self._writer: SegmentWriter | None = None
        self._unlisted: SegmentWriter | None = None  # of a new segment that is not in use yet
        self._open_entries = self._open_bytes = 0  # appended to the writer's segment
        self._queued = 0  # offset the next append gets
        self._switching: Promise | None = None  # unsettled while the writer is being replaced
        self._thinning: Thinning | None = None

    # Opening and closing --------------------------------------------------------

    @classmethod
    async def open(cls, key: str, engine: Engine, create: bool) -> "Log | None":
        """Claim the log and settle its end; None when it does not exist and `create` is off."""
        found = await engine.metadata.get(key)
        if found is None:
            if not create:
                return None
            record = NEW
            version = await engine.metadata.put(key, NEW_VALUE, ABSENT)
        else:
            known = found.value == NEW_VALUE
            record = NEW if known else LogRecord.decode(key, found.value)
            version = found.version
        log = cls(key, engine, record, version)
        await log._take_over()
        return log

    async def _take_over(self) -> None:
        loose = [s for s in self._record.segments if s.entries is None]
        if loose:
            await self.commit(lambda record: replace(record, epoch=record.epoch + 1))
            for segment in loose:
                end = await self.engine.store.recover(segment.id)
                settled = segment.settled(end, self.engine.clock.now_ms())
                await self.commit(partial(LogRecord.with_segment, changed=settled))
        await self._drop_empty()
        self._index()
        record = self._record
        self.end = self._queued = record.first_offset + sum(s.entries or 0 for s in record.segments)
        self.messages_end = record.first_messages + sum(s.messages for s in record.segments)
        await self._find_holes()
        await self.empty_trash()

    async def _drop_empty(self) -> None:
        empty = tuple(s.id for s in self._record.segments if s.entries == 0)
        if empty:
            kept = tuple(s for s in self._record.segments if s.entries != 0)
            await self.commit(
                lambda record: replace(record, segments=kept, trash=record.trash + empty)
            )

    async def start_writing(self) -> None:
        """Create and list the segment that `append` needs; nothing to do when there is one."""
        await self._switched()
        if self.failed is not None:
            raise self.failed.again()
        if self.terminated:
            raise WriterFailed(f"{self.key} is terminated: nothing can be appended any more")
        if self._writer is None:
            self._switching = self.engine.clock.promise()
            try:
                await self._next_segment()
            finally:
                await self._end_switch()

    async def terminate(self) -> None:
        """Let nothing be appended any more, ever; what was appended is durable before.

        Call it only when nobody appends.  A failure ends the log; open it anew to see whether it
        is terminated.
        """
        await self._switched()
        if self.failed is not None:
            raise self.failed.again()
        if self.terminated:
            return
        self._switching = self.engine.clock.promise()
        try:
            writer, self._writer = self._writer, None
            if writer is not None:
                await self._settle(writer)
                self._open_entries = self._open_bytes = 0
            last = self.position(self.end - 1) if self.end > self.first_offset else None
            await self.commit(lambda record: replace(record, terminated=True, terminated_at=last))
            self.terminated = True
        except StorageError as error:
            self.fail(error)
            raise
        finally:
            await self._end_switch()

    @property
    def is_writing(self) -> bool:
        """Whether `append` has a segment to append to."""
        return self._writer is not None

    async def close(self) -> None:
        """Seal what is open; the log must not be used afterwards."""
        self.failed = self.failed or WriterFailed(f"{self.key} was closed")
        await self._thinned()
        await self.compaction_ended()
        await self._switched()
        writer, self._writer = self._writer, None
        await self._discard_unlisted()
        if writer is not None:
            await self._settle(writer)
        self._readers.clear()
        self._keepers.clear()

    async def delete(self) -> None:
        """Remove every segment, then the record."""
        self.failed = self.failed or WriterFailed(f"{self.key} was deleted")
        await self._thinned()
        await self.compaction_ended()
        await self._switched()
        await self._discard_unlisted()
        self._writer = None
        self.unfinished.clear()
        while not await self.remove_record():  # what was under way may list something meanwhile
            await self.commit(LogRecord.emptied)
            await self.empty_trash()
        self._index()

    @classmethod
    async def remove(cls, key: str, engine: Engine) -> None:
        """Delete a log that nobody has open, whatever state it is in; none is no error."""
        found = await engine.metadata.get(key)
        if found is not None:
            await cls(key, engine, LogRecord.decode(key, found.value), found.version).delete()

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets; below it and from `end` on nothing is durable."""
        return self._queued

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

    def roll_if_due(self) -> None:
        """Begin a new segment when the open one has reached its limits; call it now and then."""
        if self._writer is None or self._switching is not None or self.failed is not None:
            return
        age_ms = self.engine.clock.now_ms() - self._record.segments[-1].created_ms
        if self.engine.roll.reached(self._open_entries, self._open_bytes, age_ms):
            self._switching = self.engine.clock.promise()
            self.engine.tasks.spawn(self._roll())

    async def rolled(self) -> None:
        """Wait until no new segment is being begun."""
        await self._switched()

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
        await self.commit(lambda record: replace(record, segments=(*record.segments, segment)))
        self._unlisted = None
        self._by_id[segment.id] = self._queued
        self._index()
        self._writer = writer
        self._open_entries = self._open_bytes = 0

    async def _discard_unlisted(self) -> None:
        writer, self._unlisted = self._unlisted, None
        if writer is not None:
            await self.discard_unlisted(writer.segment)

    async def _settle(self, writer: SegmentWriter) -> None:
        end = await writer.seal()
        now_ms = self.engine.clock.now_ms()
        for segment in self._record.segments:
            if segment.id == writer.segment:
                one = segment.settled(end, now_ms)
                await self.commit(partial(LogRecord.with_segment, changed=one))
        self._index()

    # Reclaiming -----------------------------------------------------------------

    async def reclaim(self, needed: Needed, before: int, max_bytes: int = COPY_BYTES) -> int:
        """Give back what nobody needs in segments that end at or below offset `before`.

        Copies about `max_bytes` at most.  Returns how many bytes of payloads are gone.
        """
        if self._thinning is None:
            self._thinning = Thinning(self)
        return await self._thinning.run(needed, before, max_bytes)

    async def _thinned(self) -> None:
        """Wait until nothing is being thinned."""
        if self._thinning is not None:
            await self._thinning.ended()

    @property
    def size(self) -> int:
        """Bytes of all payloads kept."""
        return sum(s.size for s in self._record.segments) + self._open_bytes
