"""Rebuilding a log's record from its segments: everything is at its former place."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import KEY, numbered
from fakes.rewritten import RewrittenLog
from fakes.world import run
from magnetar_storage.compacted.compacted_part import Stretch
from magnetar_storage.compacted.compacted_writer import CompactedWriter, Scratch
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.log import rewriting
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.rebuild.logs import Rebuilt, rebuilt


def looked_at(world: RewrittenLog) -> Rebuilt:
    world.do(world.log.close())
    return world.do(rebuilt(world.store, world.clock.now_ms(), lambda _: None))


def replaced(world: RewrittenLog) -> LogRecord:
    """Replace the stored record by the rebuilt one, and open the log; return the former record."""
    record = looked_at(world).logs[KEY].record
    former = LogRecord.decode(KEY, world.metadata._values[KEY].value)
    run(world.metadata.put(KEY, record.encode()), world.clock)
    world.opened()
    return former


def test_the_segments_of_a_log_are_listed_in_order() -> None:
    world = RewrittenLog(35)
    former = replaced(world)
    assert [(one.id, one.entries, one.messages, one.size) for one in former.segments] == [
        (one.id, one.entries, one.messages, one.size) for one in world.log.segments[:4]
    ]
    assert world.log.record.epoch > former.epoch
    assert world.there() == {offset: b"%d" % offset for offset in range(35)}


def test_what_was_trimmed_is_not_counted_again() -> None:
    world = RewrittenLog(35)
    world.do(world.log.trim(20))
    before = world.log.position(25)
    replaced(world)
    assert world.log.first_offset == 20 and world.log.position(25) == before
    assert world.there() == {offset: b"%d" % offset for offset in range(20, 35)}


def test_messages_are_counted_from_the_first_one_where_entries_have_their_index() -> None:
    world = RewrittenLog(0)
    world.do(world.log.close())
    world.engine = replace(world.engine, adds_broker_metadata=True)
    world.opened()
    world.do(world.log.rollover.start_writing())
    for payload in numbered(0, 35):
        world.append(world.log, payload, counts=[2])
    world.do(world.log.trim(20))
    assert replaced(world).has_broker_metadata
    assert world.log.record.has_broker_metadata
    assert world.do(world.log.entries.messages_before(20)) == 40
    assert world.log.next_message == 70


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_whatever_was_rewritten_is_where_it_was(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
        world = RewrittenLog(data.draw(st.integers(1, 70), "entries"))
        for _ in range(data.draw(st.integers(0, 3), "rounds")):
            world.cursors["one"].ack(
                data.draw(st.sets(st.integers(0, world.log.end - 1)), "acknowledged")
            )
            world.reclaim()
            if data.draw(st.booleans(), "trimmed"):
                world.do(world.log.trim(world.cursors["one"].mark_delete + 1))
    there, end = world.there(), world.log.end
    positions = {offset: world.log.position(offset) for offset in there}
    messages = {offset: world.do(world.log.entries.messages_before(offset)) for offset in there}
    if not there:
        return  # nothing is left that could tell of the log
    replaced(world)
    assert world.log.end == end
    assert world.there() == there
    assert {offset: world.log.position(offset) for offset in there} == positions
    first = min(there)
    for offset in there:
        behind = world.do(world.log.entries.messages_before(offset))
        ahead = world.do(world.log.entries.messages_before(first))
        assert behind - ahead == messages[offset] - messages[first]


def test_cursors_go_on_with_their_holes() -> None:
    world = RewrittenLog(35)
    cursors = world.do(CursorLog.open(world.log))
    cursor = world.do(cursors.create("one", -1, {"a": "b"}))
    world.do(cursors.create("two", 11, {}))
    cursor.ack([0, 1, 5, 33])
    cursor.ack_batch(7, 0b101)
    cursors.cursor_changed(cursor)
    world.do(cursors.close())
    found = looked_at(world).logs[KEY]
    assert set(found.cursors) == {"one", "two"} and not found.notes
    run(world.metadata.put(KEY, found.record.encode()), world.clock)
    world.opened()
    again = world.do(CursorLog.open(world.log)).cursors
    assert again["one"].mark_delete == 1 and list(again["one"].acked) == [(5, 6), (33, 34)]
    assert again["one"].partial == {7: 0b101} and again["one"].properties == {"a": "b"}
    assert again["two"].mark_delete == 11


def test_offsets_of_lost_messages_are_not_given_out_again() -> None:
    """Otherwise the cursors that acknowledged them would count new messages as acknowledged."""
    world = RewrittenLog(35)
    cursors = world.do(CursorLog.open(world.log))
    world.do(cursors.create("one", 32, {}))
    world.do(cursors.close())
    for segment in world.log.segments[1:]:
        world.do(world.store.delete(segment.id))
    found = world.do(rebuilt(world.store, world.clock.now_ms(), lambda _: None)).logs[KEY]
    assert "25 entries" in found.notes[0]
    run(world.metadata.put(KEY, found.record.encode()), world.clock)
    world.opened()
    assert world.log.end == 35
    assert world.there() == {offset: b"%d" % offset for offset in range(10)}


def test_compacted_data_is_listed_when_all_of_its_parts_are_there() -> None:
    world = RewrittenLog(35)

    async def compact(horizon: int) -> None:
        scratch = Scratch(world.log)
        writer = CompactedWriter(world.log, scratch)
        await writer.add(Stretch(world.log.segments[0].id, 0, [3, 7], [b"3", b"7"], [1, 2]))
        await writer.end(horizon)
        if horizon == 9:
            await writer.list()
            scratch.settled()

    world.do(compact(9))
    listed = world.log.record.compacted
    assert listed is not None
    former = replaced(world)
    assert former.compacted == world.log.record.compacted == listed


def test_segments_of_earlier_releases_are_logs_by_themselves() -> None:
    world = RewrittenLog(5)
    for content in world.store._segments.values():
        content.origin = None  # type: ignore[assignment]
    found = looked_at(world)
    assert not found.logs
    (log,) = found.nameless.values()
    assert [one.entries for one in log.record.segments] == [5]


def test_segments_of_a_deleted_log_of_the_same_name_are_left_out() -> None:
    deleted, world = RewrittenLog(15), RewrittenLog(12)
    newer = {number + 100: content for number, content in world.store._segments.items()}
    world.store._segments = deleted.store._segments | newer
    found = looked_at(world).logs[KEY]
    assert [one.id for one in found.record.segments] == [101, 102]
    assert any("cannot precede" in note for note in found.notes)
