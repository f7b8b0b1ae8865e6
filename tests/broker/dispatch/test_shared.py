"""Shared: turns, permits, limits, redelivery, parts of batches."""

from collections import Counter
from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.acks import Ack
from magnetar_proto.wire import MAX64
from magnetar_storage.errors import Corrupt


def shared(world: TopicWorld, permits: int = 0, **asked: Any) -> Consumer:
    return world.subscribe(permits=permits, sub_type=SHARED, **asked)


def publish(world: TopicWorld, count: int, *counts: int) -> None:
    world.publish(*[b"x"] * count, counts=counts)


def blocker(world: TopicWorld) -> Blocker:
    return world.subscription().dispatcher.blocker()


def test_runs_of_at_most_twenty_go_round() -> None:
    world = TopicWorld()
    first, second = shared(world, 1000), shared(world, 1000)
    publish(world, 100)
    assert world.offsets(first) == [*range(20), *range(40, 60), *range(80, 100)]
    assert world.offsets(second) == [*range(20, 40), *range(60, 80)]


def test_a_better_priority_is_served_first() -> None:
    world = TopicWorld()
    low, high = shared(world, 100, priority=1), shared(world, 3, priority=0)
    publish(world, 5)
    assert world.offsets(high) == [0, 1, 2]
    assert world.offsets(low) == [3, 4]


def test_permits_count_messages_and_may_fall_below_zero_by_less_than_an_entry() -> None:
    world = TopicWorld()
    consumer = shared(world, 5)
    publish(world, 3, 4, 4, 4)
    assert world.offsets(consumer) == [0, 1]
    assert consumer.permits == -3
    world.flow(consumer, 3)
    assert (world.offsets(consumer), blocker(world)) == ([], Blocker.NO_PERMITS)
    world.flow(consumer, 1)
    assert world.offsets(consumer) == [2]


def test_entries_of_a_closed_consumer_go_to_others_without_a_higher_count() -> None:
    world = TopicWorld()
    first = shared(world, 3)
    publish(world, 3)
    world.got(first)
    second = shared(world, 10)
    first.close()
    world.clock.pump()
    assert [(world.offset(m), m.redelivery_count) for m in world.got(second)] == [
        (0, 0),
        (1, 0),
        (2, 0),
    ]


def test_requests_raise_the_count_even_if_the_consumer_leaves() -> None:
    world = TopicWorld()
    consumer = shared(world, 100)
    publish(world, 3)
    world.got(consumer)
    for count in (1, 2, 3):
        world.nack(consumer, 1, 1)
        assert [(world.offset(m), m.redelivery_count) for m in world.got(consumer)] == [(1, count)]
    world.nack(consumer)
    assert [m.redelivery_count for m in world.got(consumer)] == [1, 4, 1]
    consumer.close()
    fresh = shared(world, 100)
    assert [m.redelivery_count for m in world.got(fresh)] == [1, 4, 1]


def test_counts_survive_a_restart_and_end_with_the_ack() -> None:
    world = TopicWorld()
    consumer = shared(world, 100)
    publish(world, 4)
    world.nack(consumer, 1, 2)
    world.nack(consumer, 2)
    world.ack(consumer, 1)
    world.clock.advance(1)
    world.reload()
    again = shared(world, 100)
    assert [(world.offset(m), m.redelivery_count) for m in world.got(again)] == [
        (0, 0),
        (2, 2),
        (3, 0),
    ]
    assert world.subscription().cursor.redelivered == {2: 2}


def test_only_what_is_pending_on_the_asking_consumer_is_sent_again() -> None:
    world = TopicWorld()
    first, second = shared(world, 1), shared(world, 1)
    publish(world, 2)
    assert (world.offsets(first), world.offsets(second)) == ([0], [1])
    world.flow(first, 10)
    world.nack(first, 1)
    assert world.offsets(first) == []
    world.nack(first, 0)
    assert world.offsets(first) == [0]


