"""Figures gathered from a broker on stores in memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore
from fakes.publish_runs import publish
from fakes.runs import append
from fakes.topics import EXCLUSIVE, SHARED, entry
from fakes.world import ManualClock, ManualTasks, run, start
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.dispatch.consumer import Backlog, Consumer, SubscribeRequest
from magnetar_broker.metrics.figures import Figures, Quotas, age_seconds
from magnetar_broker.metrics.gathering import (
    GATHERED,
    PIECE,
    SERIES_OF_SUBSCRIPTION,
    SERIES_OF_TOPIC,
    SUBSCRIPTIONS,
    Gatherer,
)
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.policies.table import BACKLOG_QUOTA_SIZE
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.standalone import standalone
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.topic import Topic
from magnetar_broker.watchdog import Stalls
from magnetar_proto.acks import Ack
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine

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
        self.gatherer = Gatherer(self.broker)
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

    def figures(self, is_wanted: Callable[[], bool] = lambda: True) -> Figures:
        gathering = self.gatherer.gather(SERVICE_URL, is_wanted)
        return run(gathering, self.clock, self._later)

    def _later(self) -> bool:
        """A pause is over."""
        self.clock.advance(0.001)
        return True


def test_an_idle_broker() -> None:
    figures = World().figures()
    assert (figures.cluster, figures.broker, list(figures.topics)) == (
        "standalone",
        "host.test",
        [],
    )
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
    ages = {one.name: age_seconds(one.oldest_ms, now_ms) for one in found.subscriptions}
    assert ages == {"behind": 9.0, "ahead": 2.5, "done": 0.0}
    assert age_seconds(found.load.oldest_ms, now_ms) == 9.0
    unreadable = world.topic("persistent://public/default/unreadable")
    world.subscribe(unreadable, "sub")
    world.publish(unreadable, [b"no metadata"], [1])
    found = world.figures().topics[-1]
    assert (found.subscriptions[0].oldest_ms, found.load.oldest_ms) == (None, None)


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
    *_, loads = figures.by_namespace(1, figures.topics)
    assert loads["public/default"].backlog is None
    assert loads["public/other"].backlog == 0
    assert loads["public/default"].subscriptions == 2


def test_counting_much_yields_to_other_work() -> None:
    world = World()
    for number in range(PIECE // GATHERED):
        world.topic(f"persistent://public/default/t{number}")
    outcome = start(world.gatherer.gather(SERVICE_URL))
    world.clock.pump()
    assert not outcome.done()
    world.clock.advance(0.01)
    assert outcome.done()
    assert len(outcome.result().topics) == PIECE // GATHERED


class Paused:
    """A topic of many subscriptions with a message each, and what happens while it is gathered."""

    def __init__(self) -> None:
        self.world = World()
        topic = self.world.topic("persistent://public/default/orders")
        names = [f"s{number:02}" for number in range(3 * SUBSCRIPTIONS)]
        self.subscriptions = [self.world.subscribe(topic, name) for name in names]
        self.world.publish(topic, [b"message"], [1])
        self.pauses = 0

    def backlogs(self, act: Callable[[], None] = lambda: None) -> list[int]:
        """Return the messages of each subscription's backlog; `act` in the first pause."""

        async def after() -> None:
            self.pauses += 1
            if self.pauses == 1:
                act()

        gathering = self.world.gatherer.gather(SERVICE_URL, after=after)
        topics = run(gathering, self.world.clock).topics
        return [one.backlog.messages for one in topics[0].subscriptions if one.backlog is not None]

    def acknowledge(self) -> None:
        for one in self.subscriptions:
            one.cursor.ack([0])
        self.subscriptions[0].topic.traffic.change()

    def delete(self) -> None:
        for one in self.subscriptions:
            start(one.delete())
        self.world.clock.pump()


def test_counting_many_subscriptions_of_a_topic_yields_to_other_work() -> None:
    paused = Paused()
    assert paused.backlogs() == [1] * 3 * SUBSCRIPTIONS
    assert paused.pauses == 3, "two within the topic, and one after it"


def test_changes_while_a_topic_is_gathered_are_in_the_next_figures() -> None:
    paused = Paused()
    found = paused.backlogs(paused.acknowledge)
    assert found == [1] * SUBSCRIPTIONS + [0] * 2 * SUBSCRIPTIONS
    assert paused.backlogs() == [0] * 3 * SUBSCRIPTIONS


def test_subscriptions_may_be_deleted_while_their_topic_is_gathered() -> None:
    paused = Paused()
    assert len(paused.backlogs(paused.delete)) == 3 * SUBSCRIPTIONS
    assert paused.backlogs() == []


