"""The index and the time that the broker adds to entries: what counts, and what goes by them."""

from dataclasses import replace

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import NEVER
from fakes.topics import TopicWorld, entry
from magnetar_broker.config.domains import MetadataInterceptor
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.broker_metadata import broker_metadata_of, without_broker_metadata
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits

BOTH = frozenset(MetadataInterceptor)
BY_TWO = RollLimits(max_entries=2, min_age_ms=0)


def world_of(
    interceptors: frozenset[MetadataInterceptor] = BOTH, roll: RollLimits = NEVER
) -> TopicWorld:
    world = TopicWorld(roll=roll)
    switch(world, interceptors)
    return world


def switch(world: TopicWorld, interceptors: frozenset[MetadataInterceptor]) -> None:
    """Restart the broker with other interceptors."""
    world.do(world.topic.close())
    world.limits = TopicLimits(metadata_interceptors=interceptors, failover_delay_ms=0)
    world.engine = replace(world.engine, adds_broker_metadata=bool(interceptors))
    world.reload()


def added(world: TopicWorld) -> list[tuple[int | None, int | None]]:
    """Return index and time of every entry that is stored."""
    found: list[tuple[int | None, int | None]] = []
    for stored in world.read_all(world.topic.log):
        one = broker_metadata_of(stored)
        index = one.index if one is not None and one.HasField("index") else None
        has_time = one is not None and one.HasField("broker_timestamp")
        found.append((index, one.broker_timestamp if one is not None and has_time else None))
    return found


def indexes(world: TopicWorld) -> list[int | None]:
    return [index for index, _ in added(world)]


def test_the_index_is_that_of_the_last_message_of_an_entry() -> None:
    world = world_of()
    world.publish(entry(1), entry(1, batch=3), entry(1), counts=[1, 3, 1])
    world.publish(entry(1))
    assert indexes(world) == [0, 3, 4, 5]


def test_the_time_is_the_clock_of_the_broker() -> None:
    world = world_of()
    world.publish(entry(1))
    first = world.clock.now_ms()
    world.clock.advance(5)
    world.publish(entry(1))
    assert [time for _, time in added(world)] == [first, world.clock.now_ms()]
    assert world.clock.now_ms() > first


@pytest.mark.parametrize(
    ("interceptor", "has_index", "has_time"),
    [
        (MetadataInterceptor.INDEX, True, False),
        (MetadataInterceptor.BROKER_TIMESTAMP, False, True),
    ],
)
def test_one_of_them_alone(
    interceptor: MetadataInterceptor, has_index: bool, has_time: bool
) -> None:
    world = world_of(frozenset({interceptor}))
    world.publish(entry(1))
    [(index, time)] = added(world)
    assert (index is not None, time is not None) == (has_index, has_time)


def test_what_is_added_belongs_to_no_producer() -> None:
    """What a client may have pending is given back as it was taken."""
    world = world_of()
    client = RecordingConnection()
    producer = world.producer(client)
    payload = entry(1)
    sends = world.send(producer, payload)
    world.clock.pump()
    assert client.published_bytes == len(payload)
    assert (producer.bytes_in, world.topic.appender.bytes_in) == (len(payload), len(payload))
    assert sends.size > len(payload)
    assert world.topic.log.open_bytes == sends.size


# Counting ---------------------------------------------------------------------------------


def test_counting_goes_on_after_a_restart_and_after_a_crash() -> None:
    world = world_of()
    world.publish(entry(1, batch=3), counts=[3])
    world.do(world.topic.close())
    world.reload()
    world.publish(entry(1))
    world.crash()
    world.publish(entry(1))
    assert indexes(world) == [2, 3, 4]


def test_counting_goes_on_over_segments_and_after_they_were_deleted() -> None:
    world = world_of(roll=BY_TWO)
    for _ in range(5):
        world.publish(entry(1, batch=2), counts=[2])
        world.do(world.topic.log.rollover.idle())
    assert len(world.topic.log.segments) > 1
    assert world.do(world.topic.log.trim(4)) == 2
    assert indexes(world) == [9]
    world.crash()
    world.publish(entry(1))
    assert indexes(world) == [9, 10]


