"""Topics that take no message any more."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.base.errors import NotReady, TopicTerminated
from magnetar_broker.expiry.trimming import truncate
from magnetar_broker.producers.access import Claim, Mode
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_proto.ids import MessageId
from magnetar_storage.errors import Unavailable


def terminated(world: TopicWorld) -> MessageId:
    last = world.do(world.topic.terminate())
    world.clock.pump()
    return last


def test_the_last_message_is_answered_and_no_more_is_accepted() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection)
    world.send(producer, entry(0), entry(1))
    last = terminated(world)
    assert last == MessageId(*world.topic.log.position(1))
    assert len(connection.receipts) == 2
    assert connection.closed_producers == [producer.id]
    for _ in range(2):
        with pytest.raises(TopicTerminated, match="takes no more messages"):
            world.producer()
        assert terminated(world) == last, "again"
        world.crash()
    assert world.topic.log.end == 2


def test_the_last_message_is_answered_again_when_it_is_deleted() -> None:
    world = TopicWorld(roll=BY_THREE)
    world.publish(*(entry(time) for time in range(5)))
    last = terminated(world)
    assert last == MessageId(*world.topic.log.position(4))
    world.do(truncate(world.topic))
    assert world.topic.log.segments == ()
    for _ in range(2):
        assert terminated(world) == last
        world.crash()


def test_an_empty_topic() -> None:
    world = TopicWorld()
    assert terminated(world) == MessageId(-1, -1)
    world.crash()
    with pytest.raises(TopicTerminated):
        world.producer()


@pytest.mark.parametrize("written", [False, True])
def test_what_comes_meanwhile_is_answered_or_its_producer_is_closed(written: bool) -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    adding = world.topic.producers.add(connection, ProducerRequest(1, "p"))
    producer = world.do(adding)
    if written:
        world.publish(entry(9))
    before = world.topic.log.end
    if written:
        world.send(producer, entry(0))
    gate, put = world.clock.promise(), world.metadata.put

    async def wait(*asked: Any) -> int:
        await gate
        return await put(*asked)

    world.metadata.put = wait  # type: ignore[assignment]
    if not written:  # it waits for the log's first segment
        world.send(producer, entry(0))
    ending = world.begin(world.topic.terminate())
    world.send(producer, entry(1))
    with pytest.raises(NotReady, match="is being terminated"):
        world.begin_producer(RecordingConnection(), "other").result()
    assert connection.closed_producers == []
    gate.set_result(None)
    world.clock.pump()
    assert ending.done()
    assert connection.closed_producers == [producer.id]
    assert world.topic.log.end - before == len(connection.receipts) == written
    assert (producer.pending, connection.published_entries) == (0, 2)
    world.crash()
    assert world.topic.log.terminated
    assert world.topic.log.end == before + written


def test_producers_that_wait_for_their_turn_are_closed() -> None:
    world = TopicWorld()
    world.producer(claim=Claim(Mode.EXCLUSIVE))
    waiting = world.producer(name="w", producer_id=2, claim=Claim(Mode.WAITING))
    refusals: list[object] = []
    waiting.on_turn = refusals.append
    terminated(world)
    assert [type(refusal) for refusal in refusals] == [NotReady]


def test_a_termination_that_fails_drops_the_topic_and_its_producers_come_back() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    world.producer(connection)
    world.publish(entry(0))
    with world.failing_metadata(), pytest.raises(Unavailable):
        terminated(world)
    assert world.dropped == [world.topic]
    assert connection.closed_producers == [1]
    world.reload()
    world.producer()
    world.publish(entry(1))
    assert world.topic.log.end == 2


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_consumers_are_notified_of_the_end_once_nothing_is_left(sub_type: int) -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    consumer = world.subscribe(connection, sub_type=sub_type, permits=10)
    world.clock.advance(2)
    world.publish(entry(0), entry(1))
    terminated(world)
    assert world.offsets(consumer) == [0, 1], "what there is is delivered as ever"
    world.ack(consumer, 0)
    assert connection.ended == []
    world.ack(consumer, 1)
    assert connection.ended == [consumer.id]
    world.ack(consumer, 1)
    world.flow(consumer, 1)
    assert connection.ended == [consumer.id], "once"


def test_consumers_at_the_end_are_notified_at_once_and_joiners_with_their_permits() -> None:
    world = TopicWorld()
    present, later = RecordingConnection(), RecordingConnection()
    consumer = world.subscribe(present)
    terminated(world)
    assert present.ended == [consumer.id]
    world.crash()
    other = world.subscribe(later)
    assert later.ended == []
    world.flow(other, 1)
    assert later.ended == [other.id]
    reader = world.subscribe(RecordingConnection(), sub="reader", durable=False, permits=1)
    assert isinstance(reader.connection, RecordingConnection)
    assert reader.connection.ended == [reader.id]


def test_what_is_skipped_is_not_left() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    consumer = world.subscribe(connection)
    world.publish(entry(0))
    terminated(world)
    world.subscription().skip(range(1))
    assert connection.ended == [consumer.id]
