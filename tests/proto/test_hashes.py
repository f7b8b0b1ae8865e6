"""Hashes whose values other clients and brokers compute too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto.hashes import (
    RING_SLOTS,
    cpp_string_hash,
    java_string_hash,
    murmur3_32,
    range_slot,
    ring_slot,
    topics_hash,
)


@pytest.mark.parametrize(
    ("key", "value"), [(b"key1", 462881061), (b"key2", 1936800180), (b"k1", 2110152746), (b"", 0)]
)
def test_murmur3(key: bytes, value: int) -> None:
    assert murmur3_32(key) == value


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("a", 6), ("ab", 86), ("abc", 39), ("abcd", 49), ("abcdefgh", 11), ("abcdefghi", 21),
        ("customer-1", 63), ("customer-22", 74), ("x" * 40, 77),
        ("\u00e9t\u00e9-\u043a\u043b\u044e\u0447-\u957f", 75),
    ],
)  # fmt: skip
def test_the_official_python_client_chose_these_of_97_partitions(key: str, partition: int) -> None:
    assert cpp_string_hash(key) % 97 == partition


def test_the_slots_of_a_key() -> None:
    assert (ring_slot(b"key1"), range_slot(b"key1")) == (7357, 293)


def test_the_documents_example_of_a_slot() -> None:
    """The documents count without masking the sign bit: 3112179635 is key Order-3459134."""
    assert murmur3_32(b"Order-3459134") == 3112179635 - 2**31
    assert ring_slot(b"Order-3459134") == (3112179635 - 2**31) % 65535 + 1


@given(st.binary(max_size=20))
def test_every_key_has_a_slot_that_is_not_zero(key: bytes) -> None:
    assert 1 <= ring_slot(key) <= RING_SLOTS
    assert 1 <= range_slot(key) <= 65535


def test_slot_zero_is_moved() -> None:
    assert (murmur3_32(b""), ring_slot(b""), range_slot(b"")) == (0, 1, 1)


@given(st.binary(max_size=100))
def test_murmur3_has_no_sign_bit(data: bytes) -> None:
    assert 0 <= murmur3_32(data) < 2**31


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("key1", 3288498),
        ("\u00e9", 233),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
        ("polygenelubricants", 0),  # the sign bit alone, masked
    ],
)
def test_java_string_hash(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_topics_hash_of_nothing() -> None:
    assert topics_hash([]) == "00000000"


def test_topics_hash_is_crc32c_lowest_byte_first() -> None:
    # CRC32C of "123456789" is e3069283, the algorithm's check value.
    assert topics_hash(["123456789"]) == "839206e3"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_topics_hash_knows_no_order(names: list[str]) -> None:
    assert topics_hash(names) == topics_hash(reversed(names))
