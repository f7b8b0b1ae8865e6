"""Segments in a store of objects alone; nothing is on a disk of this machine.

The life of a process is a *session* with a number of its own, which is in the ids of its segments.
All its appends go to one write-ahead log (`wal/`), and are readable from memory until they are in
*packs*: objects with parts of segment files, listed by a *manifest*, which is named by the record
of the session in the metadata store.  Another process may settle a session once that is fenced.

An engine opens the store with `opening.open_session_store`, which says what it needs.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import Corrupt, Fenced, NoSegment, StorageError, Unavailable
from magnetar_storage.interfaces import (
    DamagedEntries,
    Sealed,
    SegmentId,
    SegmentOrigin,
    SegmentReader,
)
from magnetar_storage.local import segment_file, segment_origin
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_writer import LocalReader, LocalSegment
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.session_store import aside
from magnetar_storage.session_store.deleting import Deletions
from magnetar_storage.session_store.foreign_reader import ForeignReader
from magnetar_storage.session_store.limits import SLOTS_BEHIND
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.own_session import OwnSession
from magnetar_storage.session_store.session_ids import session_of
from magnetar_storage.session_store.session_record import SessionRecord, SessionState
from magnetar_storage.session_store.session_writer import SessionWriter
from magnetar_storage.session_store.sessions import Session, Sessions
from magnetar_storage.session_store.settled_files import ObjectNames, ReadLane, lane_of
from magnetar_storage.session_store.takeover import Takeover


class SessionStore:
    """The `SegmentStore` of one process; create it with `open_session_store`."""

    def __init__(
        self,
        own: OwnSession,
        sessions: Sessions,
        takeover: Takeover,
        lanes: Sequence[ReadLane],
        objects: Objects,
        names: ObjectNames,
        worker: Worker,
        clock: Clock,
        report: Callable[[Finding], None],
    ) -> None:
        self._own = own
        self._sessions = sessions
        self._takeover = takeover
        self._lanes = lanes
        self._objects = objects
        self._names = names
        self._worker = worker
        self._clock = clock
        self._report = report
        self._deletions = Deletions(sessions, clock, self._bury_if_empty)
        self._settled: set[int] = set()
        """The sessions whose segments this process checks for damage: those that it has settled, or
        adopted."""

    @property
    def session(self) -> int:
        """The number of the session of this process."""
        return self._own.session.number

    @property
    def trouble(self) -> StorageError | None:
        return self._own.trouble

    @property
    def is_failing(self) -> bool:
        return self._own.trouble is not None

    def when_ended(self, call: Callable[[StorageError], None]) -> None:
        """Call once when nothing can be appended any more: this process must end then.

        Another process has ended this session, or its log has failed.
        """
        self._own.wal.when_ended(call)

    # Sessions -------------------------------------------------------------------

    async def open_sessions(self) -> Mapping[int, str]:
        """Return the other sessions that are neither settled nor gone, with their owners."""
        found: dict[int, str] = {}
        for number in await self._sessions.in_state(SessionState.OPEN, SessionState.FENCED):
            session = None if number == self.session else await self._sessions.load(number)
            if session is not None:
                found[number] = session.record.owner
        return found

    async def end_session(self, number: int) -> None:
        """Fence and settle the session of another process, which may still run; idempotent.

        For a process whose lease has ended: nothing that it appends later is reported as durable.
        Until this was called its segments cannot be recovered.
        """
        if number == self.session:
            raise ValueError("a process cannot end its own session")
        session = await self._sessions.load(number)
        if session is not None:
            await self._takeover.fence(session)
            await self._settle(session)

    async def forget_gone(self) -> None:
        """Delete the records of sessions without segments, and objects that a crash has left."""
        try:
            for number in await self._sessions.in_state(SessionState.GONE):
                session = await self._sessions.load(number)
                if session is not None and number != self.session:
                    await self._bury(session)
                    await self._sessions.forget(session)
        except StorageError as error:
            text = f"what ended sessions have left cannot be deleted at present: {error}"
            self._report(Finding("sessions", 0, text))

    async def adopt_settled(self) -> None:
        """Check the segments of all settled sessions for damage, and delete what crashes left.

        For the only process that serves the data, behind `end_session`; it need not wait for this.
        """
        try:
            settled = await self._sessions.in_state(SessionState.SETTLED)
            # promise: segments of former processes are checked for damage
            self._settled.update(settled)
            for number in settled:
                await self._adopt(number)
        except StorageError as error:
            text = f"what former processes have left is not cleaned up at present: {error}"
            self._report(Finding("sessions", 0, text))

    async def settle(self) -> None:
        """Write everything to packs now: then other processes can read what is sealed.

        For a process that hands topics over, after it has sealed their segments.
        """
        await self._own.settling.settle(True)

    # The interface --------------------------------------------------------------

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> SessionWriter:
        return await self._own.create(origin, beyond)

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        found = self._own.segments.get(segment)
        if found is not None and found.origin:
            named = segment_origin.of(found.origin)
        elif found.length if found is not None else (await self._row(segment)).length:
            lane = self._lane(segment)
            named = await lane.worker.run(partial(segment_origin.read, lane.disk, segment))
        else:
            named = None  # the segment is empty
        return None if named is None else named.origin

    async def recover(self, segment: SegmentId) -> Sealed:
        if self._is_own(segment):
            await self._take_back(self._own.session, segment)
            return await self._own.recover(segment, Fenced(f"segment {segment} was recovered"))
        return (await self._row(segment)).end

    async def reader(self, segment: SegmentId) -> SegmentReader:
        lane = self._lane(segment)
        found = self._own.segments.get(segment)
        if found is None:
            found = await self._loaded(lane, segment, await self._row(segment))
        else:
            await self._take_back(self._own.session, segment)
        reader = LocalReader(found, lane.disk, lane.worker)
        if self._is_own(segment):
            return reader
        return ForeignReader(reader, partial(self._sessions.load, session_of(segment)))

    async def delete(self, segment: SegmentId) -> None:
        self._lane(segment).finished.pop(segment)
        if self._is_own(segment):
            await self._own.delete(segment)
            return
        await self._deletions.delete(session_of(segment), [segment])

    async def segments(self) -> AsyncIterator[SegmentId]:
        own = self._own
        present = own.segments.keys() | own.session.rows.keys()
        for number in sorted(present - own.session.record.aside.keys()):
            yield number
        for session in await self._all_settled():
            for number in sorted(session.rows.keys() - session.record.aside.keys()):
                yield number

    def closed(self) -> list[SegmentId]:
        own = self._own.session
        found = own.rows.keys() - self._own.segments.keys() - own.record.aside.keys()
        for number in self._settled:
            session = self._sessions.known(number)
            if session is not None:
                found |= session.rows.keys() - session.record.aside.keys()
        return sorted(found)

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        named = set(segments)
        # promise[number async for number in self.segments() if number in named -> *segments]: a
        #   segment that a living process is about to list is not set aside
        orphans = [number async for number in self.segments() if number in named]
        ends: dict[SegmentId, Sealed] = {}
        for number in orphans:
            with suppress(NoSegment, Corrupt):  # a log has deleted it meanwhile; it stays
                ends[number] = await self.recover(number)
        now_ms = self._clock.now_ms()
        for session_number in sorted({session_of(number) for number in ends}):
            session = self._sessions.known(session_number)
            assert session is not None
            moved = {n: now_ms for n in ends if session_of(n) == session_number}
            await self._sessions.change(session, partial(_with_aside, moved))
        return ends

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        quarantine = self._names.quarantine
        job = partial(aside.delete_damaged, self._objects, quarantine, before_ms)
        await self._worker.run(job)
        own = _expired(self._own.session, before_ms)
        for number in own:
            await self.delete(number)
        await self._sessions.change(self._own.session, partial(_without_aside, own))
        expired = own
        for session in await self._all_settled():
            found = _expired(session, before_ms)
            for number in found:
                self._lane(number).finished.pop(number)
            await self._deletions.delete(session.number, found)
            expired = [*expired, *found]
        return expired

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        number = self._sessions.new_number()
        quarantine, now_ms = self._names.quarantine, self._clock.now_ms()
        job = partial(aside.put_damaged, self._objects, quarantine, number, entries, why, now_ms)
        await self._worker.run(job)

    async def close(self) -> None:
        """Write everything to packs, so that no process has to recover this session."""
        own = self._own.session
        # promise: a session whose log has failed is left to a takeover
        if not await self._own.stop():
            return  # fenced, or what it stored last is unknown: others find that out

        def settled(record: SessionRecord) -> SessionRecord | None:
            is_open = record.state is SessionState.OPEN
            if not is_open:
                return None
            return replace(record, state=SessionState.SETTLED, discarded=record.trim)

        await self._sessions.change(own, settled)
        await self._bury_if_empty(own)

    # How it works ---------------------------------------------------------------

    def _is_own(self, segment: SegmentId) -> bool:
        return session_of(segment) == self.session

    def _lane(self, segment: SegmentId) -> ReadLane:
        return lane_of(self._lanes, segment)

    async def _row(self, segment: SegmentId) -> SegmentRow:
        """Return the row of a segment that does not grow; `NoSegment` if there is none."""
        if self._is_own(segment):
            session = self._own.session
        else:
            # Each time: another process may have set the segment aside, or deleted it.
            found = await self._sessions.load(session_of(segment))
            if found is None:
                raise NoSegment(f"there is no segment {segment}")
            session = found
            if session.record.state is SessionState.FENCED:
                await self._settle(session)
        row = session.rows.get(segment)
        is_open = session.record.state is SessionState.OPEN and not self._is_own(segment)
        # promise[is_open and -> False and]: a segment is not taken from a process that may append
        if is_open and (row is None or not row.is_finished):
            raise Unavailable(
                f"segment {segment} is not settled by the process that has it open"
                f" ({session.record.owner or 'unknown'}, session {session.number}), which was not"
                " ended: try again"
            )
        if row is None:
            raise NoSegment(f"there is no segment {segment}")
        # promise: a segment that is used again is not deleted with those set aside
        await self._take_back(session, segment)
        return row

    async def _loaded(self, lane: ReadLane, segment: SegmentId, row: SegmentRow) -> LocalSegment:
        """Return a segment in packs with its index."""
        present = lane.finished.present(segment)
        if present is not None:
            return present
        if row.is_finished:
            return await lane.finished.load(segment)
        # Its process died before it was sealed.
        index = await lane.worker.run(
            partial(
                segment_file.load_unfinished, lane.disk, segment, row.length, row.entries,
                row.messages,
            )
        )  # fmt: skip
        one = LocalSegment(segment, index, row.length, row.end)
        lane.finished.keep(one)
        return one

    async def _settle(self, session: Session) -> None:
        if await self._takeover.settle(session):
            self._settled.add(session.number)
        await self._bury_if_empty(session)

    async def _adopt(self, number: int) -> None:
        async with self._deletions.turn(number):
            session = await self._sessions.load(number)
            if session is None or session.record.state is not SessionState.SETTLED:
                return
            if await self._bury_if_empty(session):
                return
            await self._takeover.clean_objects(session)
            # promise: slots that a crash has left are deleted
            if session.record.discarded < session.record.trim:
                await self._takeover.clean_log(session)

    async def _all_settled(self) -> list[Session]:
        """Load the sessions that nobody changes any more."""
        found: list[Session] = []
        # promise[SessionState.SETTLED -> *SessionState]: segments that a living process is about to
        #   list are not taken for orphans
        for number in await self._sessions.in_state(SessionState.SETTLED):
            session = await self._sessions.load(number)
            if session is not None and number != self.session:
                found.append(session)
        return found

    async def _take_back(self, session: Session, segment: SegmentId) -> None:
        """Remove a segment from those set aside: it is used, so a topic lists it after all."""
        if segment not in session.record.aside:
            return
        await self._sessions.change(session, partial(_without_aside, [segment]))
        text = f"segment {segment}: not set aside any more, because a topic lists it"
        self._report(Finding(segment_file.file_name(segment), 0, text, segment))

    async def _bury_if_empty(self, session: Session) -> bool:
        """Delete all objects of a settled session without segments, except for its fence."""
        record = session.record
        if session.rows or record.state is not SessionState.SETTLED:
            return False
        gone = replace(record, state=SessionState.GONE, manifest=0, deleted=frozenset(), aside={})
        await self._sessions.change(session, lambda record: gone)
        await self._bury(session)
        return True

    async def _bury(self, session: Session) -> None:
        record = session.record
        await self._sessions.delete_all_objects(session)
        await self._takeover.discard(session, record.discarded, record.trim + SLOTS_BEHIND)


def _expired(session: Session, before_ms: int) -> list[SegmentId]:
    """Return the segments of a session that were set aside before a time."""
    return [number for number, at_ms in session.record.aside.items() if at_ms < before_ms]


def _with_aside(moved: Mapping[SegmentId, int], record: SessionRecord) -> SessionRecord:
    return replace(record, aside={**record.aside, **moved})


def _without_aside(numbers: Collection[SegmentId], record: SessionRecord) -> SessionRecord | None:
    if not record.aside.keys() & set(numbers):
        return None
    left = {n: at_ms for n, at_ms in record.aside.items() if n not in numbers}
    return replace(record, aside=left)
