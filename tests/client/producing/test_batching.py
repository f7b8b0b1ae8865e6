"""What one SEND frame holds, and when a batch is full."""

from asyncio import AbstractEventLoop, Future, new_event_loop
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import entry_of
from magnetar.base.errors import MessageTooLarge
from magnetar.messages import MESSAGE_OVERHEAD, Entry, Outgoing
from magnetar.producing.batching import (
    UNBATCHED,
    Batch,
    BatchLimits,
    ChunkLimits,
    Packed,
    Sender,
    rides_alone,
    size_of,
)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.sends import decode_send

texts = st.text(max_size=20)
outgoing = st.builds(
    Outgoing,
    st.binary(max_size=200),
    key=st.none() | texts | st.binary(max_size=20),
    ordering_key=st.none() | st.binary(min_size=1, max_size=20),
    properties=st.dictionaries(texts, texts, max_size=3),
    event_time_ms=st.integers(0, 2**63 - 1),
)
values = st.binary(max_size=200)


def described(message: bytes | Outgoing) -> Outgoing:
    return Outgoing(message) if isinstance(message, bytes) else message


@given(st.lists(values | outgoing, min_size=1, max_size=20), st.sampled_from(range(5)))
def test_a_consumer_sees_what_was_sent(messages: list[bytes | Outgoing], compression: int) -> None:
    entry = entry_of(messages, compression=compression)
    received = [
        Outgoing(
            message.value,
            key=message.key,
            ordering_key=message.ordering_key or None,
            properties=message.properties,
            event_time_ms=message.event_time_ms,
        )
        for message in entry.messages()
    ]
    assert received == [described(message) for message in messages]
    assert entry.is_batch == (len(messages) > 1)
    assert entry.permits == len(messages)
    assert entry.metadata.publish_time == 1234


@given(st.lists(values | outgoing, min_size=1, max_size=5), st.booleans())
def test_command_and_metadata_name_the_transaction(
    messages: list[bytes | Outgoing], is_chunked: bool
) -> None:
    sender = Sender(7, "p", txn=(3, 2**63))
    frames = [sender.encode(messages, 9, 1234, 2**20)]
    if is_chunked:
        frames = sender.encode_chunks(bytes(300), 9, 1234, ChunkLimits(2**20, 100))
        assert len(frames) == 3
    for frame in frames:
        [(_, buf, start, mid, data)] = FrameDecoder(2**21).feed(frame)
        send = pb.BaseCommand.FromString(buf[start:mid]).send
        assert (send.txnid_most_bits, send.txnid_least_bits) == (3, 2**63)
        metadata = Entry("t", (1, 2, -1), data).metadata
        assert (metadata.txnid_most_bits, metadata.txnid_least_bits) == (3, 2**63)


@given(st.lists(values, min_size=2, max_size=20), st.sampled_from(range(5)), st.none() | texts)
def test_what_is_packed_is_sent_as_it_is(
    messages: list[bytes], compression: int, key: str | None
) -> None:
    heads = [pb.SingleMessageMetadata(payload_size=len(value)) for value in messages]
    body = encode_batch(list(zip(heads, messages, strict=True)))
    first, last = ids = (7, 7 + 3 * len(messages))
    packed = Packed(len(messages), body, key=key, ids=ids)
    frame = Sender(7, "p", compression).encode(packed, first, 1234, 2**20, ids)
    [(_, buf, start, mid, sent)] = FrameDecoder(2**21).feed(frame)
    assert decode_send(buf, start, mid) == (7, first, len(messages), last)
    entry = Entry("t", (0, 0, -1), sent)
    assert [message.value for message in entry.messages()] == messages
    assert entry.metadata.HasField("partition_key") == (key is not None)
    assert (entry.metadata.sequence_id, entry.metadata.highest_sequence_id) == ids


@given(st.lists(values, min_size=1, max_size=20), st.integers(0, 2**40))
def test_sequence_ids_span_the_batch(messages: list[bytes], sequence_id: int) -> None:
    frame = Sender(7, "p").encode(messages, sequence_id, 0, 2**20)
    [(_, buf, start, mid, _)] = FrameDecoder(2**21).feed(frame)
    highest = sequence_id + len(messages) - 1 if len(messages) > 1 else 0
    assert decode_send(buf, start, mid) == (7, sequence_id, len(messages), highest)


def test_the_first_key_stands_for_the_batch() -> None:
    entry = entry_of([Outgoing(b"a", key="first", ordering_key=b"o"), Outgoing(b"b", key="second")])
    assert entry.metadata.partition_key == "first"
    assert entry.metadata.ordering_key == b"o"
    assert not entry.metadata.properties


def test_a_delayed_message_rides_alone() -> None:
    message = Outgoing(b"later", deliver_at_ms=99)
    assert rides_alone(message)
    assert not rides_alone(Outgoing(b"now"))
    assert not rides_alone(b"now")
    assert entry_of([message]).metadata.deliver_at_time == 99


def test_what_the_broker_would_refuse_is_not_sent() -> None:
    sender = Sender(1, "p")
    with pytest.raises(MessageTooLarge, match="accepts 100"):
        sender.encode([bytes(100)], 0, 0, 100)
    compressing = Sender(1, "p", pb.LZ4)
    assert len(compressing.encode([bytes(10_000)], 0, 0, 1000)) < 1000


@pytest.fixture
def loop() -> Iterator[AbstractEventLoop]:
    loop = new_event_loop()
    yield loop
    loop.close()


def batch_in(loop: AbstractEventLoop) -> Batch:
    done: Future[tuple[int, int]] = loop.create_future()
    return Batch(done)


def test_a_batch_is_full_by_count_or_by_size(loop: AbstractEventLoop) -> None:
    limits = BatchLimits(max_messages=2, max_bytes=1000)
    batch = batch_in(loop)
    assert batch.add(b"x") == 0
    assert not batch.is_full(limits)
    assert batch.has_room(b"y", limits)
    assert not batch.has_room(bytes(1000), limits)
    assert batch.add(b"y") == 1
    assert batch.is_full(limits)
    assert not batch.has_room(b"", limits)
    large = batch_in(loop)
    assert large.has_room(bytes(5000), limits), "a first message always may"
    large.add(bytes(5000))
    assert large.is_full(limits)


def test_without_batching_one_message_fills_a_batch(loop: AbstractEventLoop) -> None:
    batch = batch_in(loop)
    batch.add(b"")
    assert batch.is_full(UNBATCHED)


def test_properties_count_towards_the_size() -> None:
    assert size_of(b"12345") == MESSAGE_OVERHEAD + 5
    assert size_of(Outgoing(b"12345", properties={"ab": "cde"})) == MESSAGE_OVERHEAD + 10


@pytest.mark.parametrize("wrong", [{"max_messages": 0}, {"max_bytes": 0}, {"max_delay_ms": -1.0}])
def test_limits_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        BatchLimits(**wrong)


def test_a_batch_has_one_schema_version(loop: AbstractEventLoop) -> None:
    batch = Batch(loop.create_future())
    plain, other = Outgoing(b"a"), Outgoing(b"b", schema_version=b"1")
    for message in (b"a", plain, other):
        assert batch.has_room(message, BatchLimits())
    batch.add(other)
    assert batch.has_room(other, BatchLimits())
    assert not batch.has_room(plain, BatchLimits())
    assert not batch.has_room(b"a", BatchLimits())
    assert not batch.has_room(Outgoing(b"b", schema_version=b"2"), BatchLimits())