def test_no_more_topics_are_counted_once_the_figures_are_not_wanted() -> None:
    world = World()
    for number in range(2 * PIECE // GATHERED):
        world.topic(f"persistent://public/default/t{number}")
    assert len(world.figures(lambda: False).topics) == PIECE // GATHERED


def test_namespaces_only_when_the_settings_enable_them() -> None:
    assert not World(expose_topic_level_metrics_in_prometheus=False).figures().by_topic


def shared(world: World, topic: Topic, permits: int = 10) -> Consumer:
    request = SubscribeRequest("sub", SHARED, 1, "consumer", earliest=True)
    consumer = run(topic.subscriptions.subscribe(RecordingConnection(), request), world.clock)
    consumer.subscription.flow(consumer, permits)
    return consumer


def test_reads_are_counted_by_where_the_entries_are() -> None:
    world = World(stats_update_frequency_in_secs=2)
    topic = world.topic("persistent://public/default/orders")
    now_ms = world.clock.now_ms()
    world.publish(topic, [entry(now_ms)] * 6, [1] * 6)
    shared(world, topic)
    world.clock.pump()
    world.clock.advance(2)
    load = world.figures().topics[0].load
    assert (load.rate_read, load.rate_read_from_disk) == (3, 0)
    runs = world.figures().runs
    assert (runs["cache"].sum, runs["disk"].sum) == (6, 0)
    assert 0 < runs["cache"].buckets[-1][1] <= 6
    world.clock.advance(2)
    assert world.figures().topics[0].load.rate_read == 0


def test_a_topic_that_is_shown_alone_again_has_its_subscriptions() -> None:
    world = World(magnetar_max_metric_series=1)
    world.subscribe(world.topic("persistent://public/default/orders"), "sub")
    assert [one.subscriptions for one in world.figures().others] == [()]
    topic_host = world.broker.topic_host
    topic_host.settings = replace(topic_host.settings, magnetar_max_metric_series=0)
    (found,) = world.figures().topics
    assert [one.name for one in found.subscriptions] == ["sub"]


def test_topics_that_were_loaded_are_counted() -> None:
    world = World()
    world.topic("persistent://public/default/orders")
    loads = world.figures().loads
    assert (loads.times, loads.under_way) == (1, 0)


def changes(world: World, topic: Topic) -> list[Callable[[], object]]:
    """What can happen to a topic with a consumer, in order."""
    consumer = shared(world, topic)
    subscription = topic.subscriptions["sub"]
    now_ms = world.clock.now_ms()

    def publish_one() -> None:
        sends = PublishRun(producer)
        sends.payloads, sends.counts, sends.size = [entry(now_ms)], [1], 50
        sends.sequence_ids, sends.highest_ids = [0], [0]
        publish(sends)
        world.clock.pump()

    def acknowledge(entry_id: int) -> None:
        ledger, number = topic.log.position(entry_id)
        subscription.acks.acknowledge(consumer, Ack(1, 0, [(ledger, number, ())]), None)

    request = ProducerRequest(7, "producer")
    producer = run(topic.producers.add(RecordingConnection(), request), world.clock)
    return [
        publish_one,
        publish_one,
        publish_one,
        lambda: acknowledge(1),
        lambda: acknowledge(0),
        lambda: subscription.redeliver(consumer, [], None),
        lambda: subscription.skip(range(1, 3)),
        lambda: world.subscribe(topic, "other"),
        lambda: run(topic.subscriptions["other"].delete(), world.clock),
        lambda: run(subscription.seek(0), world.clock),
        consumer.close,
        lambda: topic.producers.remove(producer),
        lambda: world.clock.advance(world.broker.settings.stats_update_frequency_in_secs),
    ]


@pytest.mark.parametrize("limit", [0, 1])
def test_whatever_happens_to_a_topic_is_in_the_next_figures(limit: int) -> None:
    """What was gathered before is used again only where it is the same."""
    world = World(magnetar_max_metric_series=limit)
    topic = world.topic("persistent://public/default/orders")
    world.topic("persistent://public/default/idle")
    world.figures()
    for change in changes(world, topic):
        change()
        world.clock.pump()
        found = world.figures()
        topic.traffic.seen = None  # so that all is gathered
        again = world.figures()
        assert (found.topics, found.others) == (again.topics, again.others)


def test_a_topic_to_which_nothing_happened_is_not_gathered_again() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    shared(world, topic)
    (first,) = world.figures().topics
    (again,) = world.figures().topics
    assert again is first
    world.publish(topic, [entry(1)], [1])
    topic.traffic.change()
    (changed,) = world.figures().topics
    assert changed is not first


def test_topics_beyond_the_limit_are_added_up() -> None:
    world = World(magnetar_max_metric_series=SERIES_OF_TOPIC + SERIES_OF_SUBSCRIPTION)
    one, two, three = (world.topic(f"persistent://public/default/t{n}") for n in range(3))
    for topic in (one, two, three):
        world.subscribe(topic, "sub")
        topic.appender.messages_in = 10
    figures = world.figures()
    assert [topic.name for topic in figures.topics] == [str(one.name)]
    assert [topic.name for topic in figures.others] == [str(two.name), str(three.name)]
    assert figures.other_totals == {"public/default": (20, 0, 0, 0)}
    two.appender.messages_in += 5
    two.traffic.change()
    assert world.figures().other_totals == {"public/default": (25, 0, 0, 0)}
    run(two.close(), world.clock)
    world.broker.topics.drop(two)  # what it counted stays, so that the sum never falls
    assert world.figures().other_totals == {"public/default": (25, 0, 0, 0)}
    run(one.close(), world.clock)
    world.broker.topics.drop(one)
    figures = world.figures()
    assert [topic.name for topic in figures.topics] == [str(three.name)]
    assert not figures.others and not figures.other_totals
    assert figures.ended == {"public/default": (25, 0, 0, 0)}


def test_a_scrape_that_is_given_up_takes_nothing_from_the_totals_of_others() -> None:
    world = World(magnetar_max_metric_series=1, bootstrap_namespaces=("public/last",))
    number = PIECE // GATHERED + 1  # so that there is a pause before the end
    first = [world.topic(f"persistent://public/default/t{n}") for n in range(number)]
    last = world.topic("persistent://public/last/t")
    for topic in (*first, last):
        topic.appender.messages_in = 10
    expected = {"public/default": (10 * number, 0, 0, 0), "public/last": (10, 0, 0, 0)}
    assert world.figures().other_totals == expected
    for topic in first:
        topic.traffic.change()
    found = world.figures(lambda: False)
    assert "public/last" not in {topic.namespace for topic in found.others}
    assert world.figures().other_totals == expected


def test_what_changes_by_itself_is_in_the_next_figures() -> None:
    world = World()
    topic = world.topic("persistent://public/default/orders")
    consumer = shared(world, topic)
    assert isinstance(consumer.connection, RecordingConnection)
    consumer.connection.room = False
    world.publish(topic, [entry(1)], [1])
    topic.traffic.change()
    (found,) = world.figures().topics
    assert found.subscriptions[0].blocker == "slow_connection"
    consumer.connection.room = True  # no topic reports that
    assert not topic.traffic.changed
    (found,) = world.figures().topics
    assert found.subscriptions[0].blocker == "reading"


def test_quotas_are_those_of_the_policies() -> None:
    world = World(backlog_quota_default_limit_second=60)
    topic = world.topic("persistent://public/default/orders")
    (found,) = world.figures().topics
    assert found.quotas == Quotas(age=60)
    quota = BacklogQuota(1000, QuotaAction.PRODUCER_EXCEPTION)
    run(world.directory.enforcement.set(topic.name, {BACKLOG_QUOTA_SIZE: quota}), world.clock)
    world.clock.pump()
    (found,) = world.figures().topics
    assert found.quotas == Quotas(1000, 60)


def test_consumers_and_producers_are_gathered_where_they_are_shown() -> None:
    for shows in (True, False):
        world = World(
            expose_consumer_level_metrics_in_prometheus=shows,
            expose_producer_level_metrics_in_prometheus=shows,
        )
        topic = world.topic("persistent://public/default/orders")
        shared(world, topic, permits=7)
        run(topic.producers.add(RecordingConnection(), ProducerRequest(3, "producer")), world.clock)
        (found,) = world.figures().topics
        members = [(one.name, one.id, one.permits) for one in found.subscriptions[0].members]
        producers = [(one.name, one.id) for one in found.producers]
        assert members == ([("consumer", 1, 7)] if shows else [])
        assert producers == ([("producer", 3)] if shows else [])


def test_twins_are_shown_as_one_consumer() -> None:
    world = World(expose_consumer_level_metrics_in_prometheus=True)
    topic = world.topic("persistent://public/default/orders")
    for permits in (3, 4):
        shared(world, topic, permits)
    (found,) = world.figures().topics
    (one,) = found.subscriptions[0].members
    assert (one.name, one.permits, found.subscriptions[0].consumers) == ("consumer", 7, 2)
