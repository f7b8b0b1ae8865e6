"""Settles the sessions of processes that have ended without doing so.

The record is `FENCED` first, which freezes its trim point.  Then the log gets its fence, and the
record the end.  What is in the log up to there is written to packs, and the record is `SETTLED`.
Any number of processes may do this at a time, and each may stop anywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from magnetar_storage.errors import Corrupt, Incomplete, NoObject, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local.checkpoint import Flush, Row
from magnetar_storage.local.record import Buffers
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.runtime.mutex import KeyedMutex
from magnetar_storage.session_store.limits import SLOTS_BEHIND
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.memory import CONTROL, Change, ChangeKind
from magnetar_storage.session_store.older_metadata import REMEDY, contradiction
from magnetar_storage.session_store.packs import PACK_BYTES
from magnetar_storage.session_store.session_record import SessionRecord, SessionState
from magnetar_storage.session_store.sessions import Session, Sessions
from magnetar_storage.session_store.settled_files import ObjectNames
from magnetar_storage.session_store.settling import EMPTY, Packing
from magnetar_storage.wal.discarding import discard
from magnetar_storage.wal.fence import fence
from magnetar_storage.wal.reading import read_slots
from magnetar_storage.wal.requests import patiently_in
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import RecordPlace, Slot


@dataclass(slots=True)
class _Tail:
    """A segment as far as its log was read, with the records that are not in a pack yet."""

    entries: int
    messages: int
    size: int
    length: int
    """The bytes of the file in packs."""
    origin: bytes = b""
    records: list[Buffers] = field(default_factory=list)

    def add(self, place: RecordPlace, record: bytes) -> None:
        """Add the next record; a damaged one stays so, and is noticed when it is read."""
        if place.is_origin:
            self.origin = record
            return
        self.entries += place.n
        self.messages += place.messages
        self.size += place.payload_bytes
        self.records.append(record)


class _Replay:
    """The segments of a session, from its manifest and the log behind the trim point."""

    def __init__(self, session: Session) -> None:
        self.rows = dict(session.rows)
        self.waiting_bytes = 0
        self._deleted = set(session.record.deleted)
        self._tails: dict[SegmentId, _Tail] = {}

    def take(self, slot: Slot) -> None:
        """Apply the next slot; `Corrupt` if it says something of segments that is not known."""
        for place in slot.places:
            if place.segment == CONTROL:
                self._change(*Change.decode(slot.run(place).payloads[0]))
            elif place.segment not in self._deleted:
                self._add(slot, place)

    def _change(self, kind: ChangeKind, segment: SegmentId) -> None:
        if kind is ChangeKind.DELETE:
            self._deleted.add(segment)
            self._tails.pop(segment, None)
            self.rows.pop(segment, None)
        elif segment not in self._deleted:
            self.rows.setdefault(segment, EMPTY)

    def _add(self, slot: Slot, place: RecordPlace) -> None:
        segment = place.segment
        tail = self._tails.get(segment)
        if tail is None:
            # Its creation was discarded, or is in a slot before: the manifest or the log has it.
            row = self.rows.get(segment)
            if row is None:
                return  # deleted, and its deletion is in a slot behind this one
            tail = _Tail(row.entries, row.messages, row.size, row.length)
            self._tails[segment] = tail
        # promise[place.first < tail.entries -> False]: entries that are in packs and in the log are
        #   there once
        if place.first < tail.entries and not place.is_origin:
            return
        if place.first > tail.entries:
            raise Corrupt(
                slot.name, place.at, f"expected entry {tail.entries}", segment, place.first,
                place.first + place.n - 1,
            )  # fmt: skip
        tail.add(place, slot.data[place.at : place.end])
        self.waiting_bytes += place.size

    def flushes(self) -> tuple[dict[SegmentId, Row], list[Flush]]:
        """Return the records that no pack has, and forget them."""
        grown, flushes = {}, []
        for segment, tail in self._tails.items():
            if tail.records:
                grown[segment] = Row(tail.entries, tail.messages, tail.size)
                flushes.append(Flush(segment, tail.length, tail.records, None, tail.origin))
        self._tails.clear()
        self.waiting_bytes = 0
        return grown, flushes


class Takeover:
    """Ends and settles sessions of other processes."""

    def __init__(
        self,
        objects: Objects,
        prefix: str,
        names: ObjectNames,
        workers: Sequence[Worker],
        clock: Clock,
        new_nonce: Callable[[], bytes],
        sessions: Sessions,
        packing: Packing,
    ) -> None:
        """`workers` are threads for the requests of fences and walks."""
        self._objects = objects
        self._prefix = prefix
        self._names = names
        self._workers = workers
        self._clock = clock
        self._new_nonce = new_nonce
        self._sessions = sessions
        self._packing = packing
        self._settling: KeyedMutex[int] = KeyedMutex(clock)

    async def fence(self, session: Session) -> None:
        """End a session, whose process may still run; durable on return.

        Nothing is reported as durable behind the end any more, and nothing else than this changes
        the record's trim point.  `Incomplete` if the record is older than the objects.
        """

        def fenced(record: SessionRecord) -> SessionRecord | None:
            is_open = record.state is SessionState.OPEN
            return replace(record, state=SessionState.FENCED) if is_open else None

        # promise: the trim point does not move while the end of the log is looked for
        await self._sessions.change(session, fenced)
        if not _lacks_end(session.record):
            return
        await self._refuse_older_metadata(session)
        if not _lacks_end(session.record):
            return  # another process was faster
        end = await fence(
            self._objects, self._workers, self._clock, self._wal(session), session.record.trim,
            self._new_nonce,
        )  # fmt: skip

        def ended(record: SessionRecord) -> SessionRecord | None:
            return replace(record, end=end) if _lacks_end(record) else None

        await self._sessions.change(session, ended)

    async def _refuse_older_metadata(self, session: Session) -> None:
        """Raise `Incomplete` if the objects show that the record is an older one."""
        record = session.record
        job = partial(
            contradiction, self._objects, self._wal(session),
            self._names.directory(session.number), record.trim, record.manifest, SLOTS_BEHIND,
        )  # fmt: skip
        found = await patiently_in(self._workers[0], self._clock, job)
        if found is None:
            return
        # Another process may have settled the session meanwhile, and deleted its log.
        await self._sessions.refresh(session)
        # promise: a takeover with older metadata deletes nothing
        if _lacks_end(session.record):
            raise Incomplete(
                f"the metadata is older than the objects of session {session.number}: {found}:"
                f" {REMEDY}"
            )

    async def settle(self, session: Session) -> bool:
        """Settle a session that is fenced; return whether this call did.

        `Corrupt` if its log is damaged.
        """
        async with self._settling.held(session.number):
            await self._sessions.load(session.number)
            await self.fence(session)
            if session.record.state is SessionState.FENCED and await self._replay(session):
                await self.clean_objects(session)
                await self.clean_log(session)
                return True
            # Another caller or process was faster: the rows are those of its manifest.
            await self._sessions.load(session.number)
            return False

    async def _replay(self, session: Session) -> bool:
        """Write the log to packs; return whether this process has settled the session."""
        before = session.record
        assert before.end is not None
        replay = _Replay(session)
        slots = read_slots(
            self._objects, self._workers, self._clock, self._wal(session), before.trim, before.end
        )
        async for number, slot in slots:
            if not isinstance(slot, Slot):
                await self._sessions.load(session.number)
                if session.record.state is not SessionState.FENCED:
                    return False  # another process has settled it, and discards the log
                # promise: a slot that is missing is not taken for one without entries
                raise _unreadable(self._wal(session), number, slot)
            replay.take(slot)
            if replay.waiting_bytes >= PACK_BYTES:
                await self._packing.write(session, replay.rows, *replay.flushes())
        await self._packing.write(session, replay.rows, *replay.flushes())
        return await self._commit(session, replay.rows)

    async def _commit(self, session: Session, rows: dict[SegmentId, SegmentRow]) -> bool:
        manifest = await self._sessions.write_manifest(session, rows)
        known = session.record.deleted

        def settled(record: SessionRecord) -> SessionRecord | None:
            # promise: a session is settled once
            if record.state is not SessionState.FENCED:
                return None
            assert record.end is not None
            return replace(
                record, state=SessionState.SETTLED, trim=record.end, manifest=manifest,
                deleted=(record.deleted - known).intersection(rows),
            )  # fmt: skip

        await self._sessions.change(session, settled)
        if session.record.manifest != manifest:
            await self._sessions.load(session.number)
            if session.record.state is SessionState.SETTLED:
                await self._sessions.delete_unlisted(session, session.rows)
            return False
        self._sessions.use(session, rows)
        await self._sessions.delete_unlisted(session, rows)
        return True

    async def clean_objects(self, session: Session) -> None:
        """Delete the objects of a settled session that its manifest does not list.

        No other process may be writing a manifest of the session meanwhile.
        """
        for name in await self._sessions.object_names(session):
            # Nobody can list an object any more that this process has not listed.
            session.objects.add(self._names.number_of(name))
        await self._sessions.delete_unlisted(session, session.rows)

    async def clean_log(self, session: Session) -> None:
        """Delete the slots that a dead process has left of a settled session."""
        record = session.record
        behind = 0 if record.end is None else SLOTS_BEHIND
        await self.discard(session, record.discarded, record.trim + behind)

        def discarded(record: SessionRecord) -> SessionRecord:
            return replace(record, discarded=record.trim)

        await self._sessions.change(session, discarded)

    async def discard(self, session: Session, first: int, stop: int) -> None:
        """Delete slots of a session that are not needed any more; fences stay."""
        await discard(self._objects, self._workers, self._clock, self._wal(session), first, stop)

    def _wal(self, session: Session) -> WalSession:
        return WalSession(self._prefix, session.number)


def _lacks_end(record: SessionRecord) -> bool:
    """Return whether the end of the log of a session must be found."""
    return record.state is SessionState.FENCED and record.end is None


def _unreadable(log: WalSession, number: int, error: Corrupt | NoObject) -> Exception:
    """Return the error for a slot without which no topic can start: it says what to do."""
    lost = (
        "It has entries of any number of topics, acknowledged within a moment, and without it those"
        " that came later cannot be used. Put the object back from the versions of the bucket,"
        " under the same name, and start the broker again, as docs/cluster.md describes"
    )
    of = f"slot {number} of the log of session {log.number}"
    if isinstance(error, Corrupt):
        return replace(error, why=f"{error.why}. It is {of}. {lost}")
    return Unavailable(f"object {log.name(number)} is missing, {of}. {lost}")
