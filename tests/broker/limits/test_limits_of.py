"""A topic's limits follow its policies while it is loaded."""

from typing import Any

import pytest

import pulsar_conf
from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.base.errors import ConsumerBusy, NotAllowed, ProducerBusy, SubscriptionNotFound
from magnetar_broker.config.domains import SubscriptionType
from magnetar_broker.config.load import interpret
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.limits.topic_limits import TopicLimits, limits_of, topic_limits
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import (
    AUTO_SUBSCRIPTION_CREATION,
    MAX_CONSUMERS,
    MAX_CONSUMERS_PER_SUBSCRIPTION,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCERS,
    MAX_SUBSCRIPTIONS,
    MAX_UNACKED_PER_CONSUMER,
    MAX_UNACKED_PER_SUBSCRIPTION,
    RETENTION,
    SUBSCRIPTION_TYPES,
)
from magnetar_proto.names import TopicName


def set_policy(world: TopicWorld, policy: Policy[Any], value: Any) -> None:
    """Set a policy of the topic, and apply it."""
    world.do(world.policies.set(world.name, {policy: value}))
    world.do(world.topic.policies_changed())
    world.clock.pump()


def test_topics_with_the_same_limits_share_them() -> None:
    world = TopicWorld()
    policies, base = world.policies, TopicLimits()
    other = TopicName.parse("persistent://public/default/other")
    assert limits_of(base, policies, world.name) is base
    for name in (world.name, other):
        world.do(policies.set(name, {MAX_PRODUCERS: 3, MAX_CONSUMERS: 0}))
    limits = limits_of(base, policies, world.name)
    assert (limits.max_producers, limits.max_consumers) == (3, 0)
    assert limits is limits_of(base, policies, other)
    world.do(policies.set(world.name, {MAX_PRODUCERS: None, MAX_CONSUMERS: None}))
    assert limits_of(base, policies, world.name) is base


def test_the_broker_s_own_clients_are_never_too_many() -> None:
    world = TopicWorld()
    system = TopicName.parse("persistent://public/default/__change_events")
    world.do(world.policies.set("public/default", {MAX_PRODUCERS: 1}))
    limits = limits_of(TopicLimits(max_subscriptions=1), world.topic.policies, system)
    assert (limits.max_producers, limits.max_subscriptions, limits.max_consumers) == (0, 0, 0)


def test_producers() -> None:
    world = TopicWorld()
    set_policy(world, MAX_PRODUCERS, 1)
    first = world.producer()
    with pytest.raises(ProducerBusy, match="raise maxProducersPerTopic"):
        world.producer(name="second")
    set_policy(world, MAX_PRODUCERS, 2)
    world.producer(name="second")
    set_policy(world, MAX_PRODUCERS, 1)
    assert not first.closed, "who is there may stay"
    with pytest.raises(ProducerBusy):
        world.producer(name="third")
    world.reload()
    world.producer()
    with pytest.raises(ProducerBusy):
        world.producer(name="second")


def test_consumers_and_subscriptions() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=SHARED)
    set_policy(world, MAX_CONSUMERS, 1)
    with pytest.raises(ConsumerBusy, match="maxConsumersPerTopic"):
        world.subscribe(sub="other")
    set_policy(world, MAX_CONSUMERS, 0)
    set_policy(world, MAX_SUBSCRIPTIONS, 1)
    with pytest.raises(NotAllowed, match="maxSubscriptionsPerTopic"):
        world.subscribe(sub="other")
    set_policy(world, MAX_CONSUMERS_PER_SUBSCRIPTION, 1)
    with pytest.raises(ConsumerBusy, match="maxConsumersPerSubscription"):
        world.subscribe(sub_type=SHARED)
    set_policy(world, MAX_CONSUMERS_PER_SUBSCRIPTION, None)
    world.subscribe(sub_type=SHARED)
    assert not consumer.closed


def test_subscriptions_that_may_not_be_created() -> None:
    world = TopicWorld()
    set_policy(world, AUTO_SUBSCRIPTION_CREATION, False)
    with pytest.raises(SubscriptionNotFound, match="create it first"):
        world.subscribe()
    set_policy(world, AUTO_SUBSCRIPTION_CREATION, None)
    world.subscribe()


