"""The periodic work of a broker on its topics."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE, LogWorld
from fakes.topics import TopicWorld, entry
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.maintenance import QUOTAS
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import MESSAGE_TTL, RETENTION
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.standalone import standalone
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskFull

NAMESPACE = "public/default"
MINUTE = 60


class Kept(LogWorld):
    """A broker with some topics, each with a subscription without consumers."""

    def __init__(self, topics: int = 1, **settings: Any) -> None:
        super().__init__(BY_THREE)
        self.directory, self.broker = standalone(
            replace(Settings(), **settings), self.engine, SoleOwner("pulsar://x:1")
        )
        self.do(self.broker.start())
        self.topics = [self.opened(f"persistent://{NAMESPACE}/t{n}") for n in range(topics)]
        self.topic = self.topics[0]

    def opened(self, name: str) -> Topic:
        topic = self.do(self.broker.topic(TopicName.parse(name), True))
        assert isinstance(topic, Topic)
        self.do(topic.subscriptions.create("sub", 0, {}))
        return topic

    def publish(self, topic: Topic, entries: int = 1) -> RecordingConnection:
        connection = RecordingConnection()
        producer = self.do(topic.producers.add(connection, ProducerRequest(1, "p")))
        self.do(topic.log.rollover.start_writing())
        TopicWorld.send(producer, *[entry(self.clock.now_ms())] * entries)
        self.clock.pump()
        return connection

    def unacked(self, topic: Topic) -> int:
        return topic.subscriptions["sub"].counter.entries()


def test_messages_expire_every_five_minutes() -> None:
    world = Kept(ttl_duration_default_in_seconds=60)
    world.publish(world.topic, 2)
    world.clock.advance(5 * MINUTE - 1)
    assert world.unacked(world.topic) == 2
    world.clock.advance(1)
    assert world.unacked(world.topic) == 0


def test_a_clock_that_is_wrong_for_some_minutes_deletes_nothing() -> None:
    world = Kept(
        ttl_duration_default_in_seconds=60 * MINUTE,
        magnetar_unread_messages_retention_minutes=600,
        retention_check_interval_in_seconds=10,
        backlog_quota_default_limit_second=60 * MINUTE,
        backlog_quota_default_retention_policy=QuotaAction.CONSUMER_BACKLOG_EVICTION,
    )
    unread = world.do(world.broker.topic(TopicName.parse(f"persistent://{NAMESPACE}/unread"), True))
    assert isinstance(unread, Topic)
    for topic in (world.topic, unread):
        world.publish(topic, 3)
    world.clock.set_forward(365 * 24 * 60 * MINUTE * 1000)
    world.clock.advance(10 * MINUTE)
    assert world.unacked(world.topic) == 3
    assert unread.log.first_offset == 0
    world.clock.set_forward(-365 * 24 * 60 * MINUTE * 1000)
    world.clock.advance(10 * MINUTE)
    assert world.unacked(world.topic) == 3
    assert unread.log.first_offset == 0


def test_a_clock_that_stays_wrong_counts_after_a_while() -> None:
    world = Kept(ttl_duration_default_in_seconds=60 * MINUTE)
    world.publish(world.topic, 3)
    world.clock.set_forward(365 * 24 * 60 * MINUTE * 1000)
    world.clock.advance(25 * MINUTE)
    assert world.unacked(world.topic) == 0


def test_a_ttl_is_in_effect_when_setting_it_returns() -> None:
    world = Kept()
    world.publish(world.topic, 2)
    world.clock.advance(2 * MINUTE)
    world.do(world.directory.enforcement.set(NAMESPACE, {MESSAGE_TTL: 60}))
    assert world.unacked(world.topic) == 0


def test_what_expires_is_deleted() -> None:
    world = Kept(ttl_duration_default_in_seconds=60)
    world.publish(world.topic, 3)
    assert world.topic.log.size > 0
    world.clock.advance(10 * MINUTE)
    assert (world.topic.log.first_offset, world.topic.log.size) == (3, 0)


def test_retention_that_is_set_applies_to_the_next_round() -> None:
    world = Kept(retention_check_interval_in_seconds=10)
    world.do(world.directory.enforcement.set(NAMESPACE, {RETENTION: Retention(-1, -1)}))
    world.publish(world.topic, 3)
    world.topic.subscriptions["sub"].skip(range(3))
    world.clock.advance(30)
    assert world.topic.log.first_offset == 0
    world.do(world.directory.enforcement.set(world.topic.name, {RETENTION: Retention(0, 0)}))
    world.clock.advance(10)
    assert world.topic.log.first_offset == 3


def test_an_idle_topic_rolls_over_by_age_and_what_is_consumed_goes() -> None:
    world = Kept()
    world.publish(world.topic, 1)
    world.topic.subscriptions["sub"].skip(range(1))
    world.clock.advance(239 * MINUTE)
    assert world.topic.log.size > 0
    world.clock.advance(4 * MINUTE)
    assert world.topic.log.size == 0
    segments = world.topic.log.segments
    world.clock.advance(5 * 60 * MINUTE)
    assert world.topic.log.segments == segments, "an empty segment is left alone"


def test_quotas_are_kept_to_every_minute_and_when_asked() -> None:
    world = Kept(backlog_quota_default_limit_bytes=1)
    connection = world.publish(world.topic)
    world.clock.advance(MINUTE - 1)
    assert connection.closed_producers == []
    world.clock.advance(1)
    assert connection.closed_producers == [1]
    world = Kept(backlog_quota_default_limit_bytes=1)
    connection = world.publish(world.topic)
    world.do(world.broker.jobs.run(QUOTAS))
    assert connection.closed_producers == [1]


def test_unused_subscriptions_expire() -> None:
    world = Kept(subscription_expiration_time_minutes=30)
    world.clock.advance(30 * MINUTE)
    assert list(world.topic.subscriptions) == ["sub"]
    world.clock.advance(5 * MINUTE)
    assert list(world.topic.subscriptions) == []


def test_one_topic_in_trouble_keeps_no_other_from_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Kept(topics=3, ttl_duration_default_in_seconds=60)
    for topic in world.topics:
        world.publish(topic)

    async def broken(*_: object) -> int:
        raise DiskFull("no room even for that")

    world.topics[1].log.entries.first_where = broken  # type: ignore[assignment]
    world.clock.advance(5 * MINUTE)
    assert [world.unacked(topic) for topic in world.topics] == [0, 1, 0]
    assert f"messages of {world.topics[1].name} could not be expired" in caplog.text
