"""The session of this process: its segments in memory, its log, and their way into packs."""

from collections.abc import Callable, Sequence

from magnetar_storage.errors import Fenced, NoSegment, StorageError
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local import segment_origin
from magnetar_storage.local.record import HEADER, TABLE_BYTES_PER_ENTRY, Buffers
from magnetar_storage.local.segment_file import Index
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Tasks, Worker, settling
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.memory import CONTROL, Change, ChangeKind, take_record
from magnetar_storage.session_store.session_ids import first_above
from magnetar_storage.session_store.session_writer import SessionWriter
from magnetar_storage.session_store.sessions import Session, Sessions
from magnetar_storage.session_store.settling import Discard, Packing, Settling
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot_writer import SlotWriter, StoredSlot


class OwnSession:
    """Creates, seals and deletes segments of this process, until it ends."""

    def __init__(
        self,
        session: Session,
        sessions: Sessions,
        packing: Packing,
        objects: Objects,
        prefix: str,
        uploads: Sequence[Worker],
        clock: Clock,
        tasks: Tasks,
        new_nonce: Callable[[], bytes],
        limits: SessionLimits,
        may_confirm: Callable[[], bool],
        identity: Callable[[], Identity],
        finished: Callable[[LocalSegment], None],
        discard: Discard,
        report: Callable[[str, BaseException], None],
        observe: Callable[[StoredSlot], None],
    ) -> None:
        self.session = session
        self.segments: dict[SegmentId, LocalSegment] = {}
        """The segments that are not finished in packs."""
        self.wal = SlotWriter(
            objects, uploads, clock, WalSession(prefix, session.number), new_nonce, limits.wal,
            may_confirm, self._stored,
        )  # fmt: skip
        self.settling = Settling(
            packing, sessions, session, self.wal, clock, tasks, limits, self.segments,
            self._drop_if_idle, finished, discard, report,
        )  # fmt: skip
        self._sessions = sessions
        self._clock = clock
        self._identity = identity
        self._observe = observe
        self._writers: dict[SegmentId, SessionWriter] = {}
        """The writers of segments that are not sealed."""
        self._last: SegmentId = 0
        self._changes = 0

    @property
    def trouble(self) -> StorageError | None:
        """The error with which appends fail at present; None while they work."""
        return self.settling.refusal or self.wal.trouble

    async def create(self, origin: SegmentOrigin, beyond: SegmentId) -> SessionWriter:
        """Create an empty segment; durable on return."""
        if (error := self.settling.refusal) is not None:
            raise error.again()
        number = self._last = first_above(max(self._last, beyond), self.session.number)
        # promise[await self._change(ChangeKind.CREATE, number) -> pass]: a segment is used only
        #   when its creation is durable
        await self._change(ChangeKind.CREATE, number)
        made = self._writers[number] = SessionWriter(
            self.segments[number], self.wal, self._clock, origin, self._encoded,
            lambda: self.settling.refusal, self.seal,
        )  # fmt: skip
        return made

    async def seal(self, writer: SessionWriter, refusal: StorageError) -> Sealed:
        """Refuse further appends, and settle the end after those that were made."""
        one = writer.one
        # promise: after a recovery nothing more is appended
        one.refusal = one.refusal or refusal
        if one.sealed is None and not writer.is_idle:
            # promise: what is appended before a seal counts
            await self.wal.flush()
        if one.sealed is None:
            one.sealed = one.index.sealed()
            self._writers.pop(one.id, None)
            self.settling.sealed()
        return one.sealed

    async def recover(self, number: SegmentId, refusal: StorageError) -> Sealed:
        """Fence the writer of a segment, if it has one, and return the end."""
        writer = self._writers.get(number)
        if writer is not None:
            return await self.seal(writer, refusal)
        one = self.segments.get(number)
        if one is not None and one.sealed is not None:
            return one.sealed
        row = self.session.rows.get(number)
        if row is None:
            raise NoSegment(f"there is no segment {number}")
        return row.end

    async def delete(self, number: SegmentId) -> None:
        """Delete a segment; durable on return.  A missing one is not an error."""
        if number not in self.segments and number not in self.session.rows:
            return
        self._refuse(number)
        await self._change(ChangeKind.DELETE, number)

    async def stop(self) -> bool:
        """Write everything to packs, and end the log.

        False if the log has failed before, or the session was ended by another process.
        """
        await self.wal.close()
        self.settling.stop()
        if self.wal.failure is not None:
            # promise: a process that was ended leaves no objects behind its end
            await self.settling.idle()
            return False
        try:
            await self.settling.settle(True)
        except Fenced:
            return False
        return True

    def _encoded(self, number: SegmentId, origin: SegmentOrigin) -> bytes:
        return segment_origin.encoded(number, origin, self._identity())

    async def _change(self, kind: ChangeKind, number: SegmentId) -> None:
        promise = self._clock.promise()
        first, self._changes = self._changes, self._changes + 1
        payload = Change(kind, number).encode()
        self.wal.append(CONTROL, first, [payload], [0], settling(promise))
        await promise

    def _stored(self, stored: StoredSlot) -> None:
        """Apply a durable slot, before its runs are reported."""
        size = 0
        for place, record in zip(stored.encoded.places, stored.encoded.records, strict=True):
            if place.segment == CONTROL:
                self._apply(*_change_in(record))
            elif (one := self.segments.get(place.segment)) is not None:  # else it was deleted
                take_record(one, place, record)
                size += 0 if place.is_origin else place.size
        self.settling.added(size)
        self._observe(stored)

    def _apply(self, kind: ChangeKind, number: SegmentId) -> None:
        if kind is ChangeKind.CREATE:
            self.segments[number] = LocalSegment(number, Index(), 0)
        else:
            self._drop(number)

    def _refuse(self, number: SegmentId) -> None:
        one = self.segments.get(number)
        if one is not None:
            one.refusal = NoSegment(f"segment {number} was deleted")

    def _drop_if_idle(self, number: SegmentId) -> None:
        """Drop a segment that another process has deleted."""
        self._refuse(number)
        writer = self._writers.get(number)
        if writer is None or writer.is_idle:
            self._drop(number)

    def _drop(self, number: SegmentId) -> None:
        self._writers.pop(number, None)
        one = self.segments.pop(number, None)
        if one is not None:
            one.deleted = True
            self.settling.removed(one.unwritten_bytes)
        self._sessions.drop(self.session, number)


def _change_in(record: Buffers) -> Change:
    assert isinstance(record, bytes)
    return Change.decode(record[HEADER.size + TABLE_BYTES_PER_ENTRY :])