def test_types_that_are_enabled() -> None:
    world = TopicWorld()
    set_policy(world, SUBSCRIPTION_TYPES, frozenset({SubscriptionType.SHARED}))
    with pytest.raises(NotAllowed, match="subscriptionTypesEnabled"):
        world.topic.limits.check_type(world.name, "Exclusive")
    world.topic.limits.check_type(world.name, "Shared")


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
@pytest.mark.parametrize(
    ("policy", "blocker"),
    [
        (MAX_UNACKED_PER_CONSUMER, Blocker.UNACKED_CONSUMER),
        (MAX_UNACKED_PER_SUBSCRIPTION, Blocker.UNACKED_SUBSCRIPTION),
    ],
)
def test_unacknowledged_messages(sub_type: int, policy: Policy[int], blocker: Blocker) -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=sub_type, permits=100)
    world.publish(*(entry(number) for number in range(4)))
    assert world.offsets(consumer) == [0, 1, 2, 3]
    set_policy(world, policy, 3)
    world.publish(entry(4))
    assert (world.offsets(consumer), world.subscription().dispatcher.blocker()) == ([], blocker)
    set_policy(world, policy, 5)
    assert world.offsets(consumer) == [4], "raised: delivery continues at once"
    world.publish(entry(5))
    assert world.offsets(consumer) == []
    set_policy(world, policy, 0)
    assert world.offsets(consumer) == [5], "off"


def test_a_new_dispatcher_of_a_subscription_has_the_limits_of_the_day() -> None:
    world = TopicWorld()
    world.subscribe(sub_type=EXCLUSIVE).close()
    set_policy(world, MAX_UNACKED_PER_CONSUMER, 1)
    consumer = world.subscribe(RecordingConnection(), sub_type=SHARED, permits=10)
    world.publish(entry(0), entry(1))
    assert world.offsets(consumer) == [0]


ADDRESSES = [
    ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"),
    ("2001:db8::1:1", "2001:db8::2:1", "2001:db8:0:1::1:1"),
]


@pytest.mark.parametrize("addresses", ADDRESSES)
def test_producers_and_consumers_from_one_address(addresses: tuple[str, ...]) -> None:
    limits = TopicLimits(max_producers_of_address=1, max_consumers_of_address=1)
    world = TopicWorld(limits)
    here, too, there = (RecordingConnection(address) for address in addresses)
    world.producer(here, "one")
    with pytest.raises(ProducerBusy, match="maxSameAddressProducersPerTopic"):
        world.producer(too, "two")
    world.producer(there, "two")
    world.subscribe(here, sub_type=SHARED)
    with pytest.raises(ConsumerBusy, match="maxSameAddressConsumersPerTopic"):
        world.subscribe(too, sub="other")
    world.subscribe(there, sub_type=SHARED)


def test_the_largest_message_of_a_topic_is_known_to_its_producers() -> None:
    world = TopicWorld()
    first = world.producer()
    set_policy(world, MAX_MESSAGE_SIZE, 100)
    assert (first.rules.max_message_size, world.producer(name="later").rules.max_message_size) == (
        100,
        100,
    )
    set_policy(world, MAX_MESSAGE_SIZE, None)
    assert first.rules.max_message_size == 0


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("", 10080),
        ("brokerDeleteInactiveTopicsFrequencySeconds=5", 10080),
        ("magnetarUnreadMessagesRetentionMinutes=5", 5),
        ("defaultRetentionTimeInMinutes=0", 0),
        ("brokerDeleteInactiveTopicsEnabled=true", 0),
        ("brokerDeleteInactiveTopicsEnabled=true\nmagnetarUnreadMessagesRetentionMinutes=9", 9),
        (pulsar_conf.BROKER, 0),
    ],
)
def test_a_configuration_of_pulsar_means_what_it_means_there(text: str, minutes: int) -> None:
    settings, _ = interpret("test.conf", text, {}, {})
    assert topic_limits(settings).unread.minutes == minutes


def test_a_policy_of_retention_counts_alone() -> None:
    world = TopicWorld(TopicLimits(unread=Retention(10080, -1)))
    assert world.topic.limits.unread.minutes == 10080
    set_policy(world, RETENTION, Retention(60, 100))
    assert world.topic.limits.unread == Retention()
