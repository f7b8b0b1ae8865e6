"""Chunked messages on a shared subscription."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.dispatch import chunked
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.shared import Shared
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.chunks import Chunk
from magnetar_proto.entries import encode_entry
from magnetar_storage.errors import Corrupt

ONE_BY_ONE = TopicLimits(max_round_robin_entries=1)


def chunk(uuid: str, number: int, of: int = 4, key: str | None = None) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, uuid=uuid, partition_key=key,
        num_chunks_from_msg=of, total_chunk_msg_size=of, chunk_id=number,
    )  # fmt: skip
    return encode_entry(metadata, b"")


def message(uuid: str, of: int = 4) -> list[bytes]:
    return [chunk(uuid, number, of) for number in range(of)]


def usual(count: int) -> list[bytes]:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return [encode_entry(metadata, b"")] * count


def shared(world: TopicWorld, permits: int = 0, **asked: Any) -> Consumer:
    return world.subscribe(permits=permits, sub_type=SHARED, **asked)


def blocker(world: TopicWorld) -> Blocker:
    return world.subscription().dispatcher.blocker()


def in_replay(world: TopicWorld) -> int:
    return world.subscription().dispatcher.in_replay


def test_all_chunks_of_a_message_go_to_one_consumer() -> None:
    world = TopicWorld(ONE_BY_ONE)
    first, second = shared(world, 100), shared(world, 100)
    one, other = message("one"), message("other")
    world.publish(*[entry for pair in zip(one, other, strict=True) for entry in pair])
    assert world.offsets(first) == [0, 2, 4, 6]
    assert world.offsets(second) == [1, 3, 5, 7]


def test_they_may_come_one_after_the_other() -> None:
    world = TopicWorld()
    first, second = shared(world, 100), shared(world, 100)
    for entry in message("one"):
        world.publish(entry)
        world.publish(*usual(1))
    assert [o for o in world.offsets(first) if o % 2 == 0] == [0, 2, 4, 6]
    assert not [o for o in world.offsets(second) if o % 2 == 0]


def test_chunks_for_a_consumer_without_permits_block_no_other() -> None:
    world = TopicWorld(ONE_BY_ONE)
    slow = shared(world, 1)
    world.publish(chunk("one", 0))
    fast = shared(world, 100)
    world.publish(chunk("one", 1), *usual(2), chunk("one", 2), *message("other"))
    assert (world.offsets(slow), world.offsets(fast)) == ([0], [2, 3, 5, 6, 7, 8])
    assert (blocker(world), in_replay(world)) == (Blocker.CHUNK, 2)
    world.publish(chunk("one", 3), *usual(1))
    assert world.offsets(fast) == [10]
    world.flow(slow, 2)
    assert world.offsets(slow) == [1, 4]
    world.flow(slow, 5)
    assert (world.offsets(slow), in_replay(world)) == ([9], 0)
    assert blocker(world) is Blocker.CAUGHT_UP


def test_an_orphan_goes_to_any_consumer_and_so_do_its_later_chunks() -> None:
    world = TopicWorld(ONE_BY_ONE)
    first, second = shared(world, 100), shared(world, 100)
    world.publish(chunk("one", 2, of=6), *usual(1), *(chunk("one", n, of=6) for n in (3, 4, 5)))
    assert world.offsets(first) == [0, 2, 3, 4]
    assert world.offsets(second) == [1]
    world.publish(chunk("last", 3))
    assert world.offsets(first) + world.offsets(second) == [5]


def test_a_message_moves_as_a_whole_when_its_consumer_leaves() -> None:
    world = TopicWorld(ONE_BY_ONE)
    leaving = shared(world, 2)
    world.publish(*message("one", 5)[:3])
    staying = shared(world, 100)
    world.publish(*usual(1))
    assert (world.offsets(leaving), world.offsets(staying)) == ([0, 1], [3])
    leaving.close()
    world.clock.pump()
    world.publish(*message("one", 5)[3:])
    assert world.offsets(staying) == [0, 1, 2, 4, 5]


def test_a_message_that_is_asked_for_again_comes_whole_and_in_order() -> None:
    world = TopicWorld(ONE_BY_ONE)
    asking, other = shared(world, 4), shared(world)
    world.publish(*message("one"))
    assert world.offsets(asking) == [0, 1, 2, 3]
    world.flow(other, 100)
    world.nack(asking, 3, 1, 0, 2)
    again = world.got(other)
    assert [(world.offset(m), m.redelivery_count) for m in again] == [(o, 1) for o in range(4)]


def test_requesting_one_chunk_delivers_its_message() -> None:
    world = TopicWorld()
    consumer = shared(world, 100)
    world.publish(*message("one"), *usual(1), *message("two", 2), chunk("three", 0))
    assert len(world.got(consumer)) == 8
    world.nack(consumer, 3)
    again = [(world.offset(m), m.redelivery_count) for m in world.got(consumer)]
    assert again == [(offset, 1) for offset in range(4)]
    world.ack(consumer, 0, 2)
    world.nack(consumer, 3, 5, 4)
    again = [(world.offset(m), m.redelivery_count) for m in world.got(consumer)]
    assert again == [(1, 2), (3, 2), (4, 1), (5, 1), (6, 1)]
    world.ack(consumer, 1, 3, 4, 5, 6, 7)
    dispatcher = world.subscription().dispatcher
    assert isinstance(dispatcher, Shared)
    assert not dispatcher._chunked.are_held


def test_an_orphan_that_comes_again_and_again_is_one_chunk() -> None:
    messages, consumer = chunked.ChunkedMessages(), shared(TopicWorld())
    for _ in range(3):
        messages.sent(Chunk(b"a", 1, 4), consumer, 7)
    assert [len(parts) for parts in messages._begun.values()] == [1]
    assert messages.with_their_messages([7]) == [7]


def test_requesting_all_chunks_delivers_each_once() -> None:
    messages, consumer = chunked.ChunkedMessages(), shared(TopicWorld())
    for number in range(4):
        messages.sent(Chunk(b"a", number, 4), consumer, number)
    assert messages.with_their_messages([2, 9, 0, 1, 3]) == [0, 1, 2, 3, 9]


def test_chunks_that_wait_come_behind_those_that_are_asked_for_again() -> None:
    world = TopicWorld(ONE_BY_ONE)
    asking = shared(world, 2)
    world.publish(*message("one")[:2])
    other = shared(world, 100)
    world.publish(*message("one")[2:])
    assert world.offsets(asking) == [0, 1]
    assert (in_replay(world), blocker(world)) == (2, Blocker.CHUNK)
    assert isinstance(other.connection, RecordingConnection)
    other.connection.room = False
    world.nack(asking, 0, 1)
    world.flow(asking, 10)
    assert (world.offsets(asking), world.offsets(other)) == ([0, 1, 2, 3], [])


def test_a_new_chunk_waits_behind_its_beginning_that_is_being_read() -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=150)
    leaving, staying = shared(world, 4), shared(world, 9)
    world.publish(*message("one", 6)[:4])
    for entry in usual(9):
        world.publish(entry)
    assert (world.offsets(leaving), len(world.got(staying))) == ([0, 1, 2, 3], 9)
    world.publish(chunk("one", 4, of=6))
    leaving.close()
    staying.subscription.flow(staying, 100)
    assert world.offsets(staying) == []  # the beginning is being read, this one is in memory
    world.clock.pump()
    assert world.offsets(staying) == [0, 1, 2, 3, 13]


def waiting_for_the_disk() -> tuple[TopicWorld, Consumer]:
    """A consumer with one chunk, for whom the next waits that memory has no longer."""
    world = TopicWorld(roll=BY_THREE, cache_bytes=150)
    slow = shared(world, 1)
    world.publish(chunk("one", 0))
    fast = shared(world, 9)
    world.publish(chunk("one", 1))
    for entry in usual(9):
        world.publish(entry)
    assert (world.offsets(slow), len(world.got(fast)), in_replay(world)) == ([0], 9, 1)
    return world, slow


def test_a_new_message_does_not_wait_behind_chunks_of_others_that_are_being_read() -> None:
    world, slow = waiting_for_the_disk()
    world.publish(chunk("new", 0))
    slow.subscription.flow(slow, 10)
    assert world.offsets(slow) == [11]
    world.clock.pump()
    assert world.offsets(slow) == [1]


def test_a_chunk_waits_behind_one_of_its_message_that_is_being_read() -> None:
    world, slow = waiting_for_the_disk()
    world.publish(chunk("one", 2))
    slow.subscription.flow(slow, 10)
    assert world.offsets(slow) == []
    world.clock.pump()
    assert world.offsets(slow) == [1, 11]


def test_a_restart_in_the_middle_begins_the_message_anew() -> None:
    world = TopicWorld(ONE_BY_ONE)
    shared(world, 100)
    world.publish(*message("one")[:3])
    world.reload()
    first, second = shared(world, 100), shared(world, 100)
    world.publish(*message("one")[3:], *usual(1))
    assert (world.offsets(first), world.offsets(second)) == ([0, 1, 2, 3], [4])


def test_acknowledged_chunks_do_not_wait() -> None:
    world = TopicWorld(ONE_BY_ONE)
    slow = shared(world, 1)
    world.publish(chunk("one", 0))
    other = shared(world, 100)
    world.publish(chunk("one", 1), chunk("one", 2))
    world.ack(other, 1)
    assert in_replay(world) == 1
    world.ack(other, 2)
    assert (in_replay(world), blocker(world)) == (0, Blocker.CAUGHT_UP)
    world.flow(slow, 10)
    world.publish(chunk("one", 3))
    assert world.offsets(slow) == [0, 3]


def test_a_seek_forgets_what_waits() -> None:
    world = TopicWorld(ONE_BY_ONE)
    shared(world, 1)
    world.publish(chunk("one", 0))
    shared(world, 100)
    world.publish(chunk("one", 1))
    assert in_replay(world) == 1
    world.do(world.subscription().seek(0))
    fresh = shared(world, 100)
    assert (world.offsets(fresh), in_replay(world)) == ([0, 1], 0)


def test_a_full_connection_lets_chunks_wait_for_it() -> None:
    world = TopicWorld(ONE_BY_ONE)
    connection = RecordingConnection()
    slow = shared(world, 100, connection=connection)
    world.publish(chunk("one", 0))
    connection.room = False
    fast = shared(world, 100)
    world.publish(chunk("one", 1), *usual(1))
    assert (world.offsets(slow), world.offsets(fast)) == ([0], [2])
    connection.room = True
    world.subscription().wake()
    assert world.offsets(slow) == [1]


def test_limits_of_unacknowledged_messages_hold_for_chunks() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_subscription=3))
    first = shared(world, 100)
    world.publish(*message("one"))
    assert (world.offsets(first), blocker(world)) == ([0, 1, 2], Blocker.UNACKED_SUBSCRIPTION)
    world.ack(first, 0, 1)
    assert world.offsets(first) == [3]


def test_chunks_and_others_together_keep_to_the_limit() -> None:
    world = TopicWorld(TopicLimits(max_unacked_per_consumer=3))
    consumer = shared(world, 100)
    world.publish(chunk("one", 0), *usual(3), counts=[1, 2, 1, 1])
    assert (world.offsets(consumer), blocker(world)) == ([0, 1], Blocker.UNACKED_CONSUMER)


def test_damage_among_chunks_that_wait_blocks_no_other() -> None:
    world = TopicWorld(ONE_BY_ONE, cache_bytes=1)
    slow = shared(world, 1)
    world.publish(chunk("one", 0))
    other = shared(world, 100)
    world.publish(*message("one")[1:3])
    world.got(slow)
    world.store.read_failure = Corrupt("file", 1, "rot")
    world.flow(slow, 10)
    assert (world.offsets(slow), in_replay(world)) == ([], 2)
    assert blocker(world) is Blocker.DAMAGE
    world.store.read_failure = None
    shared(world)
    world.flow(slow, 1)
    assert (world.offsets(slow), world.offsets(other)) == ([1, 2], [])


def test_only_so_many_unfinished_messages_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "REMEMBERED", 2)
    world = TopicWorld(ONE_BY_ONE)
    first = shared(world, 100)
    world.publish(*(chunk(uuid, 0) for uuid in "abc"))
    assert len(world.got(first)) == 3
    second = shared(world, 100)
    world.publish(*(chunk(uuid, 1) for uuid in "cb"))
    assert (len(world.got(first)), len(world.got(second))) == (2, 0)
    world.publish(chunk("a", 1))
    assert len(world.got(second)) == 1
