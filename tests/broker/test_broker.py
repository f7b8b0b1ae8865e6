"""The broker: loading and creating topics, dropping them, maintenance, closing."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE, NEVER, LogWorld
from fakes.publish_runs import publish
from fakes.world import ManualPromise
from magnetar_broker.base.errors import (
    AlreadyExists,
    BrokerError,
    NamespaceNotFound,
    NotAllowed,
    NotReady,
    TenantNotFound,
    TooManyRequests,
    TopicNotFound,
)
from magnetar_broker.config import Settings, TopicType
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.dispatch.consumer import SubscribeRequest
from magnetar_broker.limits.topic_limits import topic_limits
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.placement.ownership import Owner, SoleOwner
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.standalone import standalone
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskFull
from magnetar_storage.log.roll_limits import RollLimits

NAME = TopicName.parse("persistent://public/default/topic")
VOLATILE = TopicName.parse("non-persistent://public/default/topic")
Method = Callable[..., Awaitable[Any]]


class NobodysOwner(SoleOwner):
    """A broker that owns nothing."""

    async def owns(self, topic: TopicName) -> bool:
        return False

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        return Owner(ListenerUrls("pulsar://elsewhere:6650"), False)


class BrokerWorld(LogWorld):
    """A started broker; closing it and calling `start` again is a restart on the same data."""

    def __init__(self, roll: RollLimits = NEVER, **settings: Any) -> None:
        super().__init__(roll)
        self.settings = replace(Settings(), **settings)
        self.start()

    def start(self) -> None:
        self.directory, self.broker = standalone(
            self.settings, self.engine, SoleOwner("pulsar://here:6650")
        )
        self.do(self.broker.start())
        self.clock.pump()

    def topic(self, name: TopicName = NAME, create: bool = True) -> Topic:
        topic = self.do(self.broker.topic(name, create))
        assert isinstance(topic, Topic)
        return topic

    def publish(self, topic: Topic, *payloads: bytes) -> RecordingConnection:
        connection = RecordingConnection()
        producer = self.do(
            topic.producers.add(connection, ProducerRequest(1, self.broker.producer_name()))
        )
        sends = PublishRun(producer)
        sends.payloads, sends.counts = list(payloads), [1] * len(payloads)
        sends.sequence_ids = sends.highest_ids = list(range(len(payloads)))
        sends.size = sum(map(len, payloads))
        publish(sends)
        self.clock.pump()
        return connection

    def refused(self, name: TopicName, refusal: type[BrokerError], create: bool = True) -> str:
        with pytest.raises(refusal) as caught:
            self.do(self.broker.topic(name, create))
        return str(caught.value)


def slow(method: Method, gate: ManualPromise) -> Method:
    """Return the method with a delay until the gate is open."""

    async def slowly(*asked: Any) -> Any:
        await gate
        return await method(*asked)

    return slowly


def test_a_topic_is_loaded_once_however_many_ask() -> None:
    world = BrokerWorld()
    asking = [world.begin(world.broker.topic(NAME, True)) for _ in range(3)]
    world.clock.pump()
    topics = [one.result() for one in asking]
    assert topics[0] is topics[1] is topics[2] is world.topic()
    assert list(world.broker.topics) == [topics[0]]


def test_a_waiter_for_a_load_that_fails_loads_itself() -> None:
    world = BrokerWorld(allow_auto_topic_creation=True)
    gate = world.clock.promise()
    world.metadata.get = slow(world.metadata.get, gate)  # type: ignore[assignment]
    without = world.begin(world.broker.topic(NAME, False))
    creating = world.begin(world.broker.topic(NAME, True))
    gate.set_result(None)
    world.clock.pump()
    with pytest.raises(TopicNotFound):
        without.result()
    assert isinstance(creating.result(), Topic)


def test_a_topic_is_created_when_the_client_and_the_settings_allow_it() -> None:
    world = BrokerWorld()
    world.refused(NAME, TopicNotFound, create=False)
    world.topic()
    strict = BrokerWorld(allow_auto_topic_creation=False)
    strict.refused(NAME, TopicNotFound)


def test_a_stored_topic_needs_no_permission() -> None:
    world = BrokerWorld()
    world.publish(world.topic(), b"a")
    world.do(world.broker.close())
    world.settings = replace(world.settings, allow_auto_topic_creation=False)
    world.start()
    assert world.topic(create=False).log.end == 1


def test_kinds_of_topics_can_be_switched_off() -> None:
    world = BrokerWorld(enable_persistent_topics=False)
    assert "persistent" in world.refused(NAME, NotAllowed)
    world = BrokerWorld(enable_non_persistent_topics=False)
    assert "non-persistent" in world.refused(VOLATILE, NotAllowed)


def test_a_namespace_is_needed() -> None:
    world = BrokerWorld(bootstrap_namespaces=("mine/here",))
    elsewhere = TopicName.parse("persistent://their/own/topic")
    assert "PUT /admin/v2/tenants/their " in world.refused(elsewhere, TenantNotFound)
    elsewhere = TopicName.parse("persistent://mine/own/topic")
    assert "PUT /admin/v2/namespaces/mine/own " in world.refused(elsewhere, NamespaceNotFound)
    world.topic(TopicName.parse("persistent://mine/here/topic"))


def test_topics_of_others_are_not_opened() -> None:
    world = BrokerWorld()
    owner = NobodysOwner("pulsar://elsewhere:6650")
    world.directory, world.broker = standalone(world.settings, world.engine, owner)
    world.do(world.broker.start())
    assert "look it up again" in world.refused(NAME, NotReady)


def test_partitions_are_opened_and_their_parent_is_not() -> None:
    world = BrokerWorld(allow_auto_topic_creation=False)
    world.do(world.directory.catalogue.create_partitioned(NAME, Partitioned(2)))
    assert "one of its 2 partitions" in world.refused(NAME, NotAllowed)
    world.topic(NAME.with_partition(1), create=False)
    assert "has 2" in world.refused(NAME.with_partition(2), TopicNotFound)


def test_volatile_topics_need_permission_too() -> None:
    world = BrokerWorld()
    world.refused(VOLATILE, TopicNotFound, create=False)
    topic = world.do(world.broker.topic(VOLATILE, True))
    assert isinstance(topic, NonPersistentTopic)
    assert world.do(world.broker.topic(VOLATILE, False)) is topic
    strict = BrokerWorld(allow_auto_topic_creation=False)
    strict.refused(VOLATILE, TopicNotFound)
    strict.do(strict.directory.catalogue.create_partitioned(VOLATILE, Partitioned(2)))
    partition = strict.do(strict.broker.topic(VOLATILE.with_partition(1), False))
    assert isinstance(partition, NonPersistentTopic)


# Partitions and names -------------------------------------------------------------------


def partitions(world: BrokerWorld, name: TopicName, create: bool) -> int:
    return world.do(world.directory.partitions(name, create))


def test_partitions_of_what_exists() -> None:
    world = BrokerWorld()
    world.topic()
    assert partitions(world, NAME, False) == 0
    other = TopicName.parse("persistent://public/default/parted")
    world.do(world.directory.catalogue.create_partitioned(other, Partitioned(3)))
    assert partitions(world, other, False) == 3
    assert partitions(world, other.with_partition(2), False) == 0
    with pytest.raises(TopicNotFound):
        partitions(world, other.with_partition(3), False)


def test_partitions_of_what_does_not() -> None:
    world = BrokerWorld()
    with pytest.raises(TopicNotFound):
        partitions(world, NAME, False)
    assert partitions(world, NAME, True) == 0
    strict = BrokerWorld(allow_auto_topic_creation=False)
    with pytest.raises(TopicNotFound):
        partitions(strict, NAME, True)


def test_partitioned_topics_are_made_when_that_is_the_rule() -> None:
    world = BrokerWorld(
        allow_auto_topic_creation_type=TopicType.PARTITIONED, default_num_partitions=4
    )
    asking = [world.begin(world.directory.partitions(NAME, True)) for _ in range(2)]
    world.clock.pump()
    assert [one.result() for one in asking] == [4, 4]
    for suffix in ("-DLQ", "-RETRY"):
        letters = TopicName.parse(f"persistent://public/default/topic{suffix}")
        assert partitions(world, letters, True) == 0


@pytest.mark.parametrize("name", [NAME, VOLATILE])
def test_a_topic_that_is_loaded_is_not_made_a_partitioned_one(name: TopicName) -> None:
    world = BrokerWorld()
    world.do(world.broker.topic(name, True))
    with pytest.raises(AlreadyExists, match="not partitioned"):
        world.do(world.directory.creation.partitioned(name, Partitioned(3)))
    assert partitions(world, name, False) == 0


@pytest.mark.parametrize("name", [NAME, VOLATILE])
def test_of_a_plain_and_a_partitioned_topic_made_at_once_the_first_one_wins(
    name: TopicName,
) -> None:
    for plain_first in (True, False):
        world = BrokerWorld()
        plain, parted = (
            world.broker.topic(name, True),
            world.directory.creation.partitioned(name, Partitioned(3)),
        )
        gate = world.clock.promise()
        world.metadata.put = slow(world.metadata.put, gate)  # type: ignore[assignment]
        asking = [world.begin(one) for one in ((plain, parted) if plain_first else (parted, plain))]
        gate.set_result(None)
        world.clock.pump()
        asking[0].result()
        with pytest.raises(AlreadyExists if plain_first else NotAllowed):
            asking[1].result()
        assert partitions(world, name, False) == (0 if plain_first else 3)


def test_names_are_what_is_stored_and_what_is_loaded() -> None:
    world = BrokerWorld()
    world.topic()
    world.do(world.broker.topic(VOLATILE, True))
    world.topic(TopicName.parse("persistent://public/default/__change_events"))

    def names(persistent: bool, volatile: bool) -> list[str]:
        return world.do(world.directory.names("public/default", persistent, volatile))

    assert names(True, False) == [str(NAME)]
    assert names(False, True) == [str(VOLATILE)]
    assert names(True, True) == sorted([str(NAME), str(VOLATILE)])
    assert world.do(world.directory.names("public/other", True, True)) == []


def test_lookups_are_limited() -> None:
    world = BrokerWorld(max_concurrent_lookup_request=2)
    lookup = world.directory.lookup
    with lookup(), lookup(), pytest.raises(TooManyRequests), lookup():
        pass
    with world.directory.lookup():
        pass


def test_names_of_producers_differ() -> None:
    world = BrokerWorld()
    names = {world.broker.producer_name() for _ in range(100)}
    world.start()  # at the same time of the clock
    names.update(world.broker.producer_name() for _ in range(100))
    assert len(names) == 200
    # Each message carries its name: the official C++ client reserves space for this length.
    assert max(map(len, names)) <= len("standalone-") + 10


# Failing, maintenance, the end ---------------------------------------------------------------


def test_a_topic_whose_log_failed_is_loaded_again() -> None:
    world = BrokerWorld()
    topic = world.topic()
    connection = world.publish(topic, b"a")
    world.store.break_writers(DiskFull("no room"))
    world.publish(topic, b"lost")
    assert connection.closed_producers == [1]
    assert list(world.broker.topics) == []
    again = world.topic()
    assert again is not topic
    assert again.log.end == 1
    topic.drop(DiskFull("reported twice"))
    assert list(world.broker.topics) == [again]


TRIMMED: Mapping[str, Any] = {
    "retention_check_interval_in_seconds": 10,
    "magnetar_unread_messages_retention_minutes": 0,
}
"""Settings of a broker that looks every 10 seconds for closed ledgers that need not be kept."""


def test_consumed_segments_are_trimmed_now_and_then() -> None:
    world = BrokerWorld(roll=BY_THREE, **TRIMMED)
    topic = world.topic()
    for _ in range(2):
        world.publish(topic, b"a", b"b", b"c")
    assert topic.log.first_offset == 0
    world.clock.advance(10)
    assert topic.log.first_offset == 6
    world.publish(topic, b"a", b"b", b"c")
    world.clock.advance(10)
    assert topic.log.first_offset == 9


def test_a_topic_that_cannot_be_trimmed_does_not_keep_the_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = BrokerWorld(roll=BY_THREE, **TRIMMED)
    first, second = world.topic(), world.topic(TopicName.parse("persistent://public/default/x"))
    for topic in (first, second):
        world.publish(topic, b"a", b"b", b"c")
    deleting, stuck = world.store.delete, first.log.segments[0].id

    async def delete(segment: int) -> None:
        if segment == stuck:
            raise DiskFull("no room even for that")
        await deleting(segment)

    world.store.delete = delete  # type: ignore[method-assign]
    world.clock.advance(10)
    assert "could not be trimmed" in caplog.text
    assert second.log.first_offset == 3


def test_a_defect_does_not_end_the_tidying() -> None:
    world = BrokerWorld(roll=BY_THREE, **TRIMMED)
    topic = world.topic()
    world.publish(topic, b"a", b"b", b"c")
    trim, topic.delays.trim = topic.delays.trim, broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.clock.advance(10)
    topic.delays.trim = trim  # type: ignore[method-assign]
    world.clock.advance(10)
    assert topic.log.first_offset == 3


def test_a_defect_does_not_end_the_measuring() -> None:
    world = BrokerWorld(stats_update_frequency_in_secs=2)
    topic = world.topic()
    world.publish(topic, b"abc")
    totals = topic.totals
    topic.totals = lambda: (1 // 0, 0, 0, 0)  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.clock.advance(2)
    topic.totals = totals  # type: ignore[method-assign]
    world.clock.advance(2)
    assert topic.meter.rates == (0.5, 1.5, 0.0, 0.0)


async def broken() -> None:
    """Raise an error that does not come from storage."""
    raise ZeroDivisionError


def test_rates_are_measured() -> None:
    world = BrokerWorld(stats_update_frequency_in_secs=2)
    topic = world.topic()
    request = SubscribeRequest("sub", 0, 1, "c")
    consumer = world.do(topic.subscriptions.subscribe(RecordingConnection(), request))
    consumer.subscription.flow(consumer, 100)
    world.publish(topic, b"abc", b"def")
    world.clock.advance(2)
    assert topic.meter.rates == (1.0, 3.0, 1.0, 3.0)
    assert consumer.meter.rates == (1.0, 3.0, 0.0, 0.0, 0.0)
    world.clock.advance(2)
    assert topic.meter.rates == (0.0, 0.0, 0.0, 0.0)


def test_closing_disconnects_all_and_admits_no_other() -> None:
    world = BrokerWorld(retention_check_interval_in_seconds=1, stats_update_frequency_in_secs=1)
    connection = world.publish(world.topic(), b"a")
    world.do(world.broker.topic(VOLATILE, True))
    world.do(world.broker.close())
    assert connection.closed_producers == [1]
    assert list(world.broker.topics) == []
    assert "starting or stopping" in world.refused(NAME, NotReady)
    world.clock.advance(5)
    world.start()
    assert world.topic().log.end == 1


def test_closing_waits_for_what_is_being_loaded() -> None:
    world = BrokerWorld()
    world.publish(world.topic(), b"a")
    world.do(world.broker.close())
    world.start()
    gate = world.clock.promise()
    world.metadata.get = slow(world.metadata.get, gate)  # type: ignore[assignment]
    loading = world.begin(world.broker.topic(NAME, True))
    closing = world.begin(world.broker.close())
    assert not closing.done()
    gate.set_result(None)
    world.clock.pump()
    closing.result()
    assert loading.result().closed
    assert list(world.broker.topics) == []


def test_a_topic_that_cannot_be_sealed_is_reported_and_recovered_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = BrokerWorld()
    world.publish(world.topic(), b"a")
    other = TopicName.parse("persistent://public/default/z")
    connection = world.publish(world.topic(other), b"b")

    async def fail(writer: object) -> None:
        raise DiskFull("no room")

    world.topic().log.rollover.settle = fail  # type: ignore[method-assign]
    world.do(world.broker.close())
    assert "could not be sealed" in caplog.text
    assert connection.closed_producers == [1]
    world.start()
    assert world.topic().log.end == world.topic(other).log.end == 1


def test_limits_come_from_the_settings() -> None:
    settings = replace(Settings(), max_producers_per_topic=3, default_retention_size_in_mb=7)
    limits = topic_limits(settings)
    assert (limits.max_producers, limits.retention.megabytes) == (3, 7)
