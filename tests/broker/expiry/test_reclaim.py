"""A topic whose middle was reclaimed: subscriptions old and new, readers, seeks, numbers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld, entry
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention
from magnetar_broker.subscriptions.finding import last_message_id
from magnetar_proto.ids import MessageId
from magnetar_storage.log.roll_limits import RollLimits

BY_TEN = RollLimits(max_entries=10, min_age_ms=0)


def reclaimed(*waiting: int, entries: int = 45, limits: TopicLimits | None = None) -> TopicWorld:
    """A topic with a Shared subscription that has acknowledged all but a few; the last stays."""
    world = TopicWorld(limits, roll=BY_TEN)
    consumer = world.subscribe(sub_type=SHARED, permits=entries)
    for number in range(entries):
        world.publish(entry(1000 + number, batch=2), counts=[2])
    world.ack(consumer, *(o for o in range(entries - 1) if o not in waiting))
    world.got(consumer)
    world.do(trim_topic(world.topic))
    return world


def there(world: TopicWorld) -> list[int]:
    log = world.topic.log
    return [o for o in range(log.first_offset, log.end) if o not in log.holes]


def test_what_waits_is_counted_and_delivered_again() -> None:
    world = reclaimed(3, 17)
    assert there(world) == [3, 17, 40, 41, 42, 43, 44]
    backlog = world.do(world.subscription().backlog())
    assert (backlog.messages, backlog.entries) == (6, 3)
    world.reload()
    backlog = world.do(world.subscription().backlog())
    assert (backlog.messages, backlog.entries) == (6, 3)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    assert world.offsets(consumer) == [3, 17, 44]
    world.ack(consumer, 3, 17)
    assert world.subscription().cursor.mark_delete == 43
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 40
    assert list(world.topic.log.holes) == []


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_a_subscription_from_the_start_gets_what_is_there(durable: bool, sub_type: int) -> None:
    world = reclaimed(3, 17)
    consumer = world.subscribe(
        sub="new", sub_type=sub_type, durable=durable, earliest=True, permits=2
    )
    assert world.offsets(consumer) == [3]  # a batch of two
    world.flow(consumer, 100)
    assert world.offsets(consumer) == [17, 40, 41, 42, 43, 44]
    backlog = world.do(world.subscription("new").backlog())
    assert (backlog.messages, backlog.entries) == (14, 7)


def test_a_seek_passes_over_what_is_gone() -> None:
    world = reclaimed(3, 17)
    for position, expected in [
        (MessageId(-1, -1, -1, -1), [3, 17, 40, 41, 42, 43, 44]),
        (MessageId(*world.topic.log.position(3), -1, -1), [3, 17, 40, 41, 42, 43, 44]),
        (MessageId(*world.topic.log.position(5), -1, -1), [17, 40, 41, 42, 43, 44]),
    ]:
        world.do(world.subscription().seek_to_id(position, ()))
        consumer = world.subscribe(sub_type=SHARED, permits=100)
        assert world.offsets(consumer) == expected
        consumer.close()
    for time_ms, first in [(1000, 3), (1004, 17), (1017, 17), (1018, 40), (1044, 44)]:
        world.do(world.subscription().seek_to_time(time_ms))
        consumer = world.subscribe(sub_type=SHARED, permits=100)
        assert world.offsets(consumer)[0] == first
        consumer.close()


def test_a_reader_in_the_middle_passes_over_what_goes() -> None:
    world = TopicWorld(roll=BY_TEN, cache_bytes=0)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    reader = world.subscribe(sub="reader", durable=False, earliest=True, permits=5)
    for number in range(45):
        world.publish(entry(1000 + number))
    world.ack(consumer, *(o for o in range(44) if o != 17))
    assert world.offsets(reader) == [0, 1, 2, 3, 4]
    world.do(trim_topic(world.topic))
    world.nack(reader)
    world.flow(reader, 100)
    assert [o for o in world.offsets(reader) if o > 9] == [17, 40, 41, 42, 43, 44]


def test_the_last_message_is_answered_though_it_is_acknowledged() -> None:
    world = TopicWorld(roll=BY_TEN)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    for number in range(20):
        world.publish(entry(1000 + number))
    world.ack(consumer, *range(1, 20))
    world.do(trim_topic(world.topic))
    ledger, position = world.topic.log.position(19)
    assert world.do(last_message_id(world.topic.log, -1)) == MessageId(ledger, position, -1, -1)


def test_what_is_retained_is_not_reclaimed() -> None:
    world = reclaimed(3, limits=TopicLimits(retention=Retention(minutes=1, megabytes=-1)))
    assert there(world) == list(range(45))
    world.clock.advance(60)
    world.do(trim_topic(world.topic))
    assert there(world) == [3, 40, 41, 42, 43, 44]


def test_the_stored_bytes_shrink() -> None:
    world = reclaimed(3, 17)
    assert world.topic.log.size == len(there(world)) * len(entry(1000, batch=2))


def test_a_subscription_in_the_making_needs_everything() -> None:
    world = TopicWorld(roll=BY_TEN)
    world.subscribe(sub_type=SHARED, permits=100)
    for number in range(45):
        world.publish(entry(1000 + number))
    world.store.create_gate = gate = world.clock.promise()
    making = world.begin_subscribe(RecordingConnection(), sub="new", earliest=True)
    world.subscription().cursor.ack([o for o in range(44) if o != 3])
    world.do(trim_topic(world.topic))
    assert there(world) == list(range(45))
    world.store.create_gate = None
    gate.set_result(None)
    world.clock.pump()
    world.flow(making.result(), 100)
    assert world.offsets(making.result()) == list(range(45))


@given(
    st.lists(st.sets(st.integers(0, 44), max_size=6), min_size=1, max_size=3),
    st.sets(st.integers(0, 44), max_size=3),
    st.booleans(),
)
@settings(max_examples=examples(60))
def test_every_subscription_gets_what_it_has_not_acknowledged(
    waiting: list[set[int]], later: set[int], reload: bool
) -> None:
    world = TopicWorld(roll=BY_TEN, cache_bytes=100)
    names = [f"sub{number}" for number in range(len(waiting))]
    consumers = {name: world.subscribe(sub=name, sub_type=SHARED, permits=100) for name in names}
    for number in range(45):
        world.publish(entry(1000 + number))
    for name, some in zip(names, waiting, strict=True):
        world.ack(consumers[name], *(o for o in range(44) if o not in some | later))
    world.do(trim_topic(world.topic))
    for name in names:
        world.ack(consumers[name], *later - {44})
    world.do(trim_topic(world.topic))
    if reload:
        world.reload()
    for name, some in zip(names, waiting, strict=True):
        if not reload:
            consumers[name].close()
        consumer = world.subscribe(sub=name, sub_type=SHARED, permits=100)
        assert world.offsets(consumer) == sorted((some - later) | {44})


@pytest.mark.parametrize("moved", ["seek", "subscribe", "read"])
def test_a_cursor_that_is_put_where_is_being_trimmed_begins_behind(moved: str) -> None:
    world = TopicWorld(roll=BY_TEN)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    for number in range(25):
        world.publish(entry(1000 + number))
    world.ack(consumer, *range(25))
    put, gate = world.metadata.put, world.clock.promise()

    async def late(*asked: Any) -> Any:
        await gate
        return await put(*asked)

    world.metadata.put = late  # type: ignore[assignment]
    trimming = world.begin(trim_topic(world.topic))
    world.metadata.put = put  # type: ignore[method-assign]
    assert not trimming.done()
    if moved == "seek":
        world.do(world.subscription().seek(0))
    else:
        world.subscribe(sub="new", sub_type=SHARED, durable=moved == "subscribe", earliest=True)
    gate.set_result(None)
    world.clock.pump()
    assert trimming.done() and world.topic.log.first_offset == 20
    name = "sub" if moved == "seek" else "new"
    assert world.subscription(name).cursor.mark_delete == 19
    consumer = world.subscribe(sub=name, sub_type=SHARED, permits=100, durable=moved != "read")
    assert world.offsets(consumer) == [20, 21, 22, 23, 24]
    world.ack(consumer, *range(20, 25))
    assert world.subscription(name).cursor.mark_delete == 24
