"""The conditions for an inactive topic, and its deletion."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.metadata_keys import topic_policies_key
from magnetar_broker.config.domains import InactiveMode
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import INACTIVE_TOPICS, RETENTION
from magnetar_broker.policies.values import InactiveTopics
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.inactive import INACTIVE, Use, is_over

UNUSED = Use(producers=False, subscriptions=False, behind=False, entries=True, unread=True)
WITHOUT, CAUGHT_UP = InactiveMode.NO_SUBSCRIPTIONS, InactiveMode.CAUGHT_UP
PLAIN, PARTED = named("plain"), named("parted")


@given(
    st.builds(Use, *[st.booleans()] * 5),
    st.builds(InactiveTopics, st.booleans(), st.sampled_from(InactiveMode), st.integers(1, 300)),
    st.builds(Retention, st.integers(-1, 5), st.just(-1)),
    st.builds(Retention, st.integers(-1, 5), st.just(-1)),
    st.integers(0, 400),
)
def test_a_topic_goes_when_nothing_keeps_it(
    use: Use, rule: InactiveTopics, retention: Retention, unread: Retention, idle: int
) -> None:
    reasons = [
        not rule.delete,
        use.producers,
        use.subscriptions and rule.mode is WITHOUT,
        use.behind and rule.mode is CAUGHT_UP,
        idle < rule.seconds,
        use.entries and (retention.minutes == -1 or idle < 60 * retention.minutes),
        use.unread and (unread.minutes == -1 or idle < 60 * unread.minutes),
    ]
    assert is_over(idle, use, rule, retention, unread) is not any(reasons)


AS_PULSAR: Mapping[str, Any] = {"magnetar_unread_messages_retention_minutes": 0}


def look(world: NamedWorld, times: int = 1) -> list[str]:
    """Look for inactive topics this number of times; return the topics that are left."""
    for _ in range(times):
        world.do(world.broker.jobs.run(INACTIVE))
    return world.names()


def test_a_topic_without_clients_and_subscriptions_goes_after_its_time() -> None:
    world = NamedWorld(broker_delete_inactive_topics_max_inactive_duration_seconds=120, **AS_PULSAR)
    world.publish(PLAIN, b"a")
    world.subscribe(named("subscribed"))
    assert look(world, 2) == ["plain", "subscribed"]
    assert look(world) == ["subscribed"]
    assert look(world, 5) == ["subscribed"]


def test_use_begins_the_time_anew() -> None:
    world = NamedWorld(**AS_PULSAR)
    world.topic(PLAIN)
    look(world)
    world.publish(PLAIN, b"a")  # a producer came and left
    assert look(world) == ["plain"]
    _, producer = world.producer(PLAIN)
    assert look(world, 3) == ["plain"]
    producer.close()
    assert look(world) == ["plain"]
    assert look(world) == []


def test_messages_that_no_subscription_has_acknowledged_keep_their_topic() -> None:
    world = NamedWorld(magnetar_unread_messages_retention_minutes=3)
    world.publish(PLAIN, b"a")
    world.topic(named("empty"))
    assert look(world, 2) == ["plain"]
    assert look(world) == ["plain"]
    assert look(world) == []


def test_a_topic_whose_last_subscription_has_read_everything_goes_with_it() -> None:
    world = NamedWorld()
    for name, read in ((PLAIN, 2), (named("half-read"), 1)):
        _, consumer = world.consumer(name)
        world.publish(name, b"a", b"b")
        assert isinstance(consumer.subscription, Subscription)
        consumer.subscription.skip(range(read))
        world.do(consumer.subscription.unsubscribe(consumer, False))
    assert look(world, 2) == ["half-read"]


def test_messages_from_before_the_only_subscription_keep_their_topic() -> None:
    world = NamedWorld(broker_delete_inactive_topics_mode=CAUGHT_UP)
    world.publish(PLAIN, b"a")
    world.subscribe(PLAIN)  # from the latest message on
    assert look(world, 3) == ["plain"]


def test_a_policy_of_inactive_topics_counts_alone() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    world.publish(named("other"), b"a")
    rule = InactiveTopics(True, WITHOUT, 1)
    world.do(world.directory.enforcement.set(PLAIN, {INACTIVE_TOPICS: rule}))
    assert look(world, 2) == ["other"]


def test_topics_whose_subscriptions_have_consumed_everything() -> None:
    world = NamedWorld(broker_delete_inactive_topics_mode=CAUGHT_UP, **AS_PULSAR)
    world.publish(PLAIN, b"a")
    connection, consumer = world.consumer(PLAIN)
    assert look(world, 3) == ["plain"]
    assert isinstance(consumer.subscription, Subscription)
    consumer.subscription.skip(range(1))
    assert look(world, 2) == []
    assert connection.closed_consumers == [1]  # consumers do not keep it


def test_what_is_retained_keeps_its_topic() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    world.topic(named("empty"))
    for name in (PLAIN, named("empty")):
        world.do(world.directory.enforcement.set(name, {RETENTION: Retention(3, -1)}))
    assert look(world, 2) == ["plain"]
    assert look(world) == ["plain"]
    assert look(world) == []


def test_policies_and_settings_switch_it_off_and_on() -> None:
    world = NamedWorld(broker_delete_inactive_topics_enabled=False)
    world.topic(PLAIN)
    world.topic(named("other"))
    assert look(world, 3) == ["other", "plain"]
    rule = InactiveTopics(True, WITHOUT, 1)
    world.do(world.directory.enforcement.set(PLAIN, {INACTIVE_TOPICS: rule}))
    assert look(world, 2) == ["other"]


def test_a_rule_that_cannot_be_read_keeps_its_topic_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = NamedWorld()
    for local in ("before", "damaged", "later"):
        world.topic(named(local))
    damaged = json.dumps({INACTIVE_TOPICS.name: "never"}).encode()
    world.do(world.metadata.put(topic_policies_key(named("damaged")), damaged))
    world.restart()
    for local in ("before", "damaged", "later"):
        world.topic(named(local))
    assert look(world, 2) == ["damaged"]
    warnings = {one.getMessage() for one in caplog.records if one.levelname == "WARNING"}
    assert any("damaged is inactive: " in one for one in warnings)


def test_system_topics_stay() -> None:
    world = NamedWorld()
    world.topic(named("__change_events"))
    look(world, 3)
    assert world.do(world.directory.catalogue.exists(named("__change_events")))


def test_a_topic_that_is_not_persistent_is_dropped() -> None:
    world = NamedWorld()
    name = named("fleeting", domain="non-persistent")
    _, consumer = world.consumer(name)
    assert look(world, 3) == ["fleeting"]
    consumer.close()
    assert look(world, 2) == []


@pytest.mark.parametrize("parent_too", [False, True])
def test_the_last_partition_takes_its_topic_along_where_that_is_wanted(parent_too: bool) -> None:
    world = NamedWorld(
        broker_delete_inactive_partitioned_topic_metadata_enabled=parent_too, **AS_PULSAR
    )
    world.part(PARTED, 2)
    world.publish(PARTED.with_partition(0), b"a")
    _, producer = world.producer(PARTED.with_partition(1))
    look(world, 2)
    assert not world.do(world.directory.catalogue.exists(PARTED.with_partition(0)))
    assert world.do(world.directory.catalogue.partitions(PARTED)) == 2
    producer.close()
    look(world, 2)
    assert world.do(world.directory.catalogue.partitions(PARTED)) == (0 if parent_too else 2)


def test_a_consumer_that_joins_during_the_decision_keeps_it() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    look(world)
    gate = world.clock.promise()

    async def hold() -> None:
        async with world.directory.locks.held(PLAIN):
            await gate

    world.begin(hold())
    looking = world.begin(world.broker.jobs.run(INACTIVE))
    world.clock.pump()
    connection, _ = world.producer(PLAIN)
    gate.set_result(None)
    world.clock.pump()
    looking.result()
    assert world.names() == ["plain"] and connection.closed_producers == []


def test_a_use_is_none_only_without_producers() -> None:
    assert UNUSED.is_none(WITHOUT)
    assert not replace(UNUSED, producers=True).is_none(CAUGHT_UP)
