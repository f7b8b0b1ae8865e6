"""Exclusive and Failover subscriptions: order, the active consumer, and its changes."""

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, FAILOVER, TopicWorld
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from magnetar_proto.hashes import range_slot
from magnetar_storage.errors import Corrupt, Unavailable

PARTITION = "persistent://public/default/topic-partition-0"


def blocker(world: TopicWorld) -> Blocker:
    return world.subscription().dispatcher.blocker()


def notices(consumer: Consumer) -> list[bool]:
    """Return the ACTIVE_CONSUMER_CHANGE notices of a consumer."""
    connection = consumer.connection
    assert isinstance(connection, RecordingConnection)
    return [active for consumer_id, active in connection.active if consumer_id == consumer.id]


def test_everything_comes_in_order_as_permits_allow() -> None:
    world = TopicWorld(TopicLimits(max_read_entries=3))
    consumer = world.subscribe(permits=4)
    world.publish(*[b"x"] * 10)
    assert world.offsets(consumer) == [0, 1, 2, 3]
    assert blocker(world) is Blocker.NO_PERMITS
    world.flow(consumer, 100)
    assert world.offsets(consumer) == [4, 5, 6, 7, 8, 9]
    assert blocker(world) is Blocker.CAUGHT_UP


def test_the_last_entry_may_exceed_the_permits() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=5)
    world.publish(b"a", b"b", b"c", counts=[3, 3, 3])
    assert (world.offsets(consumer), consumer.permits) == ([0, 1], -1)


def test_what_is_acknowledged_is_skipped_and_parts_are_named() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=5)
    world.publish(*[b"x"] * 5, counts=[1, 1, 1, 1, 4])
    world.ack(consumer, 1, 3)
    world.flow(consumer, 100)
    world.ack(consumer, 4, ack_set=(0b0110,))
    world.got(consumer)
    permits = consumer.permits
    world.nack(consumer)
    assert [(world.offset(m), m.ack_set) for m in world.got(consumer)] == [
        (0, ()),
        (2, ()),
        (4, (0b0110,)),
    ]
    assert consumer.permits == permits - 4


def test_ids_in_a_redelivery_do_not_matter_and_no_count_rises() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100)
    world.publish(*[b"x"] * 4)
    world.ack(consumer, 1, cumulative=True)
    world.got(consumer)
    world.nack(consumer, 3)
    assert [(world.offset(m), m.redelivery_count) for m in world.got(consumer)] == [(2, 0), (3, 0)]


def test_a_new_epoch_marks_what_is_sent_from_then_on() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100, epoch=0)
    world.publish(b"a")
    world.nack(consumer, epoch=2)
    world.nack(consumer, epoch=1)
    assert [m.epoch for m in world.got(consumer)] == [0, 2, 2]


def test_who_reads_compacted_has_no_epoch() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100, epoch=3, read_compacted=True)
    world.publish(b"a")
    world.nack(consumer, epoch=7)
    assert [m.epoch for m in world.got(consumer)] == [None, None]


def keyed(key: str) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, partition_key=key
    )
    return encode_entry(metadata, b"")


def test_an_exclusive_consumer_with_ranges_gets_only_keys_in_them() -> None:
    world = TopicWorld(TopicLimits(max_read_entries=3))
    ranges = KeySharedMeta(sticky=True, ranges=((0, 1000), (30_000, 65_535)))
    consumer = world.subscribe(permits=4, key_shared=ranges)
    keys = [f"key-{number}" for number in range(30)]
    slots = [range_slot(key.encode()) for key in keys]
    inside = [at for at, slot in enumerate(slots) if slot <= 1000 or slot >= 30_000]
    assert 8 < len(inside) < 25
    world.publish(*map(keyed, keys))
    assert world.offsets(consumer) == inside[:4]
    world.flow(consumer, 100)
    assert world.offsets(consumer) == inside[4:]
    assert blocker(world) is Blocker.CAUGHT_UP
    world.ack(consumer, *inside)
    assert world.do(world.subscription().backlog()).entries == 30 - len(inside)
    consumer.close()
    everything = world.subscribe(permits=100)
    assert world.offsets(everything) == [at for at in range(30) if at not in inside]


def test_ranges_mean_nothing_to_failover() -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    ranges = KeySharedMeta(sticky=True, ranges=((1, 2),))
    consumer = world.subscribe(permits=9, sub_type=FAILOVER, key_shared=ranges)
    world.publish(keyed("a"), keyed("b"))
    assert world.offsets(consumer) == [0, 1]


def test_the_first_failover_consumer_waits_and_is_notified() -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=1000))
    consumer = world.subscribe(permits=10, sub_type=FAILOVER)
    world.publish(b"a")
    assert (world.got(consumer), notices(consumer), blocker(world)) == ([], [], Blocker.SWITCHING)
    world.clock.advance(0.999)
    assert notices(consumer) == []
    world.clock.advance(0.001)
    assert (world.offsets(consumer), notices(consumer)) == ([0], [True])


def test_without_a_delay_it_starts_at_once() -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    consumer = world.subscribe(permits=10, sub_type=FAILOVER)
    world.publish(b"a")
    assert (world.offsets(consumer), notices(consumer)) == ([0], [True])


def test_an_exclusive_consumer_is_not_notified() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10, sub_type=EXCLUSIVE)
    world.publish(b"a")
    assert (world.offsets(consumer), notices(consumer)) == ([0], [])


