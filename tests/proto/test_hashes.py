"""Hashes whose values other clients and brokers compute too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto.hashes import java_string_hash, murmur3_32, topics_hash


@pytest.mark.parametrize(
    ("key", "value"), [(b"key1", 462881061), (b"key2", 1936800180), (b"k1", 2110152746), (b"", 0)]
)
def test_murmur3(key: bytes, value: int) -> None:
    assert murmur3_32(key) == value


@pytest.mark.parametrize(("size", "slot"), [(65535, 7356), (65536, 293)])
def test_murmur3_gives_the_known_key_shared_slot(size: int, slot: int) -> None:
    assert murmur3_32(b"key1") % size == slot


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
