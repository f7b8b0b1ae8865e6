"""Seeking: by id and by time, into batches, and who comes back."""

import asyncio

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, KEY_SHARED, SHARED, TYPES, TopicWorld, entry
from magnetar_broker.base.errors import UnknownError
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.subscription import RETURN_SECONDS
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_storage.errors import DiskFull


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_seek_closes_all_consumers_and_continues_there(sub_type: int) -> None:
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


async def test_who_gives_up_waiting_for_a_seek_disturbs_neither_it_nor_others() -> None:
    world = TopicWorld()
    world.subscribe(sub_type=SHARED)
    world.publish(*[b"x"] * 3)
    subscription, request = world.subscription(), world.request(sub_type=SHARED)
    world.clock.promise = asyncio.get_running_loop().create_future  # type: ignore[method-assign,assignment]
    seeking = asyncio.create_task(subscription.seek(1))
    await asyncio.sleep(0)
    gives_up, stays = (asyncio.create_task(subscription.admit(request)) for _ in range(2))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.sleep(0)
    assert gives_up.cancelled() and not stays.done()
    world.clock.pump()
    await seeking
    await stays


def test_a_subscribe_during_a_seek_waits_for_it() -> None:
    world = TopicWorld()
    consumer = world.subscribe(permits=1)
    world.publish(*[b"x"] * 3)
    world.ack(consumer, 0, 1, 2)
    seeking = world.begin(world.subscription().seek(1))
    joining = world.begin_subscribe(RecordingConnection())
    again = world.begin(world.subscription().seek(0))
    with pytest.raises(UnknownError):
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


def test_a_reader_that_a_seek_closed_reconnects_at_its_new_position() -> None:
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
