"""Segments that no log lists: the empty ones go, everything else stays."""

import pytest

from fakes.topics import TopicWorld, entry
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.lifetime.orphans import present_segments, sweep, sweep_and_log


def test_only_empty_unlisted_segments_are_deleted() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    listed = world.do(present_segments(world.engine))
    empty = world.do(world.store.create())
    used = world.do(world.store.create())
    used.append([b"x"], [1], lambda error: None)
    world.clock.pump()
    candidates = world.do(present_segments(world.engine))
    assert candidates == listed | {empty.segment, used.segment}
    assert world.do(sweep(world.engine, candidates)) == [used.segment]
    assert world.do(present_segments(world.engine)) == listed | {used.segment}


def left_over_cursors(world: TopicWorld) -> int:
    """A segment as a crash leaves it between rewriting cursors and listing them."""
    listed = world.topic.log.record.cursor_segment
    assert listed is not None
    reader = world.do(world.store.reader(listed))
    payloads = world.do(reader.read(0, 100, 1 << 20)).payloads
    writer = world.do(world.store.create())
    writer.append(payloads, [0] * len(payloads), lambda error: None)
    world.clock.pump()
    return writer.segment


def test_unlisted_cursors_are_deleted() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    listed = world.do(present_segments(world.engine))
    left_over = left_over_cursors(world)
    candidates = world.do(present_segments(world.engine))
    assert candidates == listed | {left_over}
    assert world.do(sweep(world.engine, candidates)) == []
    assert world.do(present_segments(world.engine)) == listed


def test_unlisted_cursors_stay_while_a_topic_lacks_its_own() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    left_over = left_over_cursors(world)
    listed = world.topic.log.record.cursor_segment
    assert listed is not None
    world.do(world.store.delete(listed))
    candidates = world.do(present_segments(world.engine))
    assert world.do(sweep(world.engine, candidates)) == [left_over]


def test_segments_in_use_by_a_live_topic_stay() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    assert world.do(sweep(world.engine, world.do(present_segments(world.engine)))) == []
    world.publish(entry(2))
    assert world.topic.log.end == 2


def test_trouble_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = TopicWorld()
    world.do(world.metadata.put(topic_key(world.name), b"no record"))
    world.do(sweep_and_log(world.engine, {1}))
    assert "cannot be read" in caplog.text
