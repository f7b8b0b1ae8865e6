"""A topic's subscriptions by name: how they begin, who may join, how they end."""

from contextlib import suppress

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld, entry
from magnetar_broker.base.errors import (
    ConsumerBusy,
    NotAllowed,
    SubscriptionNotFound,
    UnknownError,
)
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_storage.errors import Corrupt


def test_a_new_subscription_begins_at_the_end_or_at_the_start() -> None:
    world = TopicWorld()
    world.publish(b"a", b"b")
    latest, earliest = (
        world.subscribe(sub="l", permits=9),
        world.subscribe(sub="e", permits=9, earliest=True),
    )
    world.publish(b"c")
    assert (world.offsets(latest), world.offsets(earliest)) == ([2], [0, 1, 2])


def test_a_reader_begins_at_its_position_and_leaves_nothing_behind() -> None:
    world = TopicWorld(roll=BY_THREE)
    for _ in range(7):
        world.publish(b"x")
    third = MessageId(*world.topic.log.position(3))
    for start, expected in ((third, [3, 4, 5, 6]), (EARLIEST, list(range(7))), (LATEST, [])):
        reader = world.subscribe(sub="reader", durable=False, start=start, permits=99)
        assert world.offsets(reader) == expected
        world.ack(reader, *expected)
        reader.close()
        assert world.topic.subscriptions == {}
    assert world.reload().subscriptions == {}


def test_a_reader_that_replaces_a_dead_one_receives_messages() -> None:
    world = TopicWorld()
    dead = RecordingConnection()
    dead.alive = False
    world.subscribe(dead, sub="reader", durable=False, permits=10)
    reader = world.subscribe(sub="reader", durable=False, permits=10)
    assert world.topic.subscriptions == {"reader": reader.subscription}
    world.publish(b"a")
    assert world.offsets(reader) == [0]


def test_durable_and_not_durable_do_not_share_a_name() -> None:
    world = TopicWorld()
    world.subscribe(sub="d")
    world.subscribe(sub="n", durable=False)
    with pytest.raises(NotAllowed, match="and is durable"):
        world.subscribe(sub="d", durable=False)
    with pytest.raises(NotAllowed, match="and is not durable"):
        world.subscribe(sub="n")


def test_two_creators_of_the_same_subscription_share_it() -> None:
    world = TopicWorld()
    both = [world.begin_subscribe(RecordingConnection(), sub_type=SHARED) for _ in range(2)]
    assert not any(one.done() for one in both)
    world.clock.pump()
    first, second = (one.result() for one in both)
    assert first.subscription is second.subscription is world.subscription()
    assert len(world.subscription().consumers) == 2


def test_subscriptions_and_consumers_are_limited() -> None:
    world = TopicWorld(TopicLimits(max_subscriptions=2, max_consumers=3))
    for name in ("a", "a", "b"):
        world.subscribe(sub=name, sub_type=SHARED)
    with pytest.raises(ConsumerBusy, match="maxConsumersPerTopic"):
        world.subscribe(sub="a", sub_type=SHARED)
    next(iter(world.subscription("b").consumers)).close()
    for durable in (True, False):
        with pytest.raises(NotAllowed, match="maxSubscriptionsPerTopic"):
            world.subscribe(sub="c", durable=durable)


def test_many_at_once_do_not_get_past_the_limit_of_consumers() -> None:
    world = TopicWorld(TopicLimits(max_consumers=2))
    joining = [world.begin_subscribe(RecordingConnection(), sub=name) for name in "abcd"]
    world.clock.pump()
    outcomes = []
    for one in joining:
        try:
            outcomes.append(one.result().subscription.name)
        except ConsumerBusy:
            outcomes.append("refused")
    assert outcomes == ["a", "b", "refused", "refused"]


def test_a_reader_that_is_refused_leaves_no_subscription_behind() -> None:
    world = TopicWorld(TopicLimits(max_consumers=1))
    world.subscribe(sub="a")
    with pytest.raises(ConsumerBusy):
        world.subscribe(sub="reader", durable=False)
    assert list(world.topic.subscriptions) == ["a"]


def test_without_automatic_subscriptions_there_must_be_one() -> None:
    world = TopicWorld(TopicLimits(auto_subscription=False))
    with pytest.raises(SubscriptionNotFound):
        world.subscribe()
    with pytest.raises(NotAllowed):
        world.do(world.topic.subscriptions.ensure("sub"))
    world.subscribe(sub="reader", durable=False)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.subscribe()


