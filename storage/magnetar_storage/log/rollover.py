"""Which segment is appended to: beginning one, replacing it when it is big or old, ending it.

While a segment is being replaced, appends still go to the old one.
"""

from dataclasses import replace
from functools import partial

from magnetar_storage.errors import StorageError, WriterFailed
from magnetar_storage.interfaces import SegmentWriter
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.stored_record import StoredRecord
from magnetar_storage.world.runtime import Promise


class Rollover:
    """Begins and ends a log's open segment; one change at a time."""

    def __init__(self, state: LogState, stored: StoredRecord) -> None:
        self._state = state
        self._stored = stored
        self._engine = state.engine
        self._unlisted: SegmentWriter | None = None  # of a new segment that is not in use yet
        self._switching: Promise | None = None  # unsettled while the writer is being replaced

    async def start_writing(self) -> None:
        """Create and list the segment that `Log.append` needs; nothing if there is one."""
        await self.idle()
        state = self._state
        if state.failed is not None:
            raise state.failed.again()
        if state.terminated:
            raise WriterFailed(f"{state.key} is terminated: nothing can be appended any more")
        if state.writer is None:
            self._switching = self._engine.clock.promise()
            try:
                await self._next_segment()
            finally:
                await self._end_switch()

    async def terminate(self) -> None:
        """Let nothing be appended any more, ever; what was appended is durable before.

        The caller must have stopped appending.  If this raises, the log has failed: it is unknown
        whether it is terminated until it is opened again.
        """
        await self.idle()
        state = self._state
        if state.failed is not None:
            raise state.failed.again()
        if state.terminated:
            return
        self._switching = self._engine.clock.promise()
        try:
            writer, state.writer = state.writer, None
            if writer is not None:
                await self.settle(writer)
                state.open_entries = state.open_bytes = 0
            last = state.position(state.end - 1) if state.end > state.first_offset else None
            await self._stored.commit(
                lambda record: replace(record, terminated=True, terminated_at=last)
            )
            state.terminated = True
        except StorageError as error:
            state.fail(error)
            raise
        finally:
            await self._end_switch()

    def roll_if_due(self) -> None:
        """Begin a new segment if the open one has reached its limits.

        `Log.append` checks size and number of entries; call this now and then for the age.
        """
        state = self._state
        if state.writer is None or self._switching is not None or state.failed is not None:
            return
        age_ms = self._engine.clock.now_ms() - state.record.segments[-1].created_ms
        if self._engine.roll.reached(state.open_entries, state.open_bytes, age_ms):
            self._switching = self._engine.clock.promise()
            self._engine.tasks.spawn(self._roll())

    async def idle(self) -> None:
        """Wait until no segment is being begun or ended."""
        while self._switching is not None:
            await self._switching

    async def discard_unlisted(self) -> None:
        """Delete a new segment that could not be listed."""
        writer, self._unlisted = self._unlisted, None
        if writer is not None:
            await self._stored.discard_unlisted(writer.segment)

    async def settle(self, writer: SegmentWriter) -> None:
        """Seal a segment and record its end."""
        end = await writer.seal()
        now_ms = self._engine.clock.now_ms()
        for segment in self._state.record.segments:
            if segment.id == writer.segment:
                settled = segment.settled(end, now_ms)
                await self._stored.commit(partial(LogRecord.with_segment, changed=settled))
        self._state.index()

    async def _roll(self) -> None:
        old = self._state.writer
        try:
            await self._next_segment()
            if old is not None:
                await self.settle(old)
        except StorageError as error:
            self._state.fail(error)
        finally:
            await self._end_switch()

    async def _end_switch(self) -> None:
        if self._state.failed is not None:
            await self.discard_unlisted()
        switching, self._switching = self._switching, None
        if switching is not None:
            switching.set_result(None)

    async def _next_segment(self) -> None:
        """Create a segment, list it, and only then let appends go there."""
        writer = self._unlisted or await self._engine.store.create()
        self._unlisted = writer  # if listing it fails, the next attempt uses it
        segment = Segment(writer.segment, self._engine.clock.now_ms())
        await self._stored.commit(
            lambda record: replace(record, segments=(*record.segments, segment))
        )
        self._unlisted = None
        self._state.begin_segment(writer)
