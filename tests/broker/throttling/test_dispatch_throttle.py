"""How fast a topic is published to and delivered, with a clock that is moved by hand."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld, entry
from fakes.world import ManualClock
from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.limits.shared_limits import shared_limits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.table import (
    DISPATCH_RATE,
    PUBLISH_RATE,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATES,
)
from magnetar_broker.policies.values import DispatchRate, PublishRate, SubscribeRate
from magnetar_broker.topic.topic import Topic

ALL_TYPES = (EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED)


def set_policy(world: TopicWorld, policy: Policy[Any], value: Any) -> None:
    """Set a policy of the topic, and apply it."""
    world.do(world.policies.set(world.name, {policy: value}))
    world.do(world.topic.policies_changed())
    world.clock.pump()


def rate(messages: int, size: int = 0, period: int = 1, relative: bool = False) -> DispatchRate:
    return DispatchRate(messages, size, period, relative)


def filled(world: TopicWorld, entries: int, payload: bytes = b"") -> None:
    for first in range(0, entries, 50):
        some = range(first, min(entries, first + 50))
        world.publish(*(entry(number, payload=payload) for number in some))


def count(world: TopicWorld, consumer: Any) -> int:
    """How many messages came since the last count."""
    return len(world.offsets(consumer))


# Delivering -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", ALL_TYPES)
def test_a_dispatch_rate_holds_and_everything_arrives(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    set_policy(world, SUBSCRIPTION_DISPATCH_RATE, rate(100))
    consumer = world.subscribe(sub_type=sub_type, permits=10_000, earliest=True)
    filled(world, 1000)
    got = count(world, consumer)
    assert got == 100, "one period's worth at once"
    assert world.subscription().dispatcher.blocker() is Blocker.RATE
    for tenth in range(1, 90):
        world.clock.advance(0.1)
        got += count(world, consumer)
        assert 100 + tenth * 10 - 10 <= got <= 100 + tenth * 10 + 1
    world.clock.advance(1)
    assert got + count(world, consumer) == 1000
    assert world.subscription().dispatcher.blocker() is Blocker.CAUGHT_UP


@pytest.mark.parametrize("sub_type", ALL_TYPES)
def test_a_rate_of_bytes(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    set_policy(world, DISPATCH_RATE, rate(-1, 10_000))
    consumer = world.subscribe(sub_type=sub_type, permits=10_000)
    filled(world, 200, bytes(1000))
    size = len(entry(0, payload=bytes(1000)))
    got = 0
    for second in range(25):
        got += count(world, consumer)
        assert got * size <= 10_000 * (second + 1) + 20 * size, "one run beyond, at most"
        world.clock.advance(1)
    assert got == 200


def test_the_rate_of_a_topic_is_shared_by_its_subscriptions_evenly() -> None:
    world = TopicWorld()
    set_policy(world, DISPATCH_RATE, rate(90))
    consumers = [world.subscribe(sub=f"s{number}", permits=5000) for number in range(3)]
    filled(world, 600)
    for consumer in consumers:
        count(world, consumer)
    world.clock.advance(10)
    shares = [count(world, consumer) for consumer in consumers]
    assert 890 <= sum(shares) <= 902
    assert max(shares) - min(shares) <= 10


def test_a_subscription_with_a_rate_of_its_own() -> None:
    world = TopicWorld()
    set_policy(world, SUBSCRIPTION_DISPATCH_RATE, rate(10))
    set_policy(world, SUBSCRIPTION_DISPATCH_RATES, {"fast": rate(50)})
    fast = world.subscribe(sub="fast", permits=5000)
    slow = world.subscribe(sub="slow", permits=5000)
    filled(world, 200)
    assert (count(world, fast), count(world, slow)) == (50, 10)
    world.clock.advance(1)
    assert (count(world, fast), count(world, slow)) == (50, 10)


def test_the_slowest_of_several_rates_counts() -> None:
    settings = Settings(dispatch_throttling_rate_in_msg=30)
    world = TopicWorld(settings=settings)
    set_policy(world, DISPATCH_RATE, rate(40))
    set_policy(world, SUBSCRIPTION_DISPATCH_RATE, rate(20))
    consumer = world.subscribe(permits=5000)
    filled(world, 200)
    assert count(world, consumer) == 20
    set_policy(world, SUBSCRIPTION_DISPATCH_RATE, None)
    world.clock.advance(4)
    assert 28 + 10 <= count(world, consumer) <= 30 * 4 + 30, "the broker's"


def test_a_rate_without_a_period_is_one_of_a_second() -> None:
    world = TopicWorld()
    set_policy(world, DISPATCH_RATE, rate(10, period=0))
    set_policy(world, SUBSCRIBE_RATE, SubscribeRate(100, 0))
    consumer = world.subscribe(permits=5000)
    filled(world, 30)
    assert count(world, consumer) == 10
    world.clock.advance(1)
    assert count(world, consumer) == 10


def test_a_change_of_the_rate_counts_at_once() -> None:
    world = TopicWorld()
    set_policy(world, DISPATCH_RATE, rate(1, period=60))
    consumer = world.subscribe(permits=5000)
    filled(world, 100)
    assert count(world, consumer) == 1
    set_policy(world, DISPATCH_RATE, rate(30))
    assert count(world, consumer) == 30
    set_policy(world, DISPATCH_RATE, None)
    assert count(world, consumer) == 69
    assert world.topic.rates is None
    assert consumer.throttle is None


def test_another_policy_does_not_fill_a_rate_anew() -> None:
    world = TopicWorld()
    set_policy(world, DISPATCH_RATE, rate(10))
    consumer = world.subscribe(permits=5000)
    filled(world, 100)
    assert count(world, consumer) == 10
    set_policy(world, PUBLISH_RATE, PublishRate(1000, 0))
    assert count(world, consumer) == 0


@pytest.mark.parametrize("sub_type", ALL_TYPES)
def test_batches_count_by_message_or_as_one(sub_type: int) -> None:
    for by_entries, first in ((False, 3), (True, 20)):
        world = TopicWorld(TopicLimits(failover_delay_ms=0, throttle_entries=by_entries))
        set_policy(world, DISPATCH_RATE, rate(20))
        consumer = world.subscribe(sub_type=sub_type, permits=5000)
        world.publish(*(entry(n, batch=7) for n in range(50)), counts=[7] * 50)
        assert count(world, consumer) == first


def test_a_consumer_that_is_caught_up_may_be_exempt() -> None:
    world = TopicWorld(TopicLimits(throttle_caught_up=False))
    set_policy(world, DISPATCH_RATE, rate(10))
    consumer = world.subscribe(permits=10_000)
    filled(world, 500)
    assert count(world, consumer) == 500
    behind = world.subscribe(sub="behind", earliest=True, permits=10_000)
    filled(world, 1500)
    count(world, behind)
    late = world.subscribe(sub="late", earliest=True, permits=10_000)
    assert count(world, late) == 10


def test_a_rate_on_top_of_the_rate_of_publishing() -> None:
    world = TopicWorld()
    set_policy(world, DISPATCH_RATE, rate(10, relative=True))
    consumer = world.subscribe(permits=10_000)
    filled(world, 400)
    assert count(world, consumer) == 10
    world.topic.meter.close_window(world.topic.totals(), 10)  # 40 a second were published
    world.clock.advance(2)
    count(world, consumer)
    world.clock.advance(4)
    assert 199 <= count(world, consumer) <= 201


@pytest.mark.parametrize("sub_type", ALL_TYPES)
def test_what_comes_again_counts_too(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    set_policy(world, DISPATCH_RATE, rate(10))
    consumer = world.subscribe(sub_type=sub_type, permits=1000)
    filled(world, 10)
    assert count(world, consumer) == 10
    world.nack(consumer)
    assert count(world, consumer) == 0
    world.clock.advance(1)
    assert count(world, consumer) == 10


# Publishing -----------------------------------------------------------------------------------


def test_connections_that_publish_too_fast_are_paused_and_resumed_together() -> None:
    world = TopicWorld()
    set_policy(world, PUBLISH_RATE, PublishRate(100, 0))
    first, second = RecordingConnection(), RecordingConnection()
    one, other = world.producer(first, "one"), world.producer(second, "other", producer_id=2)
    third = world.producer(second, "third", producer_id=3)
    world.send(one, *(entry(n) for n in range(99)))
    assert first.holds == 0
    world.send(one, *(entry(n) for n in range(101)))
    world.send(other, entry(0), counts=[50])
    world.send(third, entry(0), counts=[50])
    assert (first.holds, second.holds) == (1, 1), (
        "a connection once, however many producers publish on it"
    )
    world.clock.pump()
    assert len(first.receipts) == 200, "all of it is stored and answered"
    world.clock.advance(1.99)
    assert (first.holds, second.holds) == (1, 1)
    world.clock.advance(0.02)
    assert (first.holds, second.holds) == (0, 0)
    assert world.topic.rates is not None
    assert world.topic.rates.publish[0].waits == 2


@pytest.mark.parametrize("value", [None, PublishRate(-1, 10**6), PublishRate(10**6, 0)])
def test_another_rate_lets_publishers_go_at_once(value: PublishRate | None) -> None:
    world = TopicWorld()
    set_policy(world, PUBLISH_RATE, PublishRate(1, 0))
    connection = RecordingConnection()
    world.send(world.producer(connection), *(entry(n) for n in range(5000)))
    set_policy(world, DISPATCH_RATE, rate(7))
    assert connection.holds == 1, "the rate of publishing is still the same"
    set_policy(world, PUBLISH_RATE, value)
    assert connection.holds == 0


def test_a_topic_that_is_closed_or_ends_keeps_no_publisher_waiting() -> None:
    for end in (Topic.close, Topic.terminate):
        world = TopicWorld()
        set_policy(world, PUBLISH_RATE, PublishRate(1, 0))
        connection = RecordingConnection()
        world.send(world.producer(connection), *(entry(n) for n in range(5000)))
        world.do(end(world.topic))
        assert connection.holds == 0


def test_a_rate_of_published_bytes() -> None:
    world = TopicWorld()
    set_policy(world, PUBLISH_RATE, PublishRate(-1, 1000))
    connection = RecordingConnection()
    producer = world.producer(connection)
    world.send(producer, bytes(999))
    assert connection.holds == 0
    world.send(producer, bytes(4001))
    assert connection.holds == 1
    world.clock.advance(4.02)
    assert connection.holds == 0


def test_all_topics_of_a_broker_share_a_rate_of_publishing() -> None:
    settings = Settings(broker_publisher_throttling_max_message_rate=10)
    shared = shared_limits(settings, ManualClock())
    worlds = [TopicWorld(settings=settings, shared=shared) for _ in range(2)]
    for world in worlds:
        connection = RecordingConnection()
        world.send(world.producer(connection), *(entry(n) for n in range(8)))
        assert connection.holds == (world is worlds[1])


def test_without_rates_a_topic_has_nothing_of_them() -> None:
    world = TopicWorld()
    assert world.topic.rates is None
    assert world.subscribe().throttle is None


# Subscribing ----------------------------------------------------------------------------------


def test_a_consumer_that_subscribes_too_often() -> None:
    world = TopicWorld()
    set_policy(world, SUBSCRIBE_RATE, SubscribeRate(2, 30))

    def subscribe(port: int, consumer_id: int = 1) -> None:
        connection = RecordingConnection(f"10.0.0.1:{port}")
        name = f"c{consumer_id}"
        world.subscribe(connection, consumer_id=consumer_id, consumer_name=name).close()

    subscribe(1)
    subscribe(2)
    with pytest.raises(NotAllowed, match="exceeds 2 subscribe requests in 30 s"):
        subscribe(3)
    subscribe(3, consumer_id=2)
    world.clock.advance(15)
    subscribe(4)
    with pytest.raises(NotAllowed):
        subscribe(5)
    set_policy(world, SUBSCRIBE_RATE, None)
    subscribe(6)


def test_only_so_many_subscribers_are_remembered() -> None:
    world = TopicWorld()
    set_policy(world, SUBSCRIBE_RATE, SubscribeRate(1, 30))
    for number in range(1500):
        world.subscribe(consumer_name=f"c{number}", consumer_id=1).close()
    with pytest.raises(NotAllowed):
        world.subscribe(consumer_name="c1499", consumer_id=1)
    world.subscribe(consumer_name="c0", consumer_id=1)