def test_a_producers_subscription_begins_at_the_start() -> None:
    world = TopicWorld()
    world.publish(b"a")
    world.do(world.topic.subscriptions.ensure("sub"))
    world.do(world.topic.subscriptions.ensure("sub"))
    assert world.offsets(world.subscribe(permits=9)) == [0]


def test_properties_of_a_subscription_are_kept() -> None:
    world = TopicWorld()
    world.subscribe(properties={"k": "v"})
    assert world.reload().cursors.cursors["sub"].properties == {"k": "v"}


def test_a_rollback_begins_so_many_seconds_ago() -> None:
    world = TopicWorld()
    now = world.clock.now_ms()
    world.publish(*[entry(now - 1000 * ago) for ago in (30, 20, 10, 0)])
    consumer = world.subscribe(permits=9, rollback_seconds=20)
    assert world.offsets(consumer) == [1, 2, 3]


def test_a_failed_rollback_locks_no_consumer_out() -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(*[entry(world.clock.now_ms() + n) for n in range(4)])
    world.store.read_failure = Corrupt("file", 3, "rot")
    consumer = world.subscribe(rollback_seconds=20, earliest=True)
    assert consumer in list(world.subscription().consumers)


def test_two_concurrent_rollbacks_do_not_both_become_exclusive() -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(entry(world.clock.now_ms()))
    world.do(world.topic.subscriptions.ensure("sub"))
    world.store.read_gate = gate = world.clock.promise()
    both = [world.begin_subscribe(RecordingConnection(), rollback_seconds=5) for _ in range(2)]
    gate.set_result(None)
    world.clock.pump()
    admitted = []
    for one in both:
        with suppress(ConsumerBusy, UnknownError):
            admitted.append(one.result())
    assert admitted == list(world.subscription().consumers)
    assert len(admitted) == 1


def test_a_consumer_that_came_during_a_rollback_stays_exclusive() -> None:
    world = TopicWorld()
    world.do(world.topic.subscriptions.ensure("sub"))
    rolling = world.begin_subscribe(RecordingConnection(), rollback_seconds=5)
    joining = world.begin_subscribe(RecordingConnection())
    assert not rolling.done() and not joining.done()
    world.clock.pump()
    admitted = []
    for one in (rolling, joining):
        with suppress(ConsumerBusy):
            admitted.append(one.result())
    assert admitted == list(world.subscription().consumers)
    assert len(admitted) == 1


def test_a_reader_does_not_take_the_name_of_a_subscription_that_is_being_made() -> None:
    world = TopicWorld()
    making = world.begin_subscribe(RecordingConnection(), sub="s")
    with pytest.raises(NotAllowed, match="and is durable"):
        world.subscribe(sub="s", durable=False)
    world.clock.pump()
    assert making.result().subscription.durable


def test_a_waiter_for_a_subscription_that_is_deleted_at_once_gets_a_new_one() -> None:
    world = TopicWorld()

    async def come_and_go() -> None:
        request = world.request(sub="s")
        consumer = await world.topic.subscriptions.subscribe(RecordingConnection(), request)
        await consumer.subscription.unsubscribe(consumer, force=False)

    gone = world.begin(come_and_go())
    waiting = world.begin_subscribe(RecordingConnection(), sub="s")
    world.clock.pump()
    assert gone.done()
    cursor = waiting.result().subscription.cursor
    assert world.topic.cursors.cursors == {"s": cursor}, "what it acknowledges is stored"
    world.crash()
    assert list(world.topic.subscriptions) == ["s"]


def test_those_that_are_being_made_count() -> None:
    world = TopicWorld(TopicLimits(max_subscriptions=2))
    first = world.begin_subscribe(RecordingConnection(), sub="a", sub_type=SHARED)
    again = world.begin_subscribe(RecordingConnection(), sub="a", sub_type=SHARED)
    second = world.begin(world.topic.subscriptions.ensure("b"))
    with pytest.raises(NotAllowed, match="has 2 subscriptions"):
        world.subscribe(sub="c")
    with pytest.raises(NotAllowed, match="has 2 subscriptions"):
        world.subscribe(sub="c", durable=False)
    with pytest.raises(NotAllowed, match="has 2 subscriptions"):
        world.do(world.topic.subscriptions.ensure("c"))
    world.clock.pump()
    assert first.result().subscription is again.result().subscription
    assert second.done()
    assert list(world.topic.subscriptions) == ["a", "b"]
