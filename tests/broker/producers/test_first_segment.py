"""A topic gets its first segment with its first message."""

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import TopicWorld
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_storage.errors import DiskFull, Unavailable


def producer(world: TopicWorld, connection: RecordingConnection, name: str = "p") -> Producer:
    return world.do(world.topic.producers.add(connection, ProducerRequest(1, name)))


def test_a_topic_that_only_has_producers_has_no_segment() -> None:
    world = TopicWorld()
    assert producer(world, RecordingConnection()).ready
    world.clock.pump()
    assert world.store.created == []
    assert world.topic.log.segments == ()


def test_runs_that_come_before_the_segment_are_stored_in_their_order() -> None:
    world = TopicWorld()
    one, other = RecordingConnection(), RecordingConnection()
    first, second = producer(world, one), producer(world, other, "q")
    gate = world.store.create_gate = world.clock.promise()
    for sender, payload in ((first, b"a"), (second, b"b"), (first, b"c")):
        world.send(sender, payload)
        world.clock.pump()
    assert (one.receipts, other.receipts) == ([], [])
    gate.set_result(None)
    world.clock.pump()
    world.send(second, b"d")
    world.clock.pump()
    run = world.do(world.topic.log.entries.read(0, 10, 1000))
    assert [bytes(payload)[-1:] for payload in run.payloads] == [b"a", b"b", b"c", b"d"]
    assert [receipt.entry for receipt in one.receipts] == [0, 2]
    assert [receipt.entry for receipt in other.receipts] == [1, 3]
    assert len(world.store.created) == 1


def test_a_producer_learns_of_runs_of_its_name_that_wait_for_the_segment() -> None:
    world = TopicWorld()
    world.do(world.topic.deduplication.set_enabled(True))
    sender = producer(world, RecordingConnection())
    gate = world.store.create_gate = world.clock.promise()
    world.send(sender, b"a", b"b")
    world.clock.pump()
    sender.close()
    opening = world.begin_producer(RecordingConnection())
    world.clock.pump()
    gate.set_result(None)
    world.clock.pump()
    assert opening.result().last_sequence_id == 1


def test_without_room_for_the_segment_all_producers_are_closed() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    sender = producer(world, connection)
    world.store.create_failure = DiskFull("no room")
    world.send(sender, b"a")
    world.send(sender, b"b")
    world.clock.pump()
    assert connection.receipts == []
    assert connection.published_entries == 2
    assert sender.closed
    assert world.topic.closed


def test_a_topic_that_is_closed_before_it_has_its_segment_leaves_none_behind() -> None:
    world = TopicWorld()
    sender = producer(world, RecordingConnection())
    gate = world.store.create_gate = world.clock.promise()
    world.send(sender, b"a")
    world.clock.pump()
    closing = world.begin(world.topic.close())
    gate.set_result(None)
    world.clock.pump()
    closing.result()
    listed = {segment.id for segment in world.topic.log.segments}

    async def present() -> set[int]:
        return {segment async for segment in world.store.segments()}

    assert world.do(present()) == listed


def test_while_the_store_fails_a_producer_is_refused_rather_than_its_messages() -> None:
    world = TopicWorld()
    world.store.is_failing = True
    world.store.create_failure = Unavailable("the disk is out")
    with pytest.raises(Unavailable, match="the disk is out"):
        producer(world, RecordingConnection())
    world.store.create_failure = None
    assert producer(world, RecordingConnection()).ready
    assert len(world.store.created) == 1
