"""Topics: producers, failing, maintenance."""

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.base.errors import NotReady, ProducerBusy
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_storage.errors import DiskFull

# Producers ------------------------------------------------------------------------------


def test_a_name_is_held_by_a_producer_that_answers() -> None:
    world = TopicWorld()
    holder = RecordingConnection("10.0.0.9:1")
    world.producer(holder, name="same")
    with pytest.raises(ProducerBusy, match=r"same .* from 10\.0\.0\.9:1"):
        world.producer(RecordingConnection(), name="same", epoch=5)
    holder.alive = False
    second = world.producer(RecordingConnection(), name="same")
    assert holder.closed_producers == [1], "should it be there after all, it is notified"
    assert list(world.topic.producers) == [second]


def test_the_same_producer_with_a_higher_epoch_replaces_itself_silently() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    first = world.producer(connection, epoch=1)
    with pytest.raises(ProducerBusy):
        world.producer(connection, epoch=1)
    second = world.producer(connection, epoch=2)
    assert (first.closed, connection.closed_producers) == (True, [])
    assert list(world.topic.producers) == [second]
    first.close()
    assert len(world.topic.producers) == 1


def test_the_number_of_producers_is_limited() -> None:
    world = TopicWorld(TopicLimits(max_producers=2))
    world.producer(name="a")
    leaving = world.producer(name="b")
    with pytest.raises(ProducerBusy, match="maxProducersPerTopic"):
        world.producer(name="c")
    leaving.close()
    world.producer(name="c")


# Failing --------------------------------------------------------------------------------


def test_when_the_log_fails_all_clients_are_closed_and_nothing_is_acknowledged() -> None:
    world = TopicWorld()
    sender, receiver = RecordingConnection(), RecordingConnection()
    producer, consumer = world.producer(sender), world.subscribe(receiver, permits=10)
    world.send(producer, b"a")
    world.send(producer, b"b")
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    assert (sender.receipts, sender.published_entries) == ([], 2)
    assert (sender.closed_producers, receiver.closed_consumers) == ([1], [consumer.id])
    assert world.dropped == [world.topic]
    for late in (
        world.topic.producers.add(sender, ProducerRequest(2, "late")),
        world.topic.subscriptions.subscribe(receiver, world.request()),
    ):
        with pytest.raises(NotReady):
            world.do(late)
    world.send(producer, b"late")
    assert sender.published_entries == 3
    world.reload()
    world.publish(b"c")
    assert world.topic.log.end == 1


def test_a_failed_roll_drops_the_topic_without_a_publish() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=10)
    world.store.create_failure = None
    producer = world.producer()
    world.store.create_failure = DiskFull("no room")
    world.send(producer, b"a", b"b", b"c")
    world.clock.pump()
    assert (world.dropped, consumer.closed) == ([world.topic], True)
    world.store.create_failure = None
    world.reload()
    assert world.offsets(world.subscribe(permits=10)) == [0, 1, 2]


def test_an_owner_that_was_replaced_gives_up() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection)
    old = world.topic
    world.reload()
    world.send(producer, b"x")
    world.clock.pump()
    assert (connection.receipts, connection.closed_producers) == ([], [1])
    assert world.dropped == [old]
    assert world.topic.log.end == 0


def test_closing_notifies_all_clients_and_keeps_everything() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    world.producer(connection)
    consumer = world.subscribe(connection, permits=10)
    world.publish(b"a", b"b")
    world.ack(consumer, 0)
    world.do(world.topic.close())
    assert (connection.closed_producers, connection.closed_consumers) == ([1], [consumer.id])
    assert world.dropped == []
    assert all(segment.entries is not None for segment in world.topic.log.segments)
    world.reload()
    assert world.offsets(world.subscribe(permits=10)) == [1]


# Maintenance ------------------------------------------------------------------------------------


def test_what_every_durable_subscription_has_consumed_is_trimmed() -> None:
    world = TopicWorld(roll=BY_THREE)
    fast, slow = world.subscribe(sub="fast", permits=99), world.subscribe(sub="slow", permits=99)
    reader = world.subscribe(sub="reader", durable=False, permits=0)
    for _ in range(10):
        world.publish(b"x")
    world.ack(fast, 9, cumulative=True)
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 0
    world.ack(slow, 6, cumulative=True)
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 6
    world.flow(reader, 100)
    assert world.offsets(reader) == [6, 7, 8, 9]


def test_what_a_subscription_in_the_making_needs_is_not_trimmed() -> None:
    world = TopicWorld(roll=BY_THREE)
    for _ in range(4):
        world.publish(b"x", b"y", b"z")
    world.store.create_gate = world.clock.promise()
    making = world.begin_subscribe(RecordingConnection(), earliest=True)
    world.clock.pump()
    assert not making.done()
    world.do(trim_topic(world.topic))
    world.store.create_gate.set_result(None)
    world.clock.pump()
    consumer = making.result()
    world.flow(consumer, 100)
    assert world.offsets(consumer) == list(range(12))


def test_what_is_retained_stays_although_it_is_acknowledged() -> None:
    limits = TopicLimits(retention=Retention(minutes=1, megabytes=-1))
    world = TopicWorld(limits, roll=BY_THREE)
    for _ in range(7):
        world.publish(b"x")
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 0
    world.clock.advance(60)
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 6


def test_what_was_trimmed_before_its_ack_was_durable_holds_up_nothing_after_a_crash() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=100, sub_type=SHARED)
    world.publish(b"a", b"b", b"c")
    world.publish(b"d", b"e", b"f")
    world.ack(consumer, 1)
    world.ack(consumer, 0, 2, answered=False)
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 3
    world.crash()
    assert world.subscription().cursor.mark_delete == 2
    world.ack(world.subscribe(sub_type=SHARED), 3, 4, 5)
    world.publish(b"g")
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 6
