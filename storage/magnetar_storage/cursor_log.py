"""The durable cursors of one log, kept in a segment of their own.

Every change is an entry of the cursor segment (`cursor_record`), so an acknowledgement is
durable with the journal's next commit round, and any storage engine that has segments can
keep cursors.  A change that somebody waits for is written at the end of the turn; others
gather for some milliseconds and then go along with entries, if some come: a round for
the acknowledgements alone would be in the way of the next message.  While one write is
under way further changes gather too.  When the segment has grown, and on the first
change after opening, the whole state starts a new segment and the old one is deleted.

Other durable state of the topic goes the same way (`sides`).
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from struct import error as StructError

from magnetar_storage import cursor_record
from magnetar_storage.cursor import TrackedCursor
from magnetar_storage.cursor_record import HEAD, Kind
from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.interfaces import SegmentId, SegmentStore, SegmentWriter
from magnetar_storage.log import Log
from magnetar_storage.sides import KeptSide, SideState
from magnetar_storage.world import Done, Timer, settling

NO_SIDES: frozenset[int] = frozenset()
GATHER_SECONDS = 0.005
"""How long a change that nobody waits for waits for others, and then for entries to join."""
WRITE_BYTES = 4 << 20
"""A whole state goes out in appends of about this size: others need the journal, too."""
READ_ENTRIES = 1000
READ_BYTES = 4 << 20


class DurableCursor(TrackedCursor):
    """A cursor that survives; after changing it, tell its `CursorLog.changed`."""

    __slots__ = ("name", "number", "properties")

    def __init__(self, number: int, name: str, mark_delete: int, properties: dict[str, str]):
        super().__init__(mark_delete)
        self.number = number
        self.name = name
        self.properties = properties


class CursorLog:
    """All durable cursors of a log, by name, and its sides, by number."""

    def __init__(self, log: Log, sides: Mapping[int, SideState], roll_bytes: int = 4 << 20) -> None:
        self.cursors: dict[str, DurableCursor] = {}
        self._sides = dict(sides)
        self._log = log
        self._engine = log.engine
        self._roll_bytes = roll_bytes
        self._writer: SegmentWriter | None = None
        self._written = 0
        self._limit = 0
        self._next_number = 0
        self._dirty: dict[int, DurableCursor] = {}
        self._dirty_sides = NO_SIDES
        self._events: list[bytes] = []  # creations, deletions, properties not yet written
        self._waiting: list[Done] = []
        self._timer: Timer | None = None
        self._scheduled = self._busy = False
        self._due = False  # changes have gathered for long enough

    @classmethod
    async def open(cls, log: Log, sides: Mapping[int, SideState] | None = None) -> "CursorLog":
        """Replay the cursor segment; `Corrupt` or `NoSegment` if acknowledged state is lost.

        `sides` must be new: their state is replayed, too.
        """
        self = cls(log, sides or {})
        if log.cursor_segment is not None:
            store = log.engine.store
            numbered = await read_cursors(store, log.cursor_segment, self._sides)
            self._next_number = max(numbered, default=-1) + 1
            self.cursors = {cursor.name: cursor for cursor in numbered.values()}
        return self

    # Changing -------------------------------------------------------------------

    async def create(
        self, name: str, mark_delete: int, properties: dict[str, str]
    ) -> DurableCursor:
        """A new cursor; durable on return.  There must be none of that name."""
        cursor = DurableCursor(self._next_number, name, mark_delete, properties)
        self._next_number += 1
        self.cursors[name] = cursor
        self._events += _created(cursor)
        await self.durable()
        return cursor

    async def delete(self, name: str) -> None:
        """Remove a cursor; durable on return."""
        cursor = self.cursors.pop(name)
        self._dirty.pop(cursor.number, None)
        self._events.append(cursor_record.entry(Kind.DELETE, cursor.number))
        await self.durable()

    async def set_properties(self, cursor: DurableCursor, properties: dict[str, str]) -> None:
        """Replace a cursor's properties; durable on return."""
        if self.cursors.get(cursor.name) is not cursor:
            return  # deleted meanwhile
        cursor.properties = properties
        body = json.dumps(properties).encode()
        self._events.append(cursor_record.entry(Kind.PROPERTIES, cursor.number, body))
        await self.durable()

    def changed(self, cursor: DurableCursor, done: Done | None = None) -> None:
        """The cursor's state changed; `done` comes when that is durable, or failed.

        A cursor that was deleted has no state any more: nothing is written of it.
        """
        if self.cursors.get(cursor.name) is not cursor:
            if done is not None:
                done(None)
            return
        self._dirty[cursor.number] = cursor
        self._changed(done)

    def adopt(self, number: int, state: SideState) -> None:
        """Keep a further side from now on; what was kept under its number is replayed into it."""
        kept = self._sides.get(number)
        for record in kept.snapshot() if kept is not None else ():
            state.apply(record)
        self._sides[number] = state

    def side_changed(self, number: int, done: Done | None = None) -> None:
        """The same for a side."""
        self._dirty_sides |= {number}
        self._changed(done)

    def _changed(self, done: Done | None) -> None:
        if done is not None:
            self._waiting.append(done)
        if self._busy or self._scheduled:
            return  # it goes along
        if done is None:
            self._flush_later()
        else:
            self._scheduled = True
            self._engine.clock.soon(self._flush)

    async def durable(self) -> None:
        """Wait until everything changed so far is durable."""
        promise = self._engine.clock.promise()
        self._waiting.append(settling(promise))
        if not self._busy:
            self._flush()
        await promise

    async def close(self) -> None:
        """Write what is left and seal; the cursors must not be used afterwards."""
        await self.durable()
        if self._writer is not None:
            await self._writer.seal()
            self._writer = None

    # Writing --------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what gathered, unless a write is under way: then it goes along after that."""
        self._scheduled = self._due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            return
        if self._log.failed is not None:
            self._release(self._log.failed)
            return
        if not self._dirty and not self._events and not self._dirty_sides:
            self._release(None)
            return
        if self._writer is None or self._written > self._limit:
            self._busy = True
            self._engine.tasks.spawn(self._roll())
            return
        payloads = self._take()
        if not payloads:
            self._release(None)
            return
        self._busy = True
        self._append(self._writer, payloads, partial(self._flushed, self._take_waiting()))

    def _take(self) -> list[bytes]:
        payloads, self._events = self._events, []
        dirty, self._dirty = self._dirty, {}
        for number, cursor in dirty.items():
            payloads += [
                cursor_record.entry(kind, number, body) for kind, body in cursor.take_delta()
            ]
        sides, self._dirty_sides = self._dirty_sides, NO_SIDES
        for number in sides:
            payloads += _side(number, self._sides[number].take_delta())
        return payloads

    def _take_whole(self) -> list[bytes]:
        """Everything there is; what has gathered is in it."""
        self._events, self._dirty, self._dirty_sides = [], {}, NO_SIDES
        payloads = []
        for cursor in self.cursors.values():
            payloads += _created(cursor)
        for number, side in self._sides.items():
            payloads += _side(number, side.snapshot())
        return payloads

    def _take_waiting(self) -> list[Done]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _append(self, writer: SegmentWriter, payloads: list[bytes], done: Done) -> None:
        self._written += sum(map(len, payloads))
        writer.append(payloads, [0] * len(payloads), done)

    def _flushed(self, waiting: list[Done], error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._log.fail(error)
        for done in waiting:
            done(error)
        if self._events or self._waiting:
            self._flush()
        elif self._dirty or self._dirty_sides:
            self._flush_later()

    def _flush_later(self) -> None:
        """Gather first, then wait as long again for a round to go along with."""
        if self._timer is None:
            self._timer = self._engine.clock.later(GATHER_SECONDS, self._gathered)

    def _gathered(self) -> None:
        self._due = True
        self._timer = self._engine.clock.later(GATHER_SECONDS, self._flush)

    def go_along(self) -> None:
        """A round is about to leave, with entries: what has gathered for long enough joins it."""
        if self._due:
            self._flush()

    def _release(self, error: StorageError | None) -> None:
        for done in self._take_waiting():
            done(error.again() if error is not None else None)

    async def _roll(self) -> None:
        """Start a new segment with the whole state, list it, drop the old one."""
        waiting: list[Done] = []
        writer: SegmentWriter | None = None
        try:
            writer = await self._engine.store.create()
            payloads = self._take_whole()
            waiting = self._take_waiting()
            self._written = 0
            for part in _portions(payloads):
                await self._written_to(writer, part)
            self._limit = max(self._roll_bytes, 4 * self._written)
            old, self._writer = self._writer, writer
            if old is not None:
                await old.seal()
            await self._log.replace_cursor_segment(writer.segment)
        except StorageError as error:
            self._flushed(waiting, error)
            if writer is not None:
                await self._log.discard_unlisted(writer.segment)
        else:
            self._flushed(waiting, None)

    async def _written_to(self, writer: SegmentWriter, payloads: list[bytes]) -> None:
        promise = self._engine.clock.promise()
        self._append(writer, payloads, settling(promise))
        await promise


async def read_cursors(
    store: SegmentStore, segment: SegmentId, sides: dict[int, SideState]
) -> dict[int, DurableCursor]:
    """Replay a cursor segment, into `sides` and new cursors by number.

    `NoSegment` if there is none, `Corrupt` if it is damaged or holds something else.
    """
    end = await store.recover(segment)
    reader = await store.reader(segment)
    numbered: dict[int, DurableCursor] = {}
    try:
        at = 0
        while at < end.entries:
            run = await reader.read(at, READ_ENTRIES, READ_BYTES)
            for entry, payload in enumerate(run.payloads, at):
                try:
                    replay(numbered, sides, payload)
                except (StructError, ValueError, KeyError) as error:
                    why = f"this is no cursor record: {error!r}"
                    raise Corrupt("cursor segment", 0, why, segment, entry, entry) from error
            at += len(run.payloads)
    finally:
        reader.close()
    return numbered


def replay(numbered: dict[int, DurableCursor], sides: dict[int, SideState], payload: bytes) -> None:
    """Apply an entry of a cursor segment to the cursors by number, or to a side.

    A side that is not there is added: it keeps what it is given.
    Raises `struct.error`, ValueError or KeyError if the entry is none, or out of place.
    """
    what, number = HEAD.unpack_from(payload)
    kind, body = Kind(what), payload[HEAD.size :]
    if kind is Kind.SIDE:
        sides.setdefault(number, KeptSide()).apply(body)
    elif kind is Kind.CREATE:
        name, properties, state = cursor_record.read_created(body)
        numbered[number] = DurableCursor(number, name, 0, properties)
        numbered[number].apply(Kind.WHOLE, state)
    elif kind is Kind.DELETE:
        del numbered[number]
    elif kind is Kind.PROPERTIES:
        numbered[number].properties = json.loads(body)
    else:
        numbered[number].apply(kind, body)


def _portions(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """In order, each of `WRITE_BYTES` and at most one payload more."""
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


def _side(number: int, bodies: list[bytes]) -> list[bytes]:
    return [cursor_record.entry(Kind.SIDE, number, body) for body in bodies]