def test_a_joiner_that_does_not_become_active_is_notified_at_once() -> None:
    world = TopicWorld(name=PARTITION)
    first = world.subscribe(sub_type=FAILOVER, consumer_name="a")
    second = world.subscribe(sub_type=FAILOVER, consumer_name="b")
    assert (notices(first), notices(second)) == ([], [False])
    world.clock.advance(1)
    assert (notices(first), notices(second)) == ([True], [False, False])


def test_when_the_active_one_leaves_the_next_starts_at_the_cursor() -> None:
    world = TopicWorld(name=PARTITION)
    first = world.subscribe(sub_type=FAILOVER, consumer_name="a", permits=100)
    second = world.subscribe(sub_type=FAILOVER, consumer_name="b", permits=100)
    world.clock.advance(1)
    world.publish(*[b"x"] * 4)
    world.ack(first, 0, 2)
    assert (world.offsets(first), world.offsets(second)) == ([0, 1, 2, 3], [])
    first.close()
    world.clock.pump()
    assert (world.offsets(second), blocker(world)) == ([], Blocker.SWITCHING)
    world.clock.advance(1)
    assert (world.offsets(second), notices(second)) == ([1, 3], [False, False, True])


def test_a_better_consumer_takes_over_and_the_old_one_is_notified() -> None:
    world = TopicWorld(name=PARTITION)
    first = world.subscribe(sub_type=FAILOVER, priority=1, permits=100)
    world.clock.advance(1)
    second = world.subscribe(sub_type=FAILOVER, priority=0, permits=100)
    world.publish(b"a")
    assert world.offsets(first) == [], "no consumer receives during the change"
    world.clock.advance(1)
    assert (world.offsets(second), notices(first), notices(second)) == ([0], [True, False], [True])


def test_changes_within_the_delay_are_one() -> None:
    world = TopicWorld(name=PARTITION)
    first = world.subscribe(sub_type=FAILOVER, priority=1, permits=100)
    world.clock.advance(0.5)
    second = world.subscribe(sub_type=FAILOVER, priority=0, permits=100)
    world.clock.advance(0.9)
    assert (notices(first), notices(second)) == ([], [])
    second.close()
    world.clock.advance(0.9)
    assert notices(first) == []
    world.clock.advance(0.1)
    assert notices(first) == [True]
    world.publish(b"a")
    assert world.offsets(first) == [0]


def test_an_inactive_one_may_acknowledge_but_not_rewind() -> None:
    world = TopicWorld(name=PARTITION)
    active = world.subscribe(sub_type=FAILOVER, consumer_name="a", permits=100)
    other = world.subscribe(sub_type=FAILOVER, consumer_name="b", permits=100)
    world.clock.advance(1)
    world.publish(b"a", b"b")
    world.got(active)
    world.nack(other)
    assert world.got(active) == []
    world.ack(other, 0)
    assert world.subscription().cursor.mark_delete == 0


def test_the_last_consumer_leaves() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=FAILOVER)
    consumer.close()
    world.clock.advance(5)
    assert (notices(consumer), blocker(world)) == ([], Blocker.NO_CONSUMER)


def test_a_full_connection_waits_until_it_is_woken() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    connection.room = False
    consumer = world.subscribe(connection, permits=10)
    world.publish(b"a")
    assert (world.got(consumer), blocker(world)) == ([], Blocker.SLOW_CONNECTION)
    connection.room = True
    world.subscription().wake()
    assert world.offsets(consumer) == [0]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_a_consumer_that_waits_at_damage_continues_when_it_is_skipped(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0), BY_THREE, cache_bytes=0)
    for number in range(5):
        world.publish(b"%d" % number)
    world.store.rotten.add(world.topic.log.segments[0].id)
    consumer = world.subscribe(permits=10, earliest=True, sub_type=sub_type)
    assert (world.got(consumer), blocker(world)) == ([], Blocker.DAMAGE)
    world.subscription().skip(range(3))
    world.clock.pump()
    assert world.offsets(consumer) == [3, 4]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_the_active_consumer_is_told_of_damage_once_at_each_attempt(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0), BY_THREE, cache_bytes=0)
    for number in range(5):
        world.publish(b"%d" % number)
    segment = world.topic.log.segments[0].id
    world.store.rotten.add(segment)
    connection = RecordingConnection()
    consumer = world.subscribe(connection, permits=5, earliest=True, sub_type=sub_type)
    for _ in range(3):
        world.flow(consumer, 1)
        world.subscription().wake()
    assert [(one, told[:4]) for one, told in connection.damage] == [
        (consumer.id, (segment, 0, 0, "rot"))
    ]
    world.nack(consumer)
    assert len(connection.damage) == 2
    consumer.close()
    again = RecordingConnection()
    world.subscribe(again, permits=5, sub_type=sub_type)
    assert len(again.damage) == 1


def test_nobody_is_told_of_trouble_that_passes() -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(b"a")
    world.store.read_failure = Unavailable("busy")
    connection = RecordingConnection()
    consumer = world.subscribe(connection, permits=5, earliest=True)
    world.store.read_failure = None
    world.clock.advance(1)
    assert (world.offsets(consumer), connection.damage) == ([0], [])


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_damage_is_named_until_the_consumer_comes_back(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0), cache_bytes=0)
    world.publish(b"a", b"b")
    world.store.read_failure = Corrupt("file", 1, "rot")
    consumer = world.subscribe(permits=10, earliest=True, sub_type=sub_type)
    assert (world.got(consumer), blocker(world)) == ([], Blocker.DAMAGE)
    consumer.close()
    world.store.read_failure = None
    again = world.subscribe(permits=10, sub_type=sub_type)
    assert world.offsets(again) == [0, 1]
