"""What is published: answered in order, when it is durable."""

import pytest

from fakes.connection import Receipt, RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import TopicWorld
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_storage.errors import DiskFull, WriterFailed


def test_a_run_is_answered_when_it_is_durable() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection, producer_id=7)
    sends = world.send(producer, b"abc", b"d", counts=[1, 5])
    assert (connection.receipts, producer.pending) == ([], 2)
    world.clock.pump()
    ledger, _ = world.topic.log.position(0)
    assert connection.receipts == [Receipt(7, 0, 0, ledger, 0), Receipt(7, 1, 0, ledger, 1)]
    assert (connection.published_entries, connection.published_bytes) == (2, sends.size)
    assert (producer.pending, *world.topic.totals()[:2]) == (0, 6, 4)


def test_receipts_keep_their_order_over_a_roll() -> None:
    world = TopicWorld(roll=BY_THREE)
    connection = RecordingConnection()
    producer = world.producer(connection)
    for _ in range(10):
        world.send(producer, b"x", b"y")
        world.clock.step()
    world.clock.pump()
    positions = [(r.ledger, r.entry) for r in connection.receipts]
    assert positions == [world.topic.log.position(offset) for offset in range(20)]


def test_a_producer_that_left_is_answered_nothing_but_its_messages_stay() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection)
    world.send(producer, b"a")
    answered: list[str] = []
    producer.when_answered(lambda: answered.append("all"))
    producer.close()
    assert answered == []
    world.clock.pump()
    assert (connection.receipts, connection.published_entries, answered) == ([], 1, ["all"])
    assert world.topic.log.end == 1
    producer.when_answered(lambda: answered.append("at once"))
    assert answered == ["all", "at once"]


def test_many_producers_at_once_write_into_one_segment() -> None:
    world = TopicWorld()
    world.store.create_gate = gate = world.clock.promise()
    joining = [
        world.begin(world.topic.producers.add(RecordingConnection(), ProducerRequest(1, name)))
        for name in "abc"
    ]
    gate.set_result(None)
    world.clock.pump()
    for one in joining:
        world.send(one.result(), b"x")
    world.clock.pump()
    assert [segment.entries for segment in world.topic.log.segments] == [None]
    assert world.topic.log.end == 3


# Before the log has a segment -----------------------------------------------------------


def newcomer(world: TopicWorld, connection: RecordingConnection) -> Producer:
    """One without a segment."""
    return world.do(world.topic.producers.add(connection, ProducerRequest(1, "p")))


def test_the_first_runs_wait_for_a_segment_and_keep_their_order() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = newcomer(world, connection)
    gate = world.store.create_gate = world.clock.promise()
    world.send(producer, b"a")
    world.send(producer, b"b")
    world.clock.pump()
    assert connection.published_entries == 0
    gate.set_result(None)
    world.clock.pump()
    ledger, _ = world.topic.log.position(0)
    assert [(one.ledger, one.entry) for one in connection.receipts] == [(ledger, 0), (ledger, 1)]
    assert world.do(world.topic.log.entries.read(0, 9, 99)).payloads == [b"a", b"b"]


def test_without_a_segment_the_first_runs_fail_and_the_topic_is_dropped() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = newcomer(world, connection)
    world.store.create_failure = DiskFull("no room")
    world.send(producer, b"a")
    world.send(producer, b"b")
    world.clock.pump()
    assert (connection.receipts, connection.published_entries) == ([], 2)
    assert (connection.closed_producers, world.dropped) == ([1], [world.topic])
    world.store.create_failure = None
    with pytest.raises(WriterFailed, match="was closed"):
        world.do(world.topic.log.rollover.start_writing())
    world.reload()
    world.publish(b"c")
    assert world.topic.log.end == 1


def test_a_topic_that_ends_before_it_has_a_segment_drops_what_comes() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = newcomer(world, connection)
    gate = world.store.create_gate = world.clock.promise()
    world.send(producer, b"a")
    world.clock.pump()
    ending = world.begin(world.topic.terminate())
    gate.set_result(None)
    world.clock.pump()
    ending.result()
    world.send(producer, b"b")
    world.clock.pump()
    assert (connection.receipts, connection.published_entries) == ([], 2)
    assert (world.topic.log.end, world.dropped) == (0, [])