def test_redeliveries_go_before_new_entries() -> None:
    world = TopicWorld()
    consumer = shared(world, 2)
    publish(world, 4)
    world.got(consumer)
    world.nack(consumer)
    world.flow(consumer, 3)
    assert world.offsets(consumer) == [0, 1, 2]


def test_epochs_mean_nothing_here() -> None:
    world = TopicWorld()
    consumer = shared(world, 10, epoch=3)
    publish(world, 1)
    world.nack(consumer, 0, epoch=9)
    assert [m.epoch for m in world.got(consumer)] == [None, None]


def test_a_batch_that_is_acknowledged_in_part_comes_with_what_is_left() -> None:
    world = TopicWorld()
    consumer = shared(world, 100)
    publish(world, 2, 10, 70)
    world.got(consumer)
    world.ack(consumer, 0, ack_set=(0b11_1111_0000,))
    world.ack(consumer, 1, ack_set=((1 << 64) - 1, 0b1))
    assert consumer.unacked == 6 + 65
    permits = consumer.permits
    world.nack(consumer)
    assert [m.ack_set for m in world.got(consumer)] == [
        (0b11_1111_0000,),
        ((1 << 64) - 1, 0b1),
    ]
    assert consumer.permits == permits - 71
    world.ack(consumer, 0, ack_set=(0b00_0000_1111,))
    assert (consumer.unacked, world.subscription().cursor.mark_delete) == (65, 0)


def test_a_consumer_may_acknowledge_for_another() -> None:
    world = TopicWorld()
    owner, other = shared(world, 5), shared(world)
    publish(world, 5)
    assert world.ack(other, 0, 1, 2) == [None]
    assert (owner.unacked, other.unacked, sorted(owner.pending)) == (2, 0, [3, 4])


def test_entries_of_several_owners_may_be_acknowledged_together() -> None:
    world = TopicWorld(TopicLimits(max_round_robin_entries=2))
    first, second = shared(world, 4), shared(world, 4)
    publish(world, 8)
    assert (sorted(first.pending), sorted(second.pending)) == ([0, 1, 4, 5], [2, 3, 6, 7])
    world.nack(first, 4)
    world.ack(first, 1, 2, 3, 4, 5, 6)
    assert (sorted(first.pending), sorted(second.pending)) == ([0], [7])
    assert (first.unacked, second.unacked) == (1, 1)
    assert world.subscription().dispatcher.in_replay == 0
    world.flow(second, 10)
    assert 4 not in world.offsets(second)


def test_cumulative_acks_are_answered_and_ignored() -> None:
    world = TopicWorld()
    consumer = shared(world, 5)
    publish(world, 5)
    assert world.ack(consumer, 3, cumulative=True) == [None]
    assert (consumer.unacked, world.subscription().cursor.mark_delete) == (5, -1)


def test_a_consumer_that_holds_too_much_continues_at_half() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_consumer=4, max_round_robin_entries=1))
    consumer = shared(world, 100)
    publish(world, 10)
    assert world.offsets(consumer) == [0, 1, 2, 3]
    assert (consumer.blocked, blocker(world)) == (True, Blocker.UNACKED_CONSUMER)
    world.flow(consumer, 100)
    world.ack(consumer, 0)
    assert world.offsets(consumer) == []
    world.ack(consumer, 1)
    assert world.offsets(consumer) == [4, 5]


def test_a_subscription_that_holds_too_much_continues_below_half_but_redelivers() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_subscription=4, max_round_robin_entries=1))
    first, second = shared(world, 100), shared(world, 100)
    publish(world, 10)
    assert sorted(world.offsets(first) + world.offsets(second)) == [0, 1, 2, 3]
    assert blocker(world) is Blocker.UNACKED_SUBSCRIPTION
    world.nack(first, 0)
    assert world.offsets(first) + world.offsets(second) == [0]
    world.ack(first, 0, 1)
    assert world.offsets(first) + world.offsets(second) == []
    world.ack(first, 2)
    assert sorted(world.offsets(first) + world.offsets(second)) == [4, 5, 6]


