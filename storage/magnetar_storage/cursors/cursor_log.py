"""The durable cursors of one log, stored in a segment of their own.

Every change is an entry of the cursor segment (`cursor_record`), so an acknowledgement is
durable with the journal's next commit round, and any storage engine that has segments can
store cursors.  `Phase` is the table of when changes are written.  When the segment has grown,
and on the first change after opening, a snapshot of the whole state starts a new segment, and
the old one is deleted.

Other durable state of the topic is stored in the same way (`attached_state`).
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import partial
from struct import error as StructError

from magnetar_storage.cursors import cursor_record
from magnetar_storage.cursors.attached_state import AttachedState, UnknownState
from magnetar_storage.cursors.cursor import TrackedCursor
from magnetar_storage.cursors.cursor_record import HEAD, CursorEntryKind
from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.interfaces import SegmentId, SegmentKind, SegmentStore, SegmentWriter
from magnetar_storage.log.log import Log
from magnetar_storage.runtime.execution import Done, Timer, settling

NONE_ATTACHED: frozenset[int] = frozenset()
GATHER_SECONDS = 0.005
"""The time for which changes gather if no caller waits, and then wait for entries to join."""
WRITE_BYTES = 4 << 20
"""A snapshot is written in appends of about this size, since other topics need the journal too."""
ROLL_BYTES = 4 << 20
"""A segment with more changes than this is replaced by one that begins with a snapshot."""
ROLL_ENTRIES = 10_000
"""A segment with more entries than this is replaced, too.  Most changes have 20 bytes, and the
index of the segment, which is in memory, up to 24 for each: after `ROLL_BYTES` of them, which takes
hours, it would have several MB for each topic."""
READ_ENTRIES = 1000
READ_BYTES = 4 << 20


class Phase(Enum):
    """The next step for the changes of a cursor segment.

    A commit round for acknowledgements alone would delay the next message, so changes for
    which no caller waits gather first, and then join a round that is written anyway.

                 change        change with    entries are     `durable` is   timer      write
                 alone         a caller       appended        called                    ended
    IDLE         GATHERING     SCHEDULED      -               WRITING        .          .
    GATHERING    -             SCHEDULED      -               WRITING        DUE        .
    DUE          -             SCHEDULED      WRITING         WRITING        WRITING    .
    SCHEDULED    -             -              -               WRITING        .          .
    WRITING      -             -              -               -              .          IDLE

    `-` stays, `.` cannot happen.  SCHEDULED becomes WRITING at the end of the turn.  WRITING
    becomes IDLE at once if there is nothing to write, or the log has failed.  When a write has
    ended, changes that gathered meanwhile are written at once if a caller waits for them or
    cursors were created or deleted, else they lead from IDLE to GATHERING.

    Changes join the entries that come after them.  Entries that were appended before may wait
    for a round, or be in the one that is being synced, and only the engine knows which: a write
    for a round that has begun would be a round of its own, for which the next message waits.
    """

    IDLE = auto()
    GATHERING = auto()
    DUE = auto()
    SCHEDULED = auto()
    WRITING = auto()


class DurableCursor(TrackedCursor):
    """A cursor that survives a restart; call `CursorLog.cursor_changed` after each change of it."""

    __slots__ = ("name", "number", "properties")

    def __init__(self, number: int, name: str, mark_delete: int, properties: dict[str, str]):
        super().__init__(mark_delete)
        self.number = number
        self.name = name
        self.properties = properties


class CursorLog:
    """All durable cursors of a log, by name, and its attached states, by number."""

    def __init__(
        self,
        log: Log,
        attached: Mapping[int, AttachedState],
        roll_bytes: int = ROLL_BYTES,
        roll_entries: int = ROLL_ENTRIES,
    ) -> None:
        self.cursors: dict[str, DurableCursor] = {}
        self._attached = dict(attached)
        self._log = log
        self._engine = log.engine
        self._roll_bytes = roll_bytes
        self._roll_entries = roll_entries
        self._writer: SegmentWriter | None = None
        self._written = self._written_entries = 0  # to the present segment
        self._snapshot = 0  # bytes that it began with
        self._next_number = 0
        self._dirty: dict[int, DurableCursor] = {}
        self._dirty_attached = NONE_ATTACHED
        self._events: list[bytes] = []  # creations, deletions, properties not yet written
        self._waiting: list[Done] = []
        self._phase = Phase.IDLE
        self._timer: Timer | None = None  # runs while GATHERING or DUE

    @classmethod
    async def open(
        cls, log: Log, attached: Mapping[int, AttachedState] | None = None
    ) -> "CursorLog":
        """Replay the cursor segment; `Corrupt` or `NoSegment` if acknowledged state is lost.

        The stored state of `attached` is replayed into them, so they must be empty.
        """
        self = cls(log, attached or {})
        if log.record.cursor_segment is not None:
            store = log.engine.store
            numbered = await read_cursors(store, log.record.cursor_segment, self._attached)
            self._next_number = max(numbered, default=-1) + 1
            self.cursors = {cursor.name: cursor for cursor in numbered.values()}
        return self

    # Changing -------------------------------------------------------------------

    async def create(
        self, name: str, mark_delete: int, properties: dict[str, str]
    ) -> DurableCursor:
        """Create a cursor, durable on return; no cursor of that name may exist."""
        cursor = DurableCursor(self._next_number, name, mark_delete, properties)
        self._next_number += 1
        self.cursors[name] = cursor
        self._events += _created(cursor)
        await self.durable()
        return cursor

    async def delete(self, name: str) -> None:
        """Delete a cursor; durable on return."""
        cursor = self.cursors.pop(name)
        # A change written after the deletion would be of an unknown cursor, which a replay reports
        # as damage.
        self._dirty.pop(cursor.number, None)
        self._events.append(cursor_record.entry(CursorEntryKind.DELETE, cursor.number))
        await self.durable()

    async def set_properties(self, cursor: DurableCursor, properties: dict[str, str]) -> None:
        """Replace a cursor's properties; durable on return."""
        if self.cursors.get(cursor.name) is not cursor:
            return  # deleted meanwhile
        cursor.properties = properties
        body = json.dumps(properties).encode()
        self._events.append(cursor_record.entry(CursorEntryKind.PROPERTIES, cursor.number, body))
        await self.durable()

    def cursor_changed(self, cursor: DurableCursor, done: Done | None = None) -> None:
        """Write the cursor's new state; `done` is called when it is durable or has failed.

        For a deleted cursor nothing is written, and `done` is called at once.
        """
        if self.cursors.get(cursor.name) is not cursor:
            if done is not None:
                done(None)
            return
        self._dirty[cursor.number] = cursor
        self._schedule(done)

    def is_attached(self, number: int) -> bool:
        """Return whether there is a state of this number, stored by an earlier owner or adopted."""
        return number in self._attached

    def adopt(self, number: int, state: AttachedState) -> None:
        """Store a further attached state from now on; its stored state is replayed first."""
        stored = self._attached.get(number)
        for record in stored.snapshot() if stored is not None else ():
            state.apply(record)
        self._attached[number] = state

    def state_changed(self, number: int, done: Done | None = None) -> None:
        """Write the new state attached under `number`; `done` is as for `cursor_changed`."""
        self._dirty_attached |= {number}
        self._schedule(done)

    def _schedule(self, done: Done | None) -> None:
        """Write the changes at the end of the turn if `done` waits for them, otherwise later."""
        if done is not None:
            self._waiting.append(done)
        phase = self._phase
        if phase is Phase.WRITING or phase is Phase.SCHEDULED:
            return  # it is written with the others, now or when the present write has ended
        if done is not None:
            self._enter(Phase.SCHEDULED)
            self._engine.clock.soon(self._scheduled)
        elif phase is Phase.IDLE:
            self._gather()

    async def durable(self) -> None:
        """Wait until everything changed so far is durable."""
        promise = self._engine.clock.promise()
        self._waiting.append(settling(promise))
        if self._phase is not Phase.WRITING:
            self._flush()
        await promise

    async def close(self) -> None:
        """Write the changes and seal; the cursors must not be used afterwards."""
        await self.durable()
        if self._writer is not None:
            await self._writer.seal()
            self._writer = None

    # Writing --------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the gathered changes; no write may be in flight."""
        self._enter(Phase.IDLE)
        if self._log.failed is not None:
            self._release(self._log.failed)
            return
        if not self._dirty and not self._events and not self._dirty_attached:
            self._release(None)
            return
        # After opening there is no writer: reading the segment has sealed it, so that an earlier
        # owner cannot write to it any more.
        if self._writer is None or self._is_long:
            self._phase = Phase.WRITING
            self._engine.tasks.spawn(self._roll())
            return
        payloads = self._take()
        if not payloads:
            self._release(None)
            return
        self._phase = Phase.WRITING
        self._append(self._writer, payloads, partial(self._flushed, self._take_waiting()))

    @property
    def _is_long(self) -> bool:
        """Whether the segment is to be replaced."""
        # promise[without or self._written_entries > self._roll_entries]: a cursor segment of small
        #   changes is replaced
        grown = self._written > self._roll_bytes or self._written_entries > self._roll_entries
        # So snapshots are at most a quarter of all bytes written, however large the state is.
        # promise[without and self._written > 4 * self._snapshot]: a large state is not copied for
        #   few changes
        return grown and self._written > 4 * self._snapshot

    def _take(self) -> list[bytes]:
        # Before the deltas: one of them may be of a cursor that was created just now.
        payloads, self._events = self._events, []
        dirty, self._dirty = self._dirty, {}
        for number, cursor in dirty.items():
            # promise[) ] -> )[:0] ]]: acknowledgements are written
            payloads += [
                cursor_record.entry(kind, number, body) for kind, body in cursor.take_delta()
            ]
        attached, self._dirty_attached = self._dirty_attached, NONE_ATTACHED
        for number in attached:
            # promise: changes of what is kept beside cursors are written
            payloads += _attached_entries(number, self._attached[number].take_delta())
        return payloads

    def _take_whole(self) -> list[bytes]:
        """Take a snapshot of everything, which includes the gathered changes."""
        self._events, self._dirty, self._dirty_attached = [], {}, NONE_ATTACHED
        payloads = []
        for cursor in self.cursors.values():
            payloads += _created(cursor)  # promise: a new cursor segment begins with all cursors
        for number, attached in self._attached.items():
            # promise: a new cursor segment begins with what is kept beside cursors
            payloads += _attached_entries(number, attached.snapshot())
        return payloads

    def _take_waiting(self) -> list[Done]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _append(self, writer: SegmentWriter, payloads: list[bytes], done: Done) -> None:
        self._written += sum(map(len, payloads))
        self._written_entries += len(payloads)
        writer.append(payloads, [0] * len(payloads), done)

    def _flushed(self, waiting: list[Done], error: BaseException | None) -> None:
        self._phase = Phase.IDLE
        if error is not None:
            # The changes were taken from the cursors and cannot be written again: the log ends, and
            # opening it again continues with the stored state.
            self._log.fail(error)
        for done in waiting:
            done(error)  # which may change cursors again, so the phase may not be IDLE any more
        if self._events or self._waiting:
            self._flush()
        elif (self._dirty or self._dirty_attached) and self._phase is Phase.IDLE:
            self._gather()

    def _enter(self, phase: Phase) -> None:
        """Change the phase to one in which no timer runs, and appends do not write the changes."""
        self._phase = phase
        self._log.with_next_append = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _gather(self) -> None:
        """Let changes gather, then wait as long again for entries to join them."""
        self._phase = Phase.GATHERING
        self._timer = self._engine.clock.later(GATHER_SECONDS, self._gathered)

    def _gathered(self) -> None:
        self._phase = Phase.DUE
        # From here the next append of entries calls `_flush` (at the end of `Log.append`), so that
        # the changes are in the journal's round of those entries, whose sync is paid for anyway.
        # `_enter` takes the hook back.  Not while GATHERING: under steady traffic each round would
        # have a write with few changes, where one write for each `GATHER_SECONDS` is enough.
        self._log.with_next_append = self._flush
        self._timer = self._engine.clock.later(GATHER_SECONDS, self._flush)

    def _scheduled(self) -> None:
        if self._phase is Phase.SCHEDULED:  # else `durable` has written it in this turn
            self._flush()

    def _release(self, error: StorageError | None) -> None:
        for done in self._take_waiting():
            done(error.again() if error is not None else None)

    async def _roll(self) -> None:
        """Start a new segment with a snapshot, list it, delete the old one."""
        waiting: list[Done] = []
        writer: SegmentWriter | None = None
        try:
            origin = self._log.origin_of(SegmentKind.CURSORS)
            writer = await self._engine.store.create(origin)
            # Both in one turn: the changes of all callers that this write answers are in it.
            payloads = self._take_whole()
            waiting = self._take_waiting()
            self._written = self._written_entries = 0
            for part in _portions(payloads):
                await self._written_to(writer, part)
            self._snapshot = self._written
            old, self._writer = self._writer, writer
            if old is not None:
                await old.seal()
            # The snapshot is durable before it is listed, and the old segment is deleted after
            # that: whichever of them a crash leaves listed has all that was reported as durable.
            await self._log.stored_record.replace_cursor_segment(writer.segment)
        except StorageError as error:
            self._flushed(waiting, error)
            if writer is not None:
                await self._log.stored_record.discard_unlisted(writer.segment)
        else:
            self._flushed(waiting, None)

    async def _written_to(self, writer: SegmentWriter, payloads: list[bytes]) -> None:
        promise = self._engine.clock.promise()
        self._append(writer, payloads, settling(promise))
        await promise


