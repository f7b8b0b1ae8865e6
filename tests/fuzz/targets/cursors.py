"""Cursor segments that no cursor log wrote: refused as damaged, or usable.

Input: the entries of the segment, separated by a mark.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fakes.attached_states import Numbers
from fakes.logs import KEY, LogWorld
from fakes.origins import MESSAGES
from fuzz.directories import BETWEEN
from magnetar_storage.cursors.attached_state import DEDUPLICATION
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import Corrupt
from magnetar_storage.log.log_record import LogRecord

LONGEST: Final = 1024
FAR: Final = 1 << 62
"""More entries than any log has."""

State = dict[str, tuple[object, ...]]


def run(data: bytes) -> None:
    world = LogWorld()
    payloads = data.split(BETWEEN)
    writer = world.do(world.store.create(MESSAGES))
    writer.append(payloads, [0] * len(payloads), lambda error: None)
    record = replace(LogRecord(), cursor_segment=writer.segment)
    world.do(world.metadata.put(KEY, record.encode()))
    log = world.open()
    known = {DEDUPLICATION: Numbers()}
    try:
        cursors = world.do(CursorLog.open(log, known))
    except Corrupt as error:
        assert error.segment == writer.segment
        return
    check(cursors)
    for cursor in cursors.cursors.values():
        if cursor.mark_delete < FAR:
            cursor.ack((cursor.mark_delete + 1, cursor.mark_delete + 3))
            cursor.count_redelivery([cursor.mark_delete + 1])
        cursors.cursor_changed(cursor)
    known[DEDUPLICATION].put(7, 8)
    cursors.state_changed(DEDUPLICATION)
    world.do(cursors.durable())
    check(cursors)
    before, numbers = state(cursors), known[DEDUPLICATION].all
    known = {DEDUPLICATION: Numbers()}
    world.do(cursors.close())
    again = world.do(CursorLog.open(log, known))
    assert state(again) == before, "what was written is read differently"
    assert known[DEDUPLICATION].all == numbers


def check(cursors: CursorLog) -> None:
    """Check that the cursors are in a state that the broker can work with."""
    for name, cursor in cursors.cursors.items():
        assert cursor.name == name
        last = cursor.mark_delete + 1
        for start, stop in cursor.acked:
            assert last < start < stop, "ranges are in order, and none touches another"
            last = stop
        for offset, mask in cursor.partial.items():
            assert not cursor.is_acked(offset) and mask >= 0
        assert not any(cursor.is_acked(offset) for offset in cursor.redelivered)
        assert not cursor.is_acked(cursor.next_unacked(-1))
        assert all(isinstance(text, str) for pair in cursor.properties.items() for text in pair)


def state(cursors: CursorLog) -> State:
    return {
        name: (
            cursor.mark_delete,
            list(cursor.acked),
            dict(cursor.partial),
            cursor.properties,
            dict(cursor.redelivered.items()),
            cursor.number,
        )
        for name, cursor in cursors.cursors.items()
    }


def seeds() -> Iterator[bytes]:
    world = LogWorld()
    log = world.open()
    side = Numbers()
    cursors = world.do(CursorLog.open(log, {DEDUPLICATION: side}))
    one = world.do(cursors.create("one", 5, {"key": "value"}))
    two = world.do(cursors.create("two", -1, {}))
    three = world.do(cursors.create("three", -1, {}))
    three.ack(range(1, 60, 2))
    three.reset(-1)
    for turn in range(3):
        three.ack(range(101 + 40 * turn, 141 + 40 * turn, 2))
        three.count_redelivery([turn])
        side.put(turn, 5)
        cursors.state_changed(DEDUPLICATION)
        cursors.cursor_changed(three)
        one.ack((7 + turn, 20 + 2 * turn))
        two.ack_batch(turn, 0b1011)
        cursors.cursor_changed(one)
        cursors.cursor_changed(two)
        world.do(cursors.durable())
    world.do(cursors.set_properties(two, {"a": "b"}))
    one.reset(3)
    cursors.cursor_changed(one)
    world.do(cursors.durable())
    world.do(cursors.delete("two"))
    assert log.record.cursor_segment is not None
    reader = world.do(world.store.reader(log.record.cursor_segment))
    payloads = world.do(reader.read(0, 100, 1 << 20)).payloads
    yield BETWEEN.join(payloads)
    for payload in payloads:
        yield BETWEEN.join([payloads[0], payload])
