"""A log's record in the metadata store, and what it says may go: trimming, trash."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace

from magnetar_storage.engine import Engine
from magnetar_storage.errors import BadVersion, Fenced, StorageError, WriterFailed
from magnetar_storage.interfaces import SegmentId, SegmentWriter, Version
from magnetar_storage.log_reading import ReadableLog
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.offsets import OffsetSet
from magnetar_storage.world import Promise

Properties = dict[str, str]


class RecordedLog(ReadableLog):
    """A log whose segment list changes by compare-and-set."""

    def __init__(self, key: str, engine: Engine, record: LogRecord, version: Version) -> None:
        super().__init__(engine, record)
        self.key = key
        self.failed: StorageError | None = None
        self.terminated = record.terminated
        """Whether nothing will ever be appended any more."""
        self.on_failure: Callable[[StorageError], None] | None = None
        """Told when the log fails by itself; not when it is closed or deleted."""
        self.on_reclaimed: Callable[[], None] | None = None
        """Told at once when entries are gone: every cursor must `skip_holes`, for it may have
        been put before them while that was being recorded."""
        self.unfinished: set[SegmentId] = set()
        """Trash that is being written, or may be in use after all: it is left alone."""
        self.compacting: Promise | None = None
        """Unsettled while compacted data is being written; that ends soon when the log fails."""
        self._version = version
        self._committing: Promise | None = None

    def fail(self, error: BaseException) -> None:
        """Appending ends for good; of several causes the first one counts."""
        if self.failed is None:
            self.failed = error if isinstance(error, StorageError) else WriterFailed(str(error))
            if self.on_failure is not None:
                self.on_failure(self.failed)

    # The record -----------------------------------------------------------------

    @property
    def record(self) -> LogRecord:
        """What is stored of the log, and changed by `commit`."""
        return self._record

    async def commit(self, change: Callable[[LogRecord], LogRecord]) -> None:
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

    async def remove_record(self) -> bool:
        """Delete the record if it lists nothing, else False; later changes of it fail."""
        while self._committing is not None:
            await self._committing
        if self._record.listed:
            return False
        self._committing = self.engine.clock.promise()
        try:
            await self.engine.metadata.delete(self.key, self._version)
        finally:
            committing, self._committing = self._committing, None
            committing.set_result(None)
        return True

    @property
    def properties(self) -> dict[str, str]:
        """The log's own properties; change them with `change_properties`."""
        return self._record.properties

    async def change_properties(self, change: Callable[[Properties], Properties]) -> None:
        """Store what `change` makes of the properties; durable on return."""
        await self.commit(lambda record: replace(record, properties=change(record.properties)))

    @property
    def cursor_segment(self) -> SegmentId | None:
        """Where the cursors' states are."""
        return self._record.cursor_segment

    async def replace_cursor_segment(self, segment: SegmentId) -> None:
        """List another cursor segment and delete the old one."""
        old = self._record.cursor_segment
        trash = () if old is None else (old,)
        await self.commit(
            lambda record: replace(record, cursor_segment=segment, trash=record.trash + trash)
        )
        await self.empty_trash()

    @property
    def delay_segments(self) -> tuple[SegmentId, ...]:
        """Where the delayed entries are that the cursor segment does not list."""
        return self._record.delay_segments

    async def add_delay_segment(self, segment: SegmentId) -> None:
        """List one more of them; only then may it be written to."""
        await self.commit(
            lambda record: replace(record, delay_segments=(*record.delay_segments, segment))
        )

    async def drop_delay_segments(self, doomed: Collection[SegmentId]) -> None:
        """Delete some of them."""
        gone = tuple(doomed)
        await self.commit(
            lambda record: replace(
                record,
                delay_segments=tuple(s for s in record.delay_segments if s not in gone),
                trash=record.trash + gone,
            )
        )
        await self.empty_trash()

    # What may go ----------------------------------------------------------------

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
        gone = frozenset(segment.id for segment in doomed)
        await self.commit(lambda record: record.without(gone))
        self._moved(doomed)
        self.holes.remove_below(self.first_offset)
        self._reclaimed()
        await self.empty_trash()
        return len(doomed)

    def thinned(self, segments: list[Segment], start: int, stop: int, live: OffsetSet) -> None:
        """The record says that of start..stop-1, which were in `segments`, `live` is left."""
        self._moved(segments)
        for hole in list(live.missing(start, stop)):
            self.holes.add(*hole)
        self._reclaimed()

    def _reclaimed(self) -> None:
        if self.on_reclaimed is not None:
            self.on_reclaimed()

    def _moved(self, segments: list[Segment]) -> None:
        """Nobody reads these segments any more where they were."""
        self._index()
        for segment in segments:
            self._readers.drop(segment.id)
            if segment.kept_in is not None and segment.kept_in not in self._record.stored:
                self._keepers.drop(segment.kept_in)

    async def empty_trash(self) -> None:
        """Delete what the record no longer needs."""
        doomed = frozenset(self._record.trash) - self.unfinished
        for segment in sorted(doomed):
            await self.engine.store.delete(segment)
        if doomed:
            await self.commit(
                lambda record: replace(
                    record, trash=tuple(t for t in record.trash if t not in doomed)
                )
            )

    async def create_in_trash(self) -> SegmentWriter:
        """A new segment that is `unfinished` trash until it is of use."""
        writer = await self.engine.store.create()
        self.unfinished.add(writer.segment)
        try:
            await self.commit(lambda record: replace(record, trash=(*record.trash, writer.segment)))
        except StorageError:
            self.unfinished.discard(writer.segment)
            await self.discard_unlisted(writer.segment)
            raise
        return writer

    async def compaction_ended(self) -> None:
        """Wait until no compacted data is being written."""
        while self.compacting is not None:
            await self.compacting

    async def discard_unlisted(self, segment: SegmentId) -> None:
        """Delete a new segment that could not be listed, if the stored record lacks it indeed.

        Where that cannot be found out it is left over, for the next start to find.
        """
        with suppress(StorageError):  # what made the listing fail was told already
            found = await self.engine.metadata.get(self.key)
            if found is None or segment not in LogRecord.decode(self.key, found.value).listed:
                await self.engine.store.delete(segment)
