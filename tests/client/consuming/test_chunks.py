"""Chunks of messages, in every order in which they may come."""

from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.chunks import ChunkJoiner
from magnetar.messages import Entry
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry

TOPIC = "persistent://public/default/t"


def chunk(uuid: str, number: int, of: int, entry: int, payload: bytes = b"x") -> Entry:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, uuid=uuid, chunk_id=number,
        num_chunks_from_msg=of, total_chunk_msg_size=of * len(payload),
    )  # fmt: skip
    return Entry(TOPIC, (1, entry, -1), encode_entry(metadata, payload))


def test_chunks_of_two_messages_may_alternate() -> None:
    joiner = ChunkJoiner(10, 60)
    assert joiner.add(chunk("a", 0, 2, 0, b"a0"), 0).entry is None
    assert joiner.add(chunk("b", 0, 2, 1, b"b0"), 0).entry is None
    first = joiner.add(chunk("a", 1, 2, 2, b"a1"), 0).entry
    second = joiner.add(chunk("b", 1, 2, 3, b"b1"), 0).entry
    assert first is not None and second is not None
    assert [(m.value, m.id[:2]) for m in (*first.messages(), *second.messages())] == [
        (b"a0a1", (1, 2)), (b"b0b1", (1, 3)),
    ]  # fmt: skip
    assert first.chunks == [(1, 0), (1, 2)]
    acks = AckTracker()
    acks.ack(first.messages())
    assert acks.take() == [(1, 0, ()), (1, 2, ())]
    assert not len(joiner)


def test_a_chunk_that_comes_again_is_superfluous() -> None:
    joiner = ChunkJoiner(10, 60)
    joiner.add(chunk("a", 0, 3, 0), 0)
    joiner.add(chunk("a", 1, 3, 1), 0)
    again = joiner.add(chunk("a", 1, 3, 2), 0)
    assert [one.entry for one in again.superfluous] == [2]
    done = joiner.add(chunk("a", 2, 3, 3), 0)
    assert done.entry is not None and done.entry.chunks == [(1, 0), (1, 1), (1, 3)]


def test_a_message_that_begins_again_is_not_mixed_with_its_former_self() -> None:
    joiner = ChunkJoiner(10, 60)
    joiner.add(chunk("a", 0, 2, 0, b"old"), 0)
    again = joiner.add(chunk("a", 0, 2, 5, b"new"), 0)
    assert [one.entry for one in again.superfluous] == [0]
    done = joiner.add(chunk("a", 1, 2, 6, b"end"), 0)
    assert done.entry is not None and done.entry.payload() == b"newend"


def test_a_gap_ends_the_message() -> None:
    joiner = ChunkJoiner(10, 60)
    assert "part 2/2" in joiner.add(chunk("a", 1, 2, 0), 0).orphan
    joiner.add(chunk("b", 0, 3, 1), 0)
    outcome = joiner.add(chunk("b", 2, 3, 2), 0)
    assert outcome.orphan
    [(chunks, why)] = outcome.given_up
    assert ([one.entry for one in chunks], "part 3/3" in why) == ([1], True)
    assert not len(joiner)


def test_the_oldest_of_too_many_is_given_up() -> None:
    joiner = ChunkJoiner(2, 60)
    joiner.add(chunk("a", 0, 2, 0), 0)
    joiner.add(chunk("b", 0, 2, 1), 0)
    [(chunks, why)] = joiner.add(chunk("c", 0, 2, 2), 0).displaced
    assert ([one.entry for one in chunks], "max_pending_chunked" in why) == ([0], True)


def test_what_stays_incomplete_expires() -> None:
    joiner = ChunkJoiner(10, 60)
    joiner.add(chunk("a", 0, 2, 0), 100)
    joiner.add(chunk("b", 0, 2, 1), 130)
    assert joiner.next_expiry_s() == 160
    assert joiner.expired(159) == []
    [(chunks, why)] = joiner.expired(160)
    assert ([one.entry for one in chunks], "60 s" in why) == ([0], True)
    assert joiner.next_expiry_s() == 190


def test_more_than_the_message_was_to_have_is_not_kept() -> None:
    joiner = ChunkJoiner(10, 60)
    joiner.add(chunk("a", 0, 2, 0, b"x"), 0)
    outcome = joiner.add(chunk("a", 1, 2, 1, b"much more"), 0)
    assert outcome.entry is None and outcome.orphan
