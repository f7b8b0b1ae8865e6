"""Acknowledging: what is durable when, and what ids mean."""

import pytest

from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.acks import Ack
from magnetar_storage.cursors.cursor_log import GATHER_SECONDS
from magnetar_storage.errors import DiskFull

Ids = list[tuple[int, int, tuple[int, ...]]]
"""Ledger, entry and ack set of each message of an ACK."""

ALL = (EXCLUSIVE, SHARED)


@pytest.mark.parametrize("sub_type", ALL)
def test_acks_survive_a_restart(sub_type: int) -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=sub_type, permits=100)
    world.publish(*[b"x"] * 6, counts=[1, 1, 1, 1, 1, 3])
    assert world.ack(consumer, 0, 2) == [None]
    assert world.ack(consumer, 5, ack_set=(0b101,)) == [None]
    world.reload()
    again = world.subscribe(sub_type=sub_type, permits=100)
    assert [(world.offset(m), m.ack_set) for m in world.got(again)] == [
        (1, ()),
        (3, ()),
        (4, ()),
        (5, (0b101,)),
    ]


def test_an_answer_waits_for_the_disk() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a")
    outcome: list[BaseException | None] = []
    ledger, number = world.topic.log.position(0)
    consumer.subscription.acks.acknowledge(
        consumer, Ack(1, 0, [(ledger, number, ())]), outcome.append
    )
    assert outcome == []
    world.clock.pump()
    assert outcome == [None]


def test_a_failed_write_is_reported_and_the_topic_is_dropped() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a")
    outcome: list[BaseException | None] = []
    ledger, number = world.topic.log.position(0)
    consumer.subscription.acks.acknowledge(
        consumer, Ack(1, 0, [(ledger, number, ())]), outcome.append
    )
    world.clock.step()
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    assert [type(error) for error in outcome] == [DiskFull]
    assert (world.dropped, consumer.closed) == ([world.topic], True)
    world.reload()
    again = world.subscribe(permits=10)
    assert world.offsets(again) == [0]


def test_positions_that_are_not_there_are_ignored() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b")
    ledger, _ = world.topic.log.position(0)
    for kind in (0, 1):
        outcome: list[BaseException | None] = []
        for wrong in ((ledger, 2), (ledger + 1, 0), (ledger, -1), (-1, -1), (1 << 62, 1 << 62)):
            ack = Ack(consumer.id, kind, [(*wrong, ())])
            consumer.subscription.acks.acknowledge(consumer, ack, outcome.append)
        world.clock.pump()
        assert outcome == [None] * 5
    assert world.subscription().cursor.mark_delete == -1


@pytest.mark.parametrize("ack_set", [(), (0b1,)])
def test_the_entry_before_a_ledger_is_the_last_one_of_the_ledger_before(
    ack_set: tuple[int, ...],
) -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=10)
    for _ in range(7):
        world.publish(b"x", counts=[2])
    for first, mark_delete in ((0, -1), (3, 2), (6, 5), (3, 5)):
        ledger, entry = world.topic.log.position(first)
        assert entry == 0
        ack = Ack(consumer.id, 1, [(ledger, -1, ack_set)])
        outcome: list[BaseException | None] = []
        consumer.subscription.acks.acknowledge(consumer, ack, outcome.append)
        world.clock.pump()
        assert outcome == [None]
        assert world.subscription().cursor.mark_delete == mark_delete


def test_acks_that_have_gathered_are_durable_with_the_next_entries() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b")
    ids: Ids = [(*world.topic.log.position(0), ())]
    consumer.subscription.acks.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
    world.clock.advance(GATHER_SECONDS)
    world.publish(b"c")
    world.reload()
    assert world.subscription().cursor.mark_delete == 0


def test_ids_of_one_ack_may_come_in_any_order_and_more_than_once() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=100)
    for _ in range(4):
        world.publish(b"a", b"b", b"c", counts=[1, 4, 1])
    log, cursor = world.topic.log, world.subscription().cursor
    ids: Ids = [(*log.position(offset), ()) for offset in (2, 3, 4, 0, 3, 9, 8, 11)]
    ids.insert(3, (*log.position(7), (0b0011,)))
    ids.insert(5, (log.position(5)[0], 3, ()))  # not there
    ids.append((1 << 62, 0, ()))
    consumer.subscription.acks.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
    assert list(cursor.acked) == [(2, 5), (8, 10), (11, 12)]
    assert (cursor.mark_delete, cursor.partial) == (0, {7: 0b0011})


def test_the_rest_of_a_batch_may_follow_its_part_in_the_same_ack() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100)
    world.publish(b"a", b"b", counts=[4, 1])
    place = world.topic.log.position(0)
    acks: list[Ids] = [
        [(*place, (0b0011,)), (*place, ())],
        [(*world.topic.log.position(1), ())],
    ]
    for ids in acks:
        consumer.subscription.acks.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
    cursor = world.subscription().cursor
    assert (cursor.mark_delete, cursor.partial) == (1, {})


def test_cumulative_acks_of_several_ids_are_ignored() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b")
    assert world.ack(consumer, 0, 1, cumulative=True) == [None]
    assert world.subscription().cursor.mark_delete == -1


def test_a_cumulative_ack_within_a_batch_takes_what_is_before_and_the_part() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b", b"c", counts=[1, 1, 4])
    world.ack(consumer, 2, cumulative=True, ack_set=(0b1100,))
    cursor = world.subscription().cursor
    assert (cursor.mark_delete, cursor.partial) == (1, {2: 0b1100})


@pytest.mark.parametrize("cumulative", [False, True])
def test_without_batch_index_acks_a_part_is_not_taken(cumulative: bool) -> None:
    world = TopicWorld(TopicLimits(batch_index_acks=False))
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b", counts=[1, 4])
    world.ack(consumer, 1, cumulative=cumulative, ack_set=(0b1100,))
    cursor = world.subscription().cursor
    assert (cursor.mark_delete, cursor.partial) == (0 if cumulative else -1, {})