async def read_cursors(
    store: SegmentStore, segment: SegmentId, attached: dict[int, AttachedState]
) -> dict[int, DurableCursor]:
    """Replay a cursor segment into `attached`; returns the cursors by number.

    `NoSegment` if the segment does not exist, `Corrupt` if it is damaged or holds other data.
    """
    # Recovered, and not only read: an earlier owner that still runs must not acknowledge more.
    end = await store.recover(segment)
    reader = await store.reader(segment)
    numbered: dict[int, DurableCursor] = {}
    try:
        at = 0
        while at < end.entries:
            run = await reader.read(at, READ_ENTRIES, READ_BYTES)
            for entry, payload in enumerate(run.payloads, at):
                try:
                    replay(numbered, attached, payload)
                except (StructError, ValueError, KeyError) as error:
                    why = f"expected a cursor record, got {error!r}"
                    raise Corrupt("cursor segment", 0, why, segment, entry, entry) from error
            at += len(run.payloads)
    finally:
        reader.close()
    return numbered


def replay(
    numbered: dict[int, DurableCursor], attached: dict[int, AttachedState], payload: bytes
) -> None:
    """Apply an entry of a cursor segment to the cursors by number, or to an attached state.

    An attached state of an unknown number is kept unchanged (`UnknownState`).

    Raises `struct.error`, ValueError or KeyError if the payload is not an entry of a cursor
    segment, or cannot follow the entries before it.
    """
    what, number = HEAD.unpack_from(payload)
    kind, body = CursorEntryKind(what), payload[HEAD.size :]
    if kind is CursorEntryKind.SIDE:
        attached.setdefault(number, UnknownState()).apply(body)
    elif kind is CursorEntryKind.CREATE:
        name, properties, state = cursor_record.read_created(body)
        numbered[number] = DurableCursor(number, name, 0, properties)
        numbered[number].apply(CursorEntryKind.WHOLE, state)
    elif kind is CursorEntryKind.DELETE:
        del numbered[number]
    elif kind is CursorEntryKind.PROPERTIES:
        numbered[number].properties = json.loads(body)
    else:
        numbered[number].apply(kind, body)


def _portions(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """Yield parts of the payloads, in order, each just over `WRITE_BYTES`."""
    part: list[bytes] = []
    size = 0
    for payload in payloads:
        part.append(payload)
        size += len(payload)
        if size >= WRITE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _created(cursor: DurableCursor) -> list[bytes]:
    (_, state), *more = cursor.snapshot()
    first = cursor_record.created(cursor.number, cursor.name, cursor.properties, state)
    return [first, *(cursor_record.entry(kind, cursor.number, body) for kind, body in more)]


def _attached_entries(number: int, bodies: list[bytes]) -> list[bytes]:
    return [cursor_record.entry(CursorEntryKind.SIDE, number, body) for body in bodies]
