"""Subscriptions: unsubscribing, counting."""

import gc
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import FAILOVER, SHARED, TopicWorld
from magnetar_broker.base.errors import MetadataError
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention

# Unsubscribing --------------------------------------------------------------------------


def test_unsubscribing_is_durable() -> None:
    world = TopicWorld()
    consumer = world.subscribe()
    world.do(consumer.subscription.unsubscribe(consumer, False))
    assert consumer.closed
    assert world.reload().subscriptions == {}


def test_other_consumers_are_closed_only_by_force() -> None:
    world = TopicWorld()
    other = RecordingConnection()
    consumer, second = world.subscribe(sub_type=SHARED), world.subscribe(other, sub_type=SHARED)
    with pytest.raises(MetadataError, match="1 other consumers"):
        world.do(consumer.subscription.unsubscribe(consumer, False))
    assert not consumer.closed and not second.closed
    world.do(consumer.subscription.unsubscribe(consumer, True))
    assert (other.closed_consumers, world.topic.subscriptions) == ([second.id], {})


def test_an_ack_that_is_late_does_not_harm_the_topic() -> None:
    """The client may have sent it before it was notified of the end of its subscription."""
    world = TopicWorld()
    world.subscribe(sub="kept")
    consumer = world.subscribe(permits=10)
    world.publish(b"a")
    leaving = world.begin(consumer.subscription.unsubscribe(consumer, False))
    assert world.ack(consumer, 0) == [None]
    leaving.result()
    assert world.ack(consumer, 0) == [None]
    assert list(world.reload().subscriptions) == ["kept"]


# Numbers --------------------------------------------------------------------------------


def test_where_the_cursor_is() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=100)
    assert world.subscription().mark_delete_id() == (-1, -1, -1, -1)
    for _ in range(4):
        world.publish(b"x")
    ledger, _ = world.topic.log.position(0)
    assert world.subscription().mark_delete_id() == (ledger, -1, -1, -1)
    world.ack(consumer, 2, cumulative=True)
    assert world.subscription().mark_delete_id() == (ledger, 2, -1, -1)


acks = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 15)), max_size=12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), acks, st.booleans(), st.booleans())
@settings(max_examples=examples(100))
def test_the_backlog_is_exact(
    counts: list[int], acks: list[tuple[int, int]], durable: bool, trim: bool
) -> None:
    """In messages and in entries; what was trimmed is in no backlog."""
    world = TopicWorld(roll=BY_THREE, limits=TopicLimits(retention=Retention()))
    consumer = world.subscribe(permits=1000, sub_type=SHARED, durable=durable)
    left = [(1 << count) - 1 for count in counts]
    for count in counts:
        world.publish(b"x", counts=[count])
    for offset, drawn in acks:
        if offset < len(left):
            mask = drawn & (1 << counts[offset]) - 1
            left[offset] &= mask
            words = (mask,) if mask else ()
            world.ack(consumer, offset, ack_set=words)
    if trim:
        world.do(trim_topic(world.topic))
        left[: world.topic.log.first_offset] = [0] * world.topic.log.first_offset
    backlog = world.do(world.subscription().backlog())
    assert backlog.messages == sum(mask.bit_count() for mask in left)
    assert backlog.entries == sum(map(bool, left))


def test_totals_outlive_the_consumers() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100)
    world.publish(b"abc", b"de", counts=[4, 1])
    assert world.topic.totals() == (5, 5, 5, 5)
    consumer.close()
    assert world.topic.totals() == (5, 5, 5, 5)
    other = world.subscribe(permits=100, sub_type=FAILOVER)
    world.clock.advance(1)
    assert world.topic.totals() == (5, 5, 10, 10)
    world.do(other.subscription.unsubscribe(other, False))
    assert world.topic.totals() == (5, 5, 10, 10)


def test_the_memory_of_a_deleted_subscription_is_freed_at_once() -> None:
    world = TopicWorld()
    world.subscribe()
    subscription = world.subscription()
    for consumer in list(subscription.consumers):
        consumer.close()
    del consumer
    gc.collect()  # consumers that have left
    gc.disable()
    try:
        world.do(subscription.delete())
        world.clock.pump()
        freed = ref(subscription)
        del subscription
        assert freed() is None
    finally:
        gc.enable()
