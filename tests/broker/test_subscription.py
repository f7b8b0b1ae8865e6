"""Subscriptions: acknowledging, seeking, unsubscribing, counting."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TYPES, TopicWorld, entry
from magnetar_broker.errors import MetadataTrouble, UnknownTrouble
from magnetar_broker.limits import TopicLimits
from magnetar_broker.retention import Retention
from magnetar_broker.seeking import RETURN_SECONDS
from magnetar_proto.acks import Ack
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_storage.cursor_log import GATHER_SECONDS
from magnetar_storage.errors import DiskFull

ALL = (EXCLUSIVE, SHARED)


# Acknowledging --------------------------------------------------------------------------


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
    consumer.subscription.acknowledge(consumer, Ack(1, 0, [(ledger, number, ())]), outcome.append)
    assert outcome == []
    world.clock.pump()
    assert outcome == [None]


def test_a_failed_write_is_told_and_the_topic_is_dropped() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a")
    outcome: list[BaseException | None] = []
    ledger, number = world.topic.log.position(0)
    consumer.subscription.acknowledge(consumer, Ack(1, 0, [(ledger, number, ())]), outcome.append)
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
            consumer.subscription.acknowledge(consumer, ack, outcome.append)
        world.clock.pump()
        assert outcome == [None] * 5
    assert world.subscription().cursor.mark_delete == -1


def test_acks_that_have_gathered_are_durable_with_the_next_entries() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=10)
    world.publish(b"a", b"b")
    ids = [(*world.topic.log.position(0), ())]
    consumer.subscription.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
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
    ids = [(*log.position(offset), ()) for offset in (2, 3, 4, 0, 3, 9, 8, 11)]
    ids.insert(3, (*log.position(7), (0b0011,)))
    ids.insert(5, (log.position(5)[0], 3, ()))  # not there
    ids.append((1 << 62, 0, ()))
    consumer.subscription.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
    assert list(cursor.acked) == [(2, 5), (8, 10), (11, 12)]
    assert (cursor.mark_delete, cursor.partial) == (0, {7: 0b0011})


def test_the_rest_of_a_batch_may_follow_its_part_in_the_same_ack() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100)
    world.publish(b"a", b"b", counts=[4, 1])
    place = world.topic.log.position(0)
    for ids in ([(*place, (0b0011,)), (*place, ())], [(*world.topic.log.position(1), ())]):
        consumer.subscription.acknowledge(consumer, Ack(consumer.id, 0, ids), None)
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


# Seeking --------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_seek_sends_everybody_away_and_continues_there(sub_type: int) -> None:
    world = TopicWorld(TopicLimits(failover_delay_ms=0))
    connection = RecordingConnection()
    consumer = world.subscribe(connection, sub_type=sub_type, permits=100)
    world.publish(*[b"x"] * 5)
    world.ack(consumer, 0, 1, 3)
    position = MessageId(*world.topic.log.position(2))
    world.do(consumer.subscription.seek_to_id(position, ()))
    assert connection.closed_consumers == [consumer.id]
    world.reload()
    again = world.subscribe(sub_type=sub_type, permits=100)
    assert world.offsets(again) == [2, 3, 4]


@pytest.mark.parametrize(
    ("position", "expected"),
    [(EARLIEST, [0, 1, 2, 3]), (LATEST, []), (MessageId(1 << 60, 0), [])],
)
def test_the_ends_of_a_topic_can_be_sought(position: MessageId, expected: list[int]) -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=1)
    world.publish(*[b"x"] * 4)
    world.do(consumer.subscription.seek_to_id(position, ()))
    assert world.offsets(world.subscribe(permits=100)) == expected


def test_a_seek_into_a_batch_leaves_out_what_is_before() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=1)
    world.publish(b"a", b"b", b"c", counts=[3, 3, 3])
    position = MessageId(*world.topic.log.position(1))
    world.do(consumer.subscription.seek_to_id(position, (0b100,)))
    world.reload()
    again = world.subscribe(permits=100)
    assert [(world.offset(m), m.ack_set) for m in world.got(again)] == [(1, (0b100,)), (2, ())]


def test_a_part_of_what_is_not_there_is_not_applied_to_what_follows() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=1)
    world.publish(b"a", b"b", counts=[3, 3])
    ledger, _ = world.topic.log.position(0)
    world.do(consumer.subscription.seek_to_id(MessageId(ledger, -1), (0b100,)))
    assert [m.ack_set for m in world.got(world.subscribe(permits=100))] == [(), ()]


def test_a_time_is_where_the_first_message_at_or_after_it_is() -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=0)
    world.subscribe()
    world.publish(*[entry(time) for time in (10, 20, 20, 30, 40)])
    for sought, expected in ((0, 0), (10, 0), (11, 1), (20, 1), (31, 4), (41, 5)):
        world.do(world.subscription().seek_to_time(sought))
        assert world.subscription().cursor.mark_delete == expected - 1


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, KEY_SHARED])
def test_damage_met_before_a_seek_leaves_out_nothing_behind_it(sub_type: int) -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=0)
    consumer = world.subscribe(sub_type=sub_type)
    for offset in range(9):
        world.publish(b"%d" % offset)
    world.ack(consumer, *range(6))
    world.store.rotten.add(world.topic.log.segments[2].id)
    gate = world.store.read_gate = world.clock.promise()
    world.flow(consumer, 100)
    world.do(world.subscription().seek(0))
    again = world.subscribe(sub_type=sub_type, permits=100)
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.pump()
    assert world.offsets(again) == list(range(6))


def test_who_subscribes_during_a_seek_waits_for_it() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=1)
    world.publish(*[b"x"] * 3)
    world.ack(consumer, 0, 1, 2)
    seeking = world.begin(world.subscription().seek(1))
    joining = world.begin_subscribe(RecordingConnection())
    again = world.begin(world.subscription().seek(0))
    with pytest.raises(UnknownTrouble):
        again.result()
    assert not seeking.done() and not joining.done()
    world.clock.pump()
    seeking.result()
    joined = joining.result()
    world.flow(joined, 10)
    assert world.offsets(joined) == [1, 2]


def test_a_seek_that_fails_lets_others_in_again() -> None:
    world = TopicWorld()
    world.subscribe()
    seeking = world.begin(world.subscription().seek(0))
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    with pytest.raises(DiskFull):
        seeking.result()
    world.reload()
    world.subscribe()


# Unsubscribing --------------------------------------------------------------------------


def test_unsubscribing_is_durable() -> None:
    world = TopicWorld()
    consumer = world.subscribe()
    world.do(consumer.subscription.unsubscribe(consumer, False))
    assert consumer.closed
    assert world.reload().subscriptions == {}


def test_others_are_only_sent_away_by_force() -> None:
    world = TopicWorld()
    other = RecordingConnection()
    consumer, second = world.subscribe(sub_type=SHARED), world.subscribe(other, sub_type=SHARED)
    with pytest.raises(MetadataTrouble, match="1 other consumers"):
        world.do(consumer.subscription.unsubscribe(consumer, False))
    assert not consumer.closed and not second.closed
    world.do(consumer.subscription.unsubscribe(consumer, True))
    assert (other.closed_consumers, world.topic.subscriptions) == ([second.id], {})


def test_an_ack_that_is_late_does_not_harm_the_topic() -> None:
    """The client may have sent it before it heard of the end of its subscription."""
    world = TopicWorld()
    world.subscribe(sub="kept")
    consumer = world.subscribe(permits=10)
    world.publish(b"a")
    leaving = world.begin(consumer.subscription.unsubscribe(consumer, False))
    assert world.ack(consumer, 0) == [None]
    leaving.result()
    assert world.ack(consumer, 0) == [None]
    assert list(world.reload().subscriptions) == ["kept"]


# Numbers --------------------------------------------------------------------------------


def test_where_the_cursor_is() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=100)
    assert world.subscription().mark_delete_id() == (-1, -1, -1, -1)
    for _ in range(4):
        world.publish(b"x")
    ledger, _ = world.topic.log.position(0)
    assert world.subscription().mark_delete_id() == (ledger, -1, -1, -1)
    world.ack(consumer, 2, cumulative=True)
    assert world.subscription().mark_delete_id() == (ledger, 2, -1, -1)


acks = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 15)), max_size=12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), acks, st.booleans(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_backlog_is_exact(
    counts: list[int], acks: list[tuple[int, int]], durable: bool, trim: bool
) -> None:
    """In messages and in entries; what was trimmed is in nobody's backlog."""
    world = TopicWorld(roll=BY_THREE, limits=TopicLimits(retention=Retention()))
    consumer = world.subscribe(permits=1000, sub_type=SHARED, durable=durable)
    left = [(1 << count) - 1 for count in counts]
    for count in counts:
        world.publish(b"x", counts=[count])
    for offset, drawn in acks:
        if offset < len(left):
            mask = drawn & (1 << counts[offset]) - 1
            left[offset] &= mask
            words = (mask,) if mask else ()
            world.ack(consumer, offset, ack_set=words)
    if trim:
        world.do(world.topic.tidy())
        left[: world.topic.log.first_offset] = [0] * world.topic.log.first_offset
    backlog = world.do(world.subscription().backlog())
    assert backlog.messages == sum(mask.bit_count() for mask in left)
    assert backlog.entries == sum(map(bool, left))


