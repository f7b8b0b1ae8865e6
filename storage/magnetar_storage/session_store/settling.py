"""Writes the entries of this process's session to packs, so that its log can be discarded.

The order is: packs, manifest, record, and only then the slots are deleted.  A crash anywhere leaves
what the record says, and the log behind its trim point; what is in both is read from the packs.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from magnetar_storage.errors import Fenced, StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local.checkpoint import Flush, Row
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.objects.interfaces import Objects, ReadableObjects
from magnetar_storage.runtime.execution import Clock, Tasks, Timer, Worker, yield_turn
from magnetar_storage.runtime.mutex import Mutex
from magnetar_storage.session_store import packs, rewriting
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.session_record import SessionRecord, SessionState
from magnetar_storage.session_store.sessions import Session, Sessions
from magnetar_storage.session_store.settled_files import ObjectNames
from magnetar_storage.wal.slot_writer import SlotWriter

Discard = Callable[[int, int], Coroutine[Any, Any, None]]
"""Deletes the slots from the first number to before the second one."""

EMPTY: Final = SegmentRow()
SLICE: Final = 200
"""The number of segments examined in one turn of the event loop."""
ROWS_A_SECOND: Final = 1000
"""A manifest is written as a whole: sealed segments wait a second longer if it has this many rows.
"""


class Packing:
    """Writes records to new packs of a session, and adds these to the rows of segments."""

    def __init__(
        self,
        objects: Objects,
        files: ReadableObjects,
        names: ObjectNames,
        worker: Worker,
        sessions: Sessions,
    ) -> None:
        self._objects = objects
        self._files = files
        self._names = names
        self._worker = worker
        self._sessions = sessions

    async def write(
        self, session: Session, rows: dict[SegmentId, SegmentRow], grown: dict[SegmentId, Row],
        flushes: Iterable[Flush],
    ) -> None:  # fmt: skip
        """Write the records of `flushes`, and put what `grown` says of their segments in `rows`."""
        records = list(flushes)
        # In the thread: there may be very many records.
        portions = await self._worker.run(lambda: list(packs.portions(records)))
        for portion in portions:
            number = self._sessions.new_object(session)
            name = self._names.of(session.number, number)
            job = partial(packs.write_pack, self._objects, name, number, portion)
            parts = await self._worker.run(job)
            session.pack_bytes[number] = sum(part.extent.size for part in parts)
            for part in parts:
                after = grown[part.segment]
                before = rows.get(part.segment, EMPTY).extents
                rows[part.segment] = SegmentRow(
                    after.entries, after.messages, after.size, part.is_finished,
                    (*before, part.extent),
                )  # fmt: skip

    async def rewrite(
        self, session: Session, rows: dict[SegmentId, SegmentRow], most_extents: int
    ) -> None:
        """Move what is left of packs that are mostly garbage, and join segments in many parts."""
        sizes = dict(session.pack_bytes)
        moves = await self._worker.run(lambda: rewriting.moves_in(rows, sizes, most_extents))
        if moves:
            number = self._sessions.new_object(session)
            name = self._names.of(session.number, number)
            job = partial(rewriting.write_moved, self._objects, self._files, name, number, moves)
            done = await self._worker.run(job)
            rewriting.replace(rows, done)
            session.pack_bytes[number] = sum(move.size for move, _ in done)


class Settling:
    """Decides when entries are written to packs; used on the owner's thread only."""

    def __init__(
        self,
        packing: Packing,
        sessions: Sessions,
        session: Session,
        wal: SlotWriter,
        clock: Clock,
        tasks: Tasks,
        limits: SessionLimits,
        segments: dict[SegmentId, LocalSegment],
        drop: Callable[[SegmentId], None],
        finished: Callable[[LocalSegment], None],
        discard: Discard,
        report: Callable[[str, BaseException], None],
    ) -> None:
        """`segments` are those that are not finished in packs.  `drop` is called with each that
        another process has deleted, and drops it unless appends to it are on their way.
        `finished` is called with each that is finished now."""
        self._packing = packing
        self._sessions = sessions
        self._session = session
        self._wal = wal
        self._clock = clock
        self._tasks = tasks
        self._limits = limits
        self._segments = segments
        self._drop = drop
        self._finished = finished
        self._discard = discard
        self._report = report
        self._one_at_a_time = Mutex(clock)
        self._waiting_bytes = 0
        self._trim = self._discarded = 0
        self._is_held = False
        self._is_begun = self._whole = self._stopped = False
        self._sealed_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._error: StorageError | None = None  # of the last attempt

    @property
    def refusal(self) -> StorageError | None:
        """The error with which appends are refused: the session is over, or too much waits to be
        settled and that fails."""
        error = self._error
        return error if isinstance(error, Fenced) or (error and self._is_too_much) else None

    @property
    def _slots(self) -> int:
        return self._wal.confirmed - self._trim

    @property
    def _is_too_much(self) -> bool:
        limits = self._limits
        return self._waiting_bytes > limits.most_bytes or self._slots >= limits.most_slots

    def added(self, size: int) -> None:
        """Account for `size` bytes of entries in memory, of one more slot."""
        self._waiting_bytes += size
        self._regulate()

    def removed(self, size: int) -> None:
        """Account for `size` bytes in memory that are not needed any more."""
        self._waiting_bytes -= size
        self._regulate()

    def sealed(self) -> None:
        """Note that a segment was sealed: within some seconds it is in a pack."""
        if self._sealed_timer is None and not self._stopped:
            seconds = self._limits.sealed_seconds + len(self._session.rows) / ROWS_A_SECOND
            self._sealed_timer = self._clock.later(seconds, self._sealed_due)

    def stop(self) -> None:
        """Begin nothing by itself any more."""
        self._stopped = True
        for timer in (self._sealed_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()

    async def idle(self) -> None:
        """Wait until nothing is being written to packs."""
        await self._one_at_a_time.idle()

    async def settle(self, whole: bool) -> None:
        """Write sealed segments to packs, or everything if `whole`, and discard the log before."""
        async with self._one_at_a_time.held():
            await self._drop_deleted()
            # Not the trim point of the record: a commit that seemed to fail may have moved it, and
            # what it has listed is not what this one lists.
            # promise[self._trim -> self._session.record.trim]: entries that no manifest has stay
            #   in the log
            trim = self._wal.confirmed if whole else self._trim
            grown, flushes = await self._gather(whole)
            rows = dict(self._session.rows)
            # Segments without entries are listed, too: the log that has their creation goes.
            # promise: an empty segment exists after a takeover
            rows |= dict.fromkeys(grown.keys() - rows.keys(), EMPTY)
            if whole:
                await self._packing.rewrite(self._session, rows, self._limits.most_extents)
            await self._packing.write(self._session, rows, grown, [flush for _, flush in flushes])
            listed = await self._commit(rows, trim, whole)
            # In one turn with the end of the commit: what follows may fail, and is done again.
            self._trim = trim
            self._sessions.use(self._session, {n: listed[n] for n in listed if self._is_present(n)})
            for one, flush in flushes:
                if one.id in self._segments:
                    self._written(one, flush)
            await self._sessions.delete_unlisted(self._session, listed)
            if self._discarded < trim:
                await self._discard(self._discarded, trim)
                self._discarded = trim

    async def _gather(
        self, whole: bool
    ) -> tuple[dict[SegmentId, Row], list[tuple[LocalSegment, Flush]]]:
        """Return the state of segments, and their records that are not in packs."""
        grown: dict[SegmentId, Row] = {}
        flushes: list[tuple[LocalSegment, Flush]] = []
        chosen = [one for one in self._segments.values() if whole or one.sealed is not None]
        for count, one in enumerate(chosen, 1):
            grown[one.id] = one.row(one.committed_blocks)
            flush = one.flush(one.committed_blocks, one.sealed)
            if flush is not None:
                flushes.append((one, flush))
            # What comes meanwhile is in slots behind the trim point, and may be here as well.
            if count % SLICE == 0:
                await yield_turn(self._clock)
        return grown, flushes

    async def _drop_deleted(self) -> None:
        """Drop segments that processes which serve their topics now have deleted."""
        session = self._session
        await self._sessions.refresh(session)
        for number in session.record.deleted:
            if self._is_present(number):
                self._drop(number)

    async def _commit(
        self, rows: dict[SegmentId, SegmentRow], trim: int, whole: bool
    ) -> dict[SegmentId, SegmentRow]:
        """Store the rows, and return them without those of segments deleted meanwhile."""
        session = self._session
        listed = {number: row for number, row in rows.items() if self._is_present(number)}
        manifest = await self._sessions.write_manifest(session, listed)

        def change(record: SessionRecord) -> SessionRecord:
            # promise: a process whose session was ended does not move the trim point
            refuse_unless_open(session.number, record)
            # Of a segment that was dropped, the log may have entries until it is discarded.
            # promise[not whole or -> False or]: a segment that was deleted does not come back
            deleted = {
                number
                for number in record.deleted
                if not whole or number in listed or self._is_present(number)
            }
            return replace(
                record, trim=trim, discarded=self._discarded, manifest=manifest,
                deleted=frozenset(deleted),
            )  # fmt: skip

        # promise: no slot is deleted before the record has the trim point behind it
        await self._sessions.change(session, change)
        return listed

    def _is_present(self, number: SegmentId) -> bool:
        return number in self._session.rows or number in self._segments

    def _written(self, one: LocalSegment, flush: Flush) -> None:
        """Account for records that are in a pack."""
        before = one.unwritten_bytes
        one.flushed(flush)
        if flush.footer is not None:
            del self._segments[one.id]
            self._finished(one)
        self.removed(before - one.unwritten_bytes)

    def _regulate(self) -> None:
        limits = self._limits
        # promise[is not self._is_held -> and self._is_held]: what a takeover reads is limited
        if self._is_too_much is not self._is_held:
            self._is_held = self._is_too_much
            self._wal.hold(self._is_held)
        if self._waiting_bytes >= limits.settle_bytes or self._slots >= limits.settle_slots:
            self._begin(True)

    def _sealed_due(self) -> None:
        self._sealed_timer = None
        self._begin(False)

    def _retry(self) -> None:
        self._retry_timer = None
        self._begin(self._whole)

    def _begin(self, whole: bool) -> None:
        self._whole |= whole
        # promise: a process that was ended writes no more packs
        if isinstance(self._error, Fenced):
            return
        if not self._is_begun and self._retry_timer is None and not self._stopped:
            self._is_begun = True
            self._tasks.spawn(self._attempt(), "write_behind")

    async def _attempt(self) -> None:
        whole, self._whole = self._whole, False
        error: StorageError | None = None
        try:
            await self.settle(whole)
        except StorageError as found:
            error = found
        finally:
            # promise: also after a defect there are further attempts
            self._is_begun = False
        self._error = error
        if error is not None:
            self._report("packs of segments", error)
            self._whole |= whole
            if isinstance(error, Fenced):
                # promise: a process that was ended is told also if it appends nothing
                self._wal.end(error)
            elif not self._stopped:
                self._retry_timer = self._clock.later(self._limits.retry_seconds, self._retry)
        elif self._whole:
            self._begin(True)
        self._regulate()


def refuse_unless_open(number: int, record: SessionRecord) -> None:
    """Raise `Fenced` if it was decided that the process of the session has ended."""
    if record.state is not SessionState.OPEN:
        raise Fenced(f"session {number} is {record.state}: another process has taken it over")
