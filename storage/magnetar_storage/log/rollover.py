"""The segment for appends: beginning one, replacing it when it is big or old, ending it.

While a segment is being replaced, appends still go to the old one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from magnetar_storage.errors import StorageError, WriterFailed
from magnetar_storage.interfaces import SegmentKind, SegmentWriter
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.stored_record import StoredRecord
from magnetar_storage.runtime.mutex import Mutex


class Rollover:
    """Begins and ends a log's open segment; one change at a time."""

    def __init__(self, state: LogState, stored: StoredRecord) -> None:
        self._state = state
        self._stored = stored
        self._engine = state.engine
        self._unlisted: SegmentWriter | None = None
        """The writer of a new segment that is not in use yet."""
        self._switching = Mutex(state.engine.clock)  # held while the writer is being replaced

    async def start_writing(self) -> None:
        """Create and list the segment that `Log.append` needs, unless there is one."""
        state = self._state
        async with self._switching.held():
            self._check_working()
            if state.terminated:
                raise WriterFailed(f"{state.key} is terminated: nothing can be appended any more")
            # A caller that held it before may have begun the segment that this call waits for.
            if state.writer is None:
                async with self._unlisted_deleted():
                    await self._next_segment()

    async def terminate(self) -> None:
        """End appending for ever; everything that was appended is durable before.

        The caller must have stopped appending.  If this raises, the log has failed: whether it is
        terminated is unknown until it is opened again.
        """
        async with self._switching.held():
            self._check_working()
            if not self._state.terminated:
                async with self._unlisted_deleted():
                    await self._terminate()

    async def _terminate(self) -> None:
        state = self._state
        try:
            # Nothing is appended from here on, and the seal waits for what was: so the end that is
            # recorded as the last position cannot move any more.
            writer = state.end_segment()
            if writer is not None:
                await self.settle(writer)
            last = state.position(state.end - 1) if state.end > state.first_offset else None
            # promise[replace(record, terminated=True, terminated_at=last) -> record]: the end of a
            #   topic is durable
            await self._stored.commit(
                lambda record: replace(record, terminated=True, terminated_at=last)
            )
            state.terminated = True
        except StorageError as error:
            # It may be recorded all the same: an append now would extend a log that is terminated.
            state.fail(error)
            raise

    def roll_if_due(self) -> None:
        """Begin a new segment if the open one has reached its limits.

        `Log.append` checks size and number of entries; call this now and then for the age.
        """
        state = self._state
        if state.writer is None:
            return
        age_ms = self._engine.clock.now_ms() - state.record.segments[-1].created_ms
        if self._engine.roll.reached(state.open_entries, state.open_bytes, age_ms):
            self.roll()

    def roll(self) -> None:
        """Begin a new segment if the open one has entries, so that the open one can be deleted."""
        state = self._state
        can = state.writer is not None and state.failed is None and not self._switching.is_held
        if can and state.open_entries:
            # Taken now and not by the coroutine, which begins later: the runs that become
            # durable until then must not begin a roll each, and `idle` must wait for this one.
            self._switching.take()
            self._engine.tasks.spawn(self._roll())

    async def idle(self) -> None:
        """Wait until no segment is being begun or ended."""
        await self._switching.idle()

    async def discard_unlisted(self) -> None:
        """Delete a new segment that could not be listed."""
        writer, self._unlisted = self._unlisted, None
        if writer is not None:
            await self._stored.discard_unlisted(writer.segment)

    async def settle(self, writer: SegmentWriter) -> None:
        """Seal a segment and record its end."""
        end = await writer.seal()
        now_ms = self._engine.clock.now_ms()

        def with_end(record: LogRecord) -> LogRecord:
            for segment in record.segments:
                if segment.id == writer.segment:
                    return record.with_segment(segment.settled(end, now_ms))
            return record

        # From the record as it is then: what is set aside meanwhile stays so.
        await self._stored.commit(with_end)
        self._state.ending_bytes = 0
        self._state.index()

    async def _roll(self) -> None:
        """Replace the open segment; the caller has taken `_switching`."""
        old = self._state.writer
        try:
            async with self._unlisted_deleted():
                try:
                    await self._next_segment()
                    # Only now, so that no append waits for the seal.  A crash before it leaves two
                    # segments whose end is not recorded: the next owner settles both.
                    if old is not None:
                        await self.settle(old)
                except StorageError as error:
                    # The content of the record may be unknown.  Opening the log again reads it, and
                    # is the one way to recover from any failure.
                    self._state.fail(error)
        finally:
            self._switching.give_back()

    def _check_working(self) -> None:
        if self._state.failed is not None:
            raise self._state.failed.again()

    @asynccontextmanager
    async def _unlisted_deleted(self) -> AsyncIterator[None]:
        """Delete the unlisted segment if the log fails: no later attempt would use it."""
        try:
            yield
        finally:
            if self._state.failed is not None:
                await self.discard_unlisted()

    async def _next_segment(self) -> None:
        """Create a segment, list it, and only then direct appends to it."""
        # Clients compare ledger ids, and the last segment may be another process's.
        segments = self._state.record.segments
        last = segments[-1].id if segments else 0
        origin = self._state.origin_of(SegmentKind.MESSAGES)
        writer = self._unlisted or await self._engine.store.create(origin, last)
        self._unlisted = writer  # if listing it fails, the next attempt uses it
        segment = Segment(writer.segment, self._engine.clock.now_ms())
        await self._stored.commit(
            lambda record: replace(record, segments=(*record.segments, segment))
        )
        self._unlisted = None
        self._state.begin_segment(writer)