def test_totals_outlive_the_consumers() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=100)
    world.publish(b"abc", b"de", counts=[4, 1])
    assert world.topic.totals() == (5, 5, 5, 5)
    consumer.close()
    assert world.topic.totals() == (5, 5, 5, 5)
    other = world.subscribe(permits=100, sub_type=FAILOVER)
    world.clock.advance(1)
    assert world.topic.totals() == (5, 5, 10, 10)
    world.do(other.subscription.unsubscribe(other, False))
    assert world.topic.totals() == (5, 5, 10, 10)


def test_a_reader_that_a_seek_sent_away_comes_back_to_its_new_place() -> None:
    world = TopicWorld()
    world.publish(entry(10), entry(20), entry(30))
    reader = world.subscribe(sub="reader", durable=False)
    world.do(reader.subscription.seek_to_time(20))
    again = world.subscribe(sub="reader", durable=False)
    world.flow(again, 10)
    assert world.offsets(again) == [1, 2]


def test_a_reader_that_does_not_come_back_after_a_seek_is_forgotten() -> None:
    world = TopicWorld()
    world.publish(entry(10))
    reader = world.subscribe(sub="reader", durable=False)
    world.do(reader.subscription.seek_to_time(0))
    assert "reader" in world.topic.subscriptions
    world.clock.advance(RETURN_SECONDS)
    assert world.topic.subscriptions == {}
