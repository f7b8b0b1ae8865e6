"""Batch bodies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch, encode_batch
from magnetar_proto.errors import BadBatch, LocalError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
singles = st.builds(
    pb.SingleMessageMetadata,
    partition_key=text,
    sequence_id=st.integers(0, 2**64 - 1),
    properties=st.lists(st.builds(pb.KeyValue, key=text, value=text), max_size=2),
)
batches = st.lists(st.tuples(singles, st.binary(max_size=30)), max_size=5)


def body_of(*payloads: bytes) -> bytes:
    return encode_batch([(pb.SingleMessageMetadata(), payload) for payload in payloads])


@given(batches)
def test_a_batch_comes_back(messages: list[tuple[pb.SingleMessageMetadata, bytes]]) -> None:
    assert decode_batch(encode_batch(messages), len(messages)) == messages


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31])
def test_another_number_of_messages_is_refused(count: int) -> None:
    with pytest.raises(BadBatch):
        decode_batch(body_of(b"one", b"two"), count)


def test_a_batch_cut_short_is_refused_at_every_byte() -> None:
    body = body_of(b"one", b"two")
    for size in range(len(body)):
        with pytest.raises(BadBatch):
            decode_batch(body[:size], 2)


@pytest.mark.parametrize("size", [-1, 4, 2**31 - 1])
def test_a_payload_size_that_lies_is_refused(size: int) -> None:
    metadata = pb.SingleMessageMetadata(payload_size=size).SerializeToString()
    with pytest.raises(BadBatch):
        decode_batch(len(metadata).to_bytes(4, "big") + metadata + b"one", 1)


def test_a_negative_size_cannot_lead_back_into_the_metadata() -> None:
    hidden = body_of(b"")
    metadata = pb.SingleMessageMetadata(payload_size=-len(hidden)).SerializeToString()
    metadata += b"\x12" + bytes((len(hidden),)) + hidden
    with pytest.raises(BadBatch):
        decode_batch(len(metadata).to_bytes(4, "big") + metadata, 2)


def test_metadata_without_a_payload_size_is_refused() -> None:
    metadata = pb.SingleMessageMetadata(partition_key="k").SerializePartialToString()
    with pytest.raises(BadBatch):
        decode_batch(len(metadata).to_bytes(4, "big") + metadata, 1)


def test_an_incomplete_property_is_refused_in_both_directions() -> None:
    metadata = pb.SingleMessageMetadata(payload_size=0, properties=[pb.KeyValue(key="k")])
    encoded = metadata.SerializePartialToString()
    with pytest.raises(BadBatch):
        decode_batch(len(encoded).to_bytes(4, "big") + encoded, 1)
    with pytest.raises(LocalError):
        encode_batch([(metadata, b"")])


@given(st.binary(max_size=60), st.integers(-1, 10))
def test_noise_is_a_batch_or_refused(noise: bytes, count: int) -> None:
    try:
        messages = decode_batch(noise, count)
    except BadBatch:
        return
    assert len(messages) == count
    assert all(metadata.payload_size == len(payload) for metadata, payload in messages)