def test_it_can_be_switched_on_and_off() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    assert not world.topic.log.record.has_broker_metadata
    switch(world, BOTH)
    world.publish(entry(1, batch=2), counts=[2])
    switch(world, frozenset())
    world.publish(entry(1))
    switch(world, BOTH)
    world.publish(entry(1))
    assert indexes(world) == [None, 2, None, 4]


# Who gets it --------------------------------------------------------------------------------


def received(world: TopicWorld, takes: bool, **asked: object) -> list[bytes]:
    client = RecordingConnection()
    client.takes_broker_metadata = takes
    world.subscribe(client, permits=100, earliest=True, **asked)
    world.clock.pump()
    return [got.payload for got in client.messages]


@pytest.mark.parametrize("sub_type", range(4))
def test_a_client_gets_it_only_if_it_asks(sub_type: int) -> None:
    world = TopicWorld()
    world.publish(entry(1, payload=b"a"), entry(1, payload=b"b"))
    switch(world, BOTH)
    world.publish(entry(1, payload=b"c"), entry(1, payload=b"d"))
    stored = world.read_all(world.topic.log)
    plain = [entry(1, payload=one) for one in (b"a", b"b", b"c", b"d")]
    assert [without_broker_metadata(one) for one in stored] == plain != stored
    assert received(world, True, sub="asks", sub_type=sub_type) == stored
    assert received(world, False, sub="does-not", sub_type=sub_type) == plain


def test_subscriptions_that_share_frames_get_each_their_own() -> None:
    world = world_of()
    clients = [RecordingConnection() for _ in range(4)]
    for number, client in enumerate(clients):
        client.takes_broker_metadata = number % 2 == 0
        world.subscribe(client, sub=f"s{number}", consumer_id=1, permits=10)
    world.publish(entry(1), entry(1))
    stored = world.read_all(world.topic.log)
    plain = [entry(1)] * 2
    for number, client in enumerate(clients):
        expected = plain if number % 2 else stored
        assert [got.payload for got in client.messages] == expected


def test_entries_with_it_are_sent_without_after_it_was_switched_off() -> None:
    world = world_of()
    world.publish(entry(1))
    switch(world, frozenset())
    assert received(world, False) == [entry(1)]


# What goes by the broker's time -----------------------------------------------------------------


def test_seeks_and_ages_go_by_the_time_of_the_broker() -> None:
    world = world_of()
    world.publish(entry(1))
    middle = world.clock.now_ms() + 1
    world.clock.advance(5)
    world.publish(entry(1))
    subscription = world.subscribe(sub="s", earliest=True).subscription
    counter = world.topic.subscriptions.by_name["s"].counter
    assert world.do(counter.oldest_ms()) == middle - 1
    world.do(subscription.seek_to_time(middle))
    assert world.topic.subscriptions.by_name["s"].next_unacked() == 1


# The record -------------------------------------------------------------------------------------


def test_a_log_says_that_it_has_such_entries_before_it_gets_any() -> None:
    world = world_of()
    assert world.topic.log.record.has_broker_metadata
    switch(world, frozenset())
    assert world.topic.log.record.has_broker_metadata


def test_segments_of_such_a_log_know_how_many_messages_precede_them() -> None:
    world = world_of(roll=BY_TWO)
    for _ in range(5):
        world.publish(entry(1, batch=2), counts=[2])
        world.do(world.topic.log.rollover.idle())
    log: Log = world.topic.log
    origins = [world.do(log.engine.store.origin(one.id)) for one in log.segments]
    assert [one.first_messages for one in origins if one is not None] == [0, 4, 8]
    plain = TopicWorld()
    plain.publish(entry(1))
    [segment] = plain.topic.log.segments
    origin = plain.do(plain.engine.store.origin(segment.id))
    assert origin is not None and origin.first_messages is None
