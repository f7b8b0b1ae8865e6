"""A log's record in the metadata store: changing it, and deleting segments it no longer lists.

Nothing is deleted before the record has stopped listing it, and nothing is written before the
record lists it: so a crash leaves neither a missing segment nor an unknown one.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from magnetar_storage.errors import BadVersion, Fenced, StorageError
from magnetar_storage.interfaces import (
    SegmentCopy,
    SegmentId,
    SegmentOrigin,
    SegmentWriter,
    Version,
)
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.log_state import LogState
from magnetar_storage.runtime.mutex import Mutex

Properties = dict[str, str]


class StoredRecord:
    """Changes the record by compare-and-set, one change at a time."""

    def __init__(self, state: LogState, version: Version) -> None:
        self.unfinished: set[SegmentId] = set()
        """Trash that is being written, or may be in use in spite of an error: it is not deleted."""
        self._state = state
        self._engine = state.engine
        self._version = version
        self._committing = Mutex(state.engine.clock)

    async def commit(self, change: Callable[[LogRecord], LogRecord]) -> None:
        """Store the result of `change` for the present record; durable on return.

        `Fenced` if another owner changed the record: the log has failed then.  After any other
        error it is unknown whether the change took place (`RetryingMetadata` finds out first).
        """
        async with self._committing.held():
            state = self._state
            record = self._timed(change(state.record))
            try:
                self._version = await self._engine.metadata.put(
                    state.key, record.encode(), self._version
                )
            except BadVersion as error:
                # Or an earlier change of ours, whose outcome was unknown, took place after all.  In
                # both cases the record in memory is not the stored one; opening the log again reads
                # that.
                fenced = Fenced(f"{state.key} was taken over by another owner")
                state.fail(fenced)
                raise fenced from error
            # Only now: nothing may act on a record that a crash could take back.
            state.record = record

    def _timed(self, record: LogRecord) -> LogRecord:
        """Return the record with the times of its trash, if the engine keeps trash, else without.

        They are in the change that unlists, so that no crash leaves trash without a time.
        """
        if self._engine.keeps_trash_ms:
            return record.with_times(self._engine.clock.now_ms())
        return replace(record, unlisted_ms={}) if record.unlisted_ms else record

    async def remove(self) -> bool:
        """Delete the record if it lists nothing, else return False.

        Later changes fail.
        """
        async with self._committing.held():
            record = self._state.record
            # promise[without record.segments or]: what is only in a store of objects is deleted
            if record.segments or record.listed or record.copy_trash:
                return False
            await self._engine.metadata.delete(self._state.key, self._version)
            return True

    # Changes --------------------------------------------------------------------

    async def change_properties(self, change: Callable[[Properties], Properties]) -> None:
        """Store the result of `change` for the log's properties; durable on return."""
        await self.commit(lambda record: replace(record, properties=change(record.properties)))

    async def replace_cursor_segment(self, segment: SegmentId) -> None:
        """List another cursor segment and delete the old one."""
        old = self._state.record.cursor_segment
        trash = () if old is None else (old,)
        await self.commit(
            lambda record: replace(record, cursor_segment=segment, trash=record.trash + trash)
        )
        await self.empty_trash()

    async def add_delay_segment(self, segment: SegmentId) -> None:
        """List one more segment of delays; it must not be written to before that."""
        await self.commit(
            lambda record: replace(record, delay_segments=(*record.delay_segments, segment))
        )

    async def drop_delay_segments(self, doomed: Collection[SegmentId]) -> None:
        """Delete some segments of delays."""
        deleted = tuple(doomed)
        await self.commit(
            lambda record: replace(
                record,
                delay_segments=tuple(s for s in record.delay_segments if s not in deleted),
                trash=record.trash + deleted,
            )
        )
        await self.empty_trash()

    # Trash ----------------------------------------------------------------------

    async def empty_trash(self) -> None:
        """Delete the segments that the record lists as trash, except `unfinished` ones.

        Those that the engine keeps stay listed until a call after that time.
        """
        if self._engine.keeps_trash_ms and not self._state.record.has_times:
            # Trash of an engine that kept none: it may have been unlisted just now.
            await self.commit(lambda record: record)
        doomed = frozenset(filter(self.may_delete, self._state.record.trash)) - self.unfinished
        await self._delete_segments(doomed)

    async def purge(self) -> None:
        """Delete all segments that the record lists as trash, for a log that is being deleted."""
        # Nobody writes to trash any more.
        self.unfinished.clear()
        await self._delete_segments(frozenset(self._state.record.trash))

    def may_delete(self, trash: SegmentId | SegmentCopy) -> bool:
        """Return whether the engine keeps an element of the record's trash no longer."""
        keeps_ms = self._engine.keeps_trash_ms
        if keeps_ms == 0:
            return True
        # promise[always]: what is not listed any more stays for as long as the engine says
        return self._state.record.is_due(trash, self._engine.clock.now_ms() - keeps_ms)

    async def _delete_segments(self, doomed: frozenset[SegmentId]) -> None:
        # Deleted first, and removed from the list then: after a crash in between the next owner
        # deletes them once more, which is not an error.
        for segment in sorted(doomed):
            await self._engine.store.delete(segment)
        if doomed:
            await self.commit(
                lambda record: replace(
                    record, trash=tuple(t for t in record.trash if t not in doomed)
                )
            )

    async def create_in_trash(self, origin: SegmentOrigin) -> SegmentWriter:
        """Create a segment, listed as `unfinished` trash until another change lists it for use."""
        writer = await self._engine.store.create(origin)
        # Before the change that lists it: another change may empty the trash right after that.
        # promise: a sparse segment is not deleted while it is written
        self.unfinished.add(writer.segment)
        try:
            # promise: a sparse segment is trash until it is in use
            await self.commit(lambda record: replace(record, trash=(*record.trash, writer.segment)))
        except StorageError:
            self.unfinished.discard(writer.segment)
            await self.discard_unlisted(writer.segment)
            raise
        return writer

    async def discard_unlisted(self, segment: SegmentId) -> None:
        """Delete a new segment whose listing failed, unless the stored record lists it after all.

        If that cannot be found out now, `discard_undeleted` tries again when the log is opened; the
        next start deletes such orphans otherwise.
        """
        try:
            if await self._is_unlisted(segment):
                await self._engine.store.delete(segment)
        except StorageError:  # the error that made the listing fail was reported already
            self._engine.undeleted.setdefault(self._state.key, set()).add(segment)

    async def discard_undeleted(self) -> None:
        """Call `discard_unlisted` again for the segments that it has not deleted."""
        for segment in self._engine.undeleted.pop(self._state.key, ()):
            await self.discard_unlisted(segment)

    async def _is_unlisted(self, segment: SegmentId) -> bool:
        """Return whether the stored record does not list a segment, and never will."""
        found = await self._engine.metadata.get(self._state.key)
        if found is None:
            return True
        if segment in LogRecord.decode(self._state.key, found.value).listed:
            return False
        if found.version == self._version:
            # A change that lists it, whose outcome is unknown, may still be on its way to the
            # store: after another change it is refused.
            # promise: a record never lists a segment that was deleted
            await self.commit(lambda record: record)
        return True
