"""Figures gathered from a broker on stores in memory."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.runs import append
from fakes.topics import EXCLUSIVE, SHARED, entry
from fakes.world import ManualClock, ManualTasks, run, start
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Backlog, SubscribeRequest
from magnetar_broker.metrics.figures import PAUSE_EVERY, Figures, gather
from magnetar_broker.names.ownership import SoleOwner
from magnetar_broker.standalone import standalone
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic.topic import Topic
from magnetar_broker.watchdog import Stalls
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.memory.memory_metadata import MemoryMetadata
from magnetar_storage.memory.memory_store import MemoryStore

SERVICE_URL = "pulsar://host.test:6650"


async def unreadable() -> Backlog:
    """Of a subscription on a disk that is gone."""
    raise Unavailable("the disk is gone")


class World:
    """A broker, and the hand that moves it."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        engine = Engine(
            MemoryStore(self.clock),
            MemoryMetadata(self.clock),
            EntryCache(1 << 20),
            self.clock,
            ManualTasks(self.clock),
        )
        self.directory, self.broker = standalone(
            Settings(**settings), engine, SoleOwner(SERVICE_URL)
        )
        run(self.broker.start(), self.clock)
        self.clock.pump()

    def topic(self, name: str) -> Topic:
        topic = run(self.broker.topic(TopicName.parse(name), create=True), self.clock)
        assert isinstance(topic, Topic)
        run(topic.log.rollover.start_writing(), self.clock)
        return topic

    def subscribe(self, topic: Topic, name: str) -> Subscription:
        return run(topic.subscriptions.create(name, topic.log.first_offset, {}), self.clock)

    def publish(self, topic: Topic, payloads: list[bytes], counts: list[int]) -> None:
        errors: list[BaseException | None] = []
        append(topic.log, payloads, counts, errors.append)
        self.clock.pump()
        assert errors == [None]

    def figures(self) -> Figures:
        return run(gather(self.broker, SERVICE_URL), self.clock)


def test_an_idle_broker() -> None:
    figures = World().figures()
    assert (figures.cluster, figures.broker, figures.topics) == ("standalone", "host.test", ())
    assert figures.by_topic


def test_backlogs_are_messages_and_storage_is_bytes() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    billing, _ = world.subscribe(topic, "billing"), world.subscribe(topic, "audit")
    world.publish(topic, [b"a" * 10, b"b" * 20], [3, 5])
    billing.cursor.ack([0])
    (found,) = world.figures().topics
    assert (found.name, found.namespace) == (str(topic.name), "public/default")
    assert {one.name: one.backlog for one in found.subscriptions} == {
        "billing": Backlog(messages=5, entries=1, size=15),
        "audit": Backlog(messages=8, entries=2, size=30),
    }
    assert found.load.backlog == 13
    assert found.load.backlog_bytes == 30
    assert found.load.storage_bytes == 30
    assert (found.load.topics, found.load.subscriptions, found.load.consumers) == (1, 2, 0)


def test_ages_are_those_of_the_oldest_unacknowledged_message() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    names = ("behind", "ahead", "done")
    _, ahead, done = (world.subscribe(topic, name) for name in names)
    now_ms = world.clock.now_ms()
    world.publish(topic, [entry(now_ms - 9000), entry(now_ms - 2500)], [1, 1])
    ahead.cursor.ack([0])
    done.cursor.ack([0, 1])
    (found,) = world.figures().topics
    ages = {one.name: one.age_seconds for one in found.subscriptions}
    assert ages == {"behind": 9.0, "ahead": 2.5, "done": 0.0}
    assert found.load.backlog_age_seconds == 9.0
    unreadable = world.topic("persistent://public/default/unreadable")
    world.subscribe(unreadable, "sub")
    world.publish(unreadable, [b"no metadata"], [1])
    found = world.figures().topics[-1]
    assert (found.subscriptions[0].age_seconds, found.load.backlog_age_seconds) == (None, None)


def test_stalls_are_those_of_the_watchdog() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    connection = RecordingConnection()
    request = SubscribeRequest("sub", EXCLUSIVE, 1, "consumer", earliest=True)
    consumer = run(topic.subscriptions.subscribe(connection, request), world.clock)
    connection.room = False
    consumer.subscription.flow(consumer, 9)
    world.publish(topic, [entry(1)], [1])
    world.clock.advance(12)
    assert Stalls("slow_connection", 1, 1) in world.figures().stalls
    connection.room = True
    consumer.subscription.wake()
    world.clock.advance(1)
    assert Stalls("slow_connection", 0, 1) in world.figures().stalls


def test_unacknowledged_messages_are_reported_only_where_they_are_counted() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    exclusive, shared = world.subscribe(topic, "exclusive"), world.subscribe(topic, "shared")
    run(exclusive.admit(SubscribeRequest("exclusive", EXCLUSIVE, 1, "")), world.clock)
    run(shared.admit(SubscribeRequest("shared", SHARED, 1, "")), world.clock)
    (found,) = world.figures().topics
    assert {one.name: one.unacked for one in found.subscriptions} == {
        "exclusive": None,
        "shared": 0,
    }


def test_a_backlog_that_cannot_be_read_spoils_only_the_sums_it_is_part_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(bootstrap_namespaces=("public/other",))
    damaged = world.topic("persistent://public/default/damaged")
    monkeypatch.setattr(world.subscribe(damaged, "broken"), "backlog", unreadable)
    world.subscribe(damaged, "whole")
    world.subscribe(world.topic("persistent://public/other/fine"), "whole")
    figures = world.figures()
    found = {topic.name: topic for topic in figures.topics}
    broken = found["persistent://public/default/damaged"]
    assert {one.name: one.backlog for one in broken.subscriptions} == {
        "broken": None,
        "whole": Backlog(0, 0),
    }
    assert broken.load.backlog is None
    assert broken.load.backlog_bytes is None
    *_, loads = figures.by_namespace(1)
    assert loads["public/default"].backlog is None
    assert loads["public/other"].backlog == 0
    assert loads["public/default"].subscriptions == 2


def test_counting_much_yields_to_other_work() -> None:
    world = World()
    for number in range(PAUSE_EVERY):
        world.topic(f"persistent://public/default/t{number}")
    turns: list[int] = []
    outcome = start(gather(world.broker, SERVICE_URL))
    assert not outcome.done()
    world.clock.soon(lambda: turns.append(1))
    world.clock.pump()
    assert outcome.done() and turns
    assert len(outcome.result().topics) == PAUSE_EVERY


def test_no_more_topics_are_counted_once_the_figures_are_not_wanted() -> None:
    world = World()
    for number in range(2 * PAUSE_EVERY):
        world.topic(f"persistent://public/default/t{number}")
    assert (
        len(run(gather(world.broker, SERVICE_URL, lambda: False), world.clock).topics)
        == PAUSE_EVERY
    )


def test_namespaces_only_when_the_settings_enable_them() -> None:
    assert not World(expose_topic_level_metrics_in_prometheus=False).figures().by_topic
