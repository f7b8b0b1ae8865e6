"""Varints against the generated classes, which have their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadCommand, LocalError
from magnetar_proto.wire import (
    MAX64,
    decode_varint,
    encode_varint,
    to_signed64,
    to_unsigned64,
)

EDGES = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21, 2**28 - 1, 2**28, 2**35, 2**63, MAX64]
u64 = st.integers(0, MAX64) | st.sampled_from(EDGES)


@given(u64)
def test_encoding_is_that_of_protobuf(value: int) -> None:
    encoded = pb.CommandReachedEndOfTopic(consumer_id=value).SerializeToString()
    assert encode_varint(value) == encoded[1:]


@given(u64, st.binary(max_size=3), st.binary(max_size=3))
def test_decode_finds_value_and_end(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    end = len(before) + len(encoded)
    assert decode_varint(before + encoded + after, len(before)) == (value, end)


@pytest.mark.parametrize("value", [-1, MAX64 + 1])
def test_what_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(LocalError):
        encode_varint(value)


def test_values_above_64_bits_are_refused() -> None:
    with pytest.raises(BadCommand):
        decode_varint(b"\xff" * 9 + b"\x02", 0)


def test_an_eleventh_byte_is_refused_even_if_it_adds_nothing() -> None:
    assert decode_varint(b"\x80" * 9 + b"\x00", 0) == (0, 10)
    with pytest.raises(BadCommand):
        decode_varint(b"\x80" * 10 + b"\x00", 0)


def test_an_endless_varint_is_refused_after_ten_bytes() -> None:
    with pytest.raises(BadCommand):
        decode_varint(b"\x80" * 1_000_000, 0)


def test_a_varint_cut_short_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        decode_varint(b"\x80", 0)


@given(st.integers(-(2**63), 2**63 - 1))
def test_signs_survive_the_journey(value: int) -> None:
    assert 0 <= to_unsigned64(value) <= MAX64
    assert to_signed64(to_unsigned64(value)) == value


def test_minus_one_travels_as_the_largest_value() -> None:
    assert to_unsigned64(-1) == MAX64
    assert to_signed64(MAX64) == -1