@pytest.mark.parametrize("limit", ["max_unacked_per_consumer", "max_unacked_per_subscription"])
def test_a_limit_of_one_lets_one_after_the_other_through(limit: str) -> None:
    limits: dict[str, Any] = {"max_round_robin_entries": 1, limit: 1}
    world = TopicWorld(TopicLimits(**limits))
    consumer = shared(world, 100)
    publish(world, 3)
    for offset in range(3):
        assert world.offsets(consumer) == [offset]
        world.ack(consumer, offset)
    assert blocker(world) is Blocker.CAUGHT_UP


def test_readers_that_are_not_durable_know_no_such_limits() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_consumer=1, max_unacked_per_subscription=1))
    consumer = shared(world, 100, durable=False)
    publish(world, 5)
    assert len(world.offsets(consumer)) == 5


def test_a_full_connection_stops_its_own_consumer_only() -> None:
    world = TopicWorld()
    slow, fast = shared(world, 100), shared(world, 100)
    connection = slow.connection
    assert isinstance(connection, RecordingConnection)
    connection.room = False
    publish(world, 30)
    assert (world.offsets(slow), len(world.offsets(fast))) == ([], 30)
    fast.close()
    world.clock.pump()
    assert blocker(world) is Blocker.SLOW_CONNECTION
    connection.room = True
    world.subscription().wake()
    assert len(world.offsets(slow)) == 30


def test_the_reason_is_true_when_one_holds_too_much_and_another_has_no_permits() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_consumer=1))
    shared(world, 100)
    publish(world, 1)
    shared(world)
    publish(world, 1)
    assert blocker(world) is Blocker.NO_PERMITS


def test_damage_is_named_and_does_not_stop_what_is_in_memory() -> None:
    world = TopicWorld(cache_bytes=200)
    publish(world, 5)
    world.store.read_failure = Corrupt("file", 1, "rot")
    consumer = shared(world, 100, earliest=True)
    assert (world.offsets(consumer), blocker(world)) == ([], Blocker.DAMAGE)
    world.store.read_failure = None
    shared(world)
    world.flow(consumer, 1)
    assert world.offsets(consumer) == [0, 1, 2, 3, 4]


def test_what_is_to_come_again_does_not_wait_behind_damage() -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=200)
    consumer = shared(world, 100)
    for _ in range(3):
        publish(world, 3)
    assert world.offsets(consumer) == list(range(9))
    damaged = world.topic.log.segments[0].id
    lost = world.store._segments.pop(damaged)
    world.nack(consumer, 0, 2, 4, 5)
    assert world.offsets(consumer) == [4, 5]
    dispatcher = world.subscription().dispatcher
    assert (blocker(world), dispatcher.in_replay) == (Blocker.DAMAGE, 2)
    publish(world, 3)
    assert world.offsets(consumer) == [9, 10, 11]
    world.ack(consumer, 2)
    assert dispatcher.in_replay == 1
    world.store._segments[damaged] = lost
    shared(world)  # who joins has it tried again
    world.flow(consumer, 1)
    assert [(world.offset(m), m.redelivery_count) for m in world.got(consumer)] == [(0, 1)]
    assert blocker(world) is Blocker.CAUGHT_UP


