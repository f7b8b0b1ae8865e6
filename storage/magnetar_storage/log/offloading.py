"""Offloading: moving settled segments of a log to a store of objects.

The record lists a copy before it is uploaded, and until it is deleted.  The segment is deleted from
the store by a later change of the record, which only a complete copy allows.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import LogClosed, NoSegment, StorageError
from magnetar_storage.interfaces import SegmentCopy, SegmentId
from magnetar_storage.log.left_objects import leave
from magnetar_storage.log.log_reader import LogReader
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.stored_record import StoredRecord
from magnetar_storage.runtime.mutex import Mutex

Change = Callable[[LogRecord], LogRecord]


class _Gone(Exception):
    """The log does not list the segment any more, or only a part of its entries."""


class LogOffloading:
    """Copies segments of one log, deletes what is copied, and deletes copies; one at a time.

    Every method but `purge` raises the log's `failed` once that is set.
    """

    def __init__(self, state: LogState, stored: StoredRecord, entries: LogReader) -> None:
        self._state = state
        self._stored = stored
        self._entries = entries
        self._copies = state.engine.copies
        self._running = Mutex(state.engine.clock)
        self._changing = Mutex(state.engine.clock)
        self._begun: dict[SegmentId, SegmentCopy] = {}
        """The copies whose upload by this process failed or may still be running."""

    async def copy(self, number: SegmentId, place: str) -> bool:
        """Copy a settled segment to a place, unless it has a complete copy.

        Returns False if the log does not list the segment as a whole any more.  If it raises an
        error the next call begins again.
        """
        async with self._running.held():
            try:
                copy = _whole(self._state.record, number).copy
                if copy is not None and copy.completed_ms:
                    return True
                # The bytes of a segment do not change: an upload that this process has begun is
                # repeated under its name, also if it takes place late.  That of another process
                # could come from a file that was damaged since.
                if copy is None or copy != self._begun.get(number) or copy.place != place:
                    copy = SegmentCopy(place, self._copies.new_name(number))
                    # promise: the record lists a copy before it exists
                    await self._commit(partial(_with_copy, number, copy))
                    self._begun[number] = copy
                size = await self._copies.upload(number, copy, self._goes_on)
                now_ms = self._state.engine.clock.now_ms()
                complete = replace(copy, size=size, completed_ms=now_ms)
                await self._commit(partial(_with_copy, number, complete))
            except _Gone:
                return False
            except NoSegment:
                # Its file is deleted after the record has stopped listing it.
                if any(one.id == number for one in self._state.record.segments):
                    raise
                return False
            finally:
                self._forget_deleted()
            return True

    async def drop(self, numbers: Collection[SegmentId]) -> None:
        """Delete from the store those of the given segments that have complete copies.

        A copy whose object has gone does not count any more: the next `copy` makes another one.
        """
        async with self._running.held():
            dropped: list[Segment] = []
            for segment in self._state.record.segments:
                copy = segment.copy
                # promise[segment.is_copied and -> True and]: only a complete copy replaces it
                if segment.is_copied and copy is not None and not copy.is_only:
                    if segment.id not in numbers:
                        continue
                    # promise[await self._copies.is_there(copy) -> True]: an object that was deleted
                    #   in the store of objects replaces no segment
                    if await self._copies.is_there(copy):
                        dropped.append(segment)
                    else:
                        await self._commit(partial(_without_copy, segment.id))
                        # promise: no reader of a copy that has gone is used for the next one
                        self._entries.moved([segment])
            if not dropped:
                return
            await self._commit(partial(_without_local, dropped))
            # Their readers are of the store.
            self._entries.moved(dropped)
            await self._stored.empty_trash()

    async def delete_unused(self) -> None:
        """Delete copies that the log does not need any more, and that the engine keeps no longer.

        `Unavailable` if the place of one cannot be reached: it stays listed.
        """
        async with self._running.held():
            trash = self._state.record.copy_trash
            # promise[filter(self._stored.may_delete -> filter(None]:
            #   a copy stays for as long as the engine says
            unused = list(filter(self._stored.may_delete, trash))
            deleted, failure = await self._deleted(unused)
            if deleted:
                await self._commit(partial(_without_trash, deleted))
            if failure is not None:
                raise failure

    async def purge(self) -> None:
        """Delete the unused copies of a log that is being deleted.

        Those whose place cannot be reached are listed elsewhere (`left_objects.py`).
        """
        async with self._running.held():
            trash = self._state.record.copy_trash
            deleted, failure = await self._deleted(trash)
            if isinstance(failure, LogClosed):
                raise failure  # the process is stopping: the next one deletes the log
            if failure is not None:
                left = [copy for copy in trash if copy not in deleted]
                engine = self._state.engine
                # promise: the objects of a deleted log stay listed until they are deleted
                await leave(
                    engine.metadata, self._state.key, left, engine.clock.now_ms(), str(failure)
                )
            if trash:
                await self._stored.commit(partial(_without_trash, trash))

    async def _deleted(
        self, copies: Collection[SegmentCopy]
    ) -> tuple[list[SegmentCopy], StorageError | None]:
        """Delete copies; return those that were deleted, and the first error."""
        # Behind an upload that is running, whose object would otherwise come after its deletion.
        assert self._running.is_held
        deleted: list[SegmentCopy] = []
        failure: StorageError | None = None
        for copy in copies:
            try:
                await self._copies.delete(copy)
                deleted.append(copy)
            except StorageError as error:
                failure = failure or error  # others may be in another place
        return deleted, failure

    async def ended(self) -> None:
        """Wait for a change of the record; once the log has failed, no other one follows.

        An upload may still be running: it ends soon, and changes nothing.
        """
        await self._changing.idle()

    async def _commit(self, change: Change) -> None:
        async with self._changing.held():
            # promise: a log that is closed changes no record, which another owner may have opened
            self._check_open()
            await self._stored.commit(change)

    def _check_open(self) -> None:
        if self._state.failed is not None:
            raise self._state.failed.again()

    def _forget_deleted(self) -> None:
        """Forget the uploads of segments that have a complete copy, or are not listed."""
        present = {segment.id: segment.copy for segment in self._state.record.segments}
        self._begun = {
            number: copy for number, copy in self._begun.items() if present.get(number) == copy
        }

    def _goes_on(self) -> bool:
        return self._state.failed is None


def _without_trash(doomed: Collection[SegmentCopy], record: LogRecord) -> LogRecord:
    return replace(record, copy_trash=tuple(c for c in record.copy_trash if c not in doomed))


def _whole(record: LogRecord, number: SegmentId) -> Segment:
    for segment in record.segments:
        if segment.id == number and segment.entries is not None and segment.is_whole:
            return segment
    raise _Gone


def _with_copy(number: SegmentId, copy: SegmentCopy, record: LogRecord) -> LogRecord:
    _whole(record, number)
    return record.with_copies({number: copy})


def _without_copy(number: SegmentId, record: LogRecord) -> LogRecord:
    return record.with_copies({number: None})


def _without_local(dropped: Collection[Segment], record: LogRecord) -> LogRecord:
    """Return the record with copies that are the only ones; a trimmed segment has none."""
    only = {s.id: replace(s.copy, is_only=True) for s in dropped if s.copy is not None}
    return record.with_copies(only)
