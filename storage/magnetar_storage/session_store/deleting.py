"""Deletes segments of other sessions, many by one change of a record.

The record of a session names its deleted segments until a new manifest lacks them.  Both are
written as a whole, so each is written seldom: deletions that arrive while another one is under way
are one change, and the manifest is replaced once the changes have cost as much as it does.
"""

from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.runtime.execution import Clock, Done, settling
from magnetar_storage.runtime.mutex import KeyedMutex
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.session_record import SessionRecord, SessionState
from magnetar_storage.session_store.sessions import Session, Sessions

FEW_DELETED: Final = 256
"""The deleted segments in a record up to which its manifest is not replaced."""
MOST_DELETED: Final = 8192
"""The deleted segments in a record, 100 KB, at which its manifest is replaced in any case."""
ROW_IDS: Final = 5
"""The ids in a record that have about as many bytes as a row of a manifest."""


class _Batch:
    """Segments of one session that are deleted by one change."""

    __slots__ = ("joined", "segments")

    def __init__(self) -> None:
        self.segments: set[SegmentId] = set()
        self.joined: list[Done] = []
        """The ends of all calls but the one that makes the change."""


class Deletions:
    """Deletes segments of sessions that have ended, or whose process still runs elsewhere."""

    def __init__(
        self,
        sessions: Sessions,
        clock: Clock,
        bury_if_empty: Callable[[Session], Coroutine[Any, Any, bool]],
    ) -> None:
        """`bury_if_empty` deletes all objects of a settled session without segments."""
        self._sessions = sessions
        self._clock = clock
        self._bury_if_empty = bury_if_empty
        self._next: dict[int, _Batch] = {}
        """For each session the deletions whose change has not begun."""
        self._turns: KeyedMutex[int] = KeyedMutex(clock)

    def turn(self, session: int) -> AbstractAsyncContextManager[None]:
        """Wait until nothing is being deleted from a session, and let nothing be meanwhile."""
        return self._turns.held(session)

    async def delete(self, session: int, segments: Collection[SegmentId]) -> None:
        """Delete segments of one session; durable on return.  Missing ones are not an error."""
        batch = self._next.get(session)
        # promise: the record is written once for all that are deleted at the same time
        if batch is not None:
            promise = self._clock.promise()
            batch.segments.update(segments)
            batch.joined.append(settling(promise))
            await promise
            return
        batch = self._next[session] = _Batch()
        batch.segments.update(segments)
        # For the others, if this call is cancelled.
        outcome: StorageError | None = Unavailable("the deletion of segments was ended: try again")
        try:
            async with self._turns.held(session):
                self._begun(session, batch)
                await self._delete(session, batch.segments)
            outcome = None
        except StorageError as error:
            outcome = error
            raise
        finally:
            self._begun(session, batch)
            for joined in batch.joined:
                # An error for each: one object would gather the tracebacks of all who raise it.
                joined(None if outcome is None else outcome.again())

    def _begun(self, session: int, batch: _Batch) -> None:
        """Let later deletions be another change."""
        if self._next.get(session) is batch:
            del self._next[session]

    async def _delete(self, number: int, segments: Collection[SegmentId]) -> None:
        session = await self._sessions.load(number)
        if session is None or session.record.state is SessionState.GONE:
            return
        rows = [session.rows[segment] for segment in segments if segment in session.rows]
        named = frozenset(segments)
        if session.record.state is SessionState.SETTLED:
            named &= session.rows.keys()
        if not named:
            return

        def deleted(record: SessionRecord) -> SessionRecord:
            others = {n: at_ms for n, at_ms in record.aside.items() if n not in named}
            return replace(record, deleted=record.deleted | named, aside=others)

        await self._sessions.change(session, deleted)
        if session.manifest != session.record.manifest:
            await self._sessions.load(number)  # it was settled meanwhile, elsewhere
        self._sessions.drop_deleted(session)
        session.ids_written += len(session.record.deleted)
        if session.record.state is SessionState.SETTLED and rows:
            await self._free(session, rows)

    async def _free(self, session: Session, rows: Collection[SegmentRow]) -> None:
        """Delete the packs of deleted segments that no other segment needs."""
        if await self._bury_if_empty(session):
            return
        await self._sessions.delete_objects(session, self._sessions.needless(session, rows))
        if _is_long(session):
            await self._sessions.shorten(session)


def _is_long(session: Session) -> bool:
    """Return whether writing the deleted segments again costs more than a new manifest."""
    deleted = len(session.record.deleted)
    costs_more = session.ids_written >= ROW_IDS * len(session.rows)
    # promise: the record of a session stays small, however many of its segments are deleted
    return deleted >= MOST_DELETED or (deleted >= FEW_DELETED and costs_more)