def test_new_entries_do_not_wait_behind_damaged_ones() -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=1)
    reader = shared(world)
    for _ in range(3):
        publish(world, 3)
    world.ack(reader, 4)
    lost = world.store._segments.pop(world.topic.log.segments[1].id)
    world.flow(reader, 100)
    assert world.offsets(reader) == [0, 1, 2, 6, 7, 8]
    dispatcher = world.subscription().dispatcher
    assert (blocker(world), dispatcher.in_replay) == (Blocker.DAMAGE, 2)
    world.store._segments[world.topic.log.segments[1].id] = lost
    shared(world)
    world.flow(reader, 1)
    assert (world.offsets(reader), blocker(world)) == ([3, 5], Blocker.CAUGHT_UP)


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_consumers_are_not_told_of_damage_that_was_set_aside(sub_type: int) -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=1)
    connection = RecordingConnection()
    consumer = world.subscribe(connection, sub_type=sub_type)
    for _ in range(5):
        publish(world, 3)
    first, second = (world.topic.log.segments[number].id for number in (1, 3))
    del world.store._segments[first]
    world.flow(consumer, 6)
    assert world.offsets(consumer) == [0, 1, 2, 6, 7, 8]
    world.subscription().skip(range(3, 6))
    world.clock.pump()
    del world.store._segments[second]
    world.flow(consumer, 10)
    assert world.offsets(consumer) == [12, 13, 14]
    assert [damage.segment for _, damage in connection.damage] == [second]


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_consumers_that_wait_are_told_once_of_damage_that_was_passed_over(sub_type: int) -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=1)
    connection = RecordingConnection()
    consumer = world.subscribe(connection, sub_type=sub_type)
    for _ in range(3):
        publish(world, 3)
    segment = world.topic.log.segments[1].id
    lost = world.store._segments.pop(segment)
    world.flow(consumer, 6)
    assert world.offsets(consumer) == [0, 1, 2, 6, 7, 8]
    assert connection.damage == [], "it does not wait: its messages are to be processed first"
    world.flow(consumer, 1)
    told = [(one, damage.segment, damage.first) for one, damage in connection.damage]
    assert told == [(consumer.id, segment, 0)]
    late = RecordingConnection()
    other = world.subscribe(late, permits=10, sub_type=sub_type)
    assert [(one, damage.segment) for one, damage in late.damage] == [(other.id, segment)]
    publish(world, 3)
    assert len(connection.damage) == 1, "it knows"
    world.store._segments[segment] = lost
    last = RecordingConnection()
    world.subscribe(last, permits=10, sub_type=sub_type)
    assert last.damage == [], "the entries are there again"


def test_a_full_subscription_is_full_whatever_is_damaged() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_subscription=6), roll=BY_THREE, cache_bytes=200)
    consumer = shared(world, 100)
    for _ in range(3):
        publish(world, 3)
    assert world.offsets(consumer) == list(range(6))
    world.store._segments.pop(world.topic.log.segments[0].id)
    world.nack(consumer, 0)
    assert blocker(world) is Blocker.UNACKED_SUBSCRIPTION


def test_one_run_exceeds_the_subscriptions_limit_by_less_than_an_entry() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_subscription=10))
    consumer = shared(world, 100)
    publish(world, 8, *[3] * 8)
    assert (world.offsets(consumer), consumer.unacked) == ([0, 1, 2, 3], 12)
    assert blocker(world) is Blocker.UNACKED_SUBSCRIPTION


def test_a_seek_forgets_what_was_given_out_and_asked_for() -> None:
    world = TopicWorld()
    consumer = shared(world, 100)
    publish(world, 5)
    world.ack(consumer, 1, 3)
    world.nack(consumer, 2)
    world.do(world.subscription().seek(0))
    assert consumer.closed
    again = shared(world, 100)
    assert [(world.offset(m), m.redelivery_count) for m in world.got(again)] == [
        (offset, 0) for offset in range(5)
    ]


def test_consumers_get_about_as_much() -> None:
    world = TopicWorld(TopicLimits(max_round_robin_entries=2))
    consumers = [shared(world, 1000) for _ in range(4)]
    for _ in range(30):
        publish(world, 5)
    shares = Counter({number: len(world.got(c)) for number, c in enumerate(consumers)})
    assert sum(shares.values()) == 150
    assert max(shares.values()) - min(shares.values()) <= 5


def test_an_ack_set_longer_than_the_batch_changes_nothing() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=SHARED)
    world.flow(consumer, 10)
    world.publish(entry(1, batch=2), counts=[2])
    (message,) = world.got(consumer)
    ids: list[tuple[int, int, tuple[int, ...]]] = [(message.ledger, message.entry, (MAX64,) * 1000)]
    consumer.subscription.acks.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
    world.clock.pump()
    assert consumer.unacked == 2
    assert world.do(world.subscription().backlog()).messages == 2
    world.publish(entry(2))
    assert len(world.got(consumer)) == 1
