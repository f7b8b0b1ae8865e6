"""Plain values as bytes: they arrive as they were, and nothing else does."""

import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.ipc.values import DEPTH, LARGEST_INT_BYTES, decode_value, encode_value

KEYS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())  # surrogates, too
    | st.binary()
)
HASHABLE = st.recursive(KEYS, lambda inner: st.lists(inner).map(tuple), max_leaves=6)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(HASHABLE)
        | st.dictionaries(HASHABLE, inner)
    ),
    max_leaves=20,
)


def typed(value: Any) -> Any:
    """Return a value that is equal only for the same types, order and signs of zero."""
    if isinstance(value, tuple | list):
        return type(value), [typed(item) for item in value]
    if isinstance(value, set):
        return set, {repr(typed(item)) for item in value}
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), repr(value)


@given(value=VALUES)
@settings(max_examples=examples(1000))
def test_values_arrive_as_they_were(value: Any) -> None:
    assert typed(decode_value(encode_value(value))) == typed(value)


@pytest.mark.parametrize(
    "value",
    [
        *(sign * ((1 << bits) + more) for bits in (7, 8, 31, 63, 64) for more in (-1, 0, 1)
          for sign in (1, -1)),
        *("x" * size for size in (0, 63, 64, 65, 1 << 16)),
        *("é" * size for size in (31, 32)),
        *(tuple(range(size)) for size in (0, 31, 32, 33)),
        float("inf"), float("nan"), -0.0, "a\udc80b", b"", set(), {}, [],
    ],
)  # fmt: skip
def test_values_at_the_edges_of_their_forms(value: Any) -> None:
    assert typed(decode_value(encode_value(value))) == typed(value)


def test_the_form_of_every_tag() -> None:
    """Other versions read these bytes: a changed form needs a tag of its own."""
    value = (
        5, "é", None, False, True, -2, 1 << 64, 1.5, "x" * 64, b"ab", (0,) * 32, [1], {2}, {3: 4},
    )  # fmt: skip
    size = struct.Struct(">I").pack
    assert encode_value(value) == (
        b"\xce\x05\x82\xc3\xa9\xe0\xe1\xe2"
        b"\xe3\xff\xff\xff\xff\xff\xff\xff\xfe"
        b"\xe4" + size(9) + b"\x01" + bytes(8) + b"\xe5\x3f\xf8" + bytes(6) + b"\xe6" + size(64)
        + b"x" * 64 + b"\xe7" + size(2) + b"ab\xe8" + size(32) + bytes(32) + b"\xe9" + size(1)
        + b"\x01\xea" + size(1) + b"\x02\xeb" + size(1) + b"\x03\x04"
    )  # fmt: skip


@given(value=VALUES, data=st.data())
@settings(max_examples=examples(300))
def test_a_part_of_a_value_is_refused(value: Any, data: st.DataObject) -> None:
    encoded = encode_value(value)
    end = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(ValueError, match="ends within a value"):
        decode_value(encoded[:end])


@given(junk=st.binary(max_size=200))
@settings(max_examples=examples(1000))
def test_junk_is_a_value_or_refused(junk: bytes) -> None:
    try:
        value = decode_value(junk)
    except ValueError:
        return
    assert typed(decode_value(encode_value(value))) == typed(value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends within a value"),
        (b"\xec\0\0\0\0", "the tag 0xec is unknown"),
        (b"\xff\0\0\0\0", "the tag 0xff is unknown"),
        (b"\x01\x01", "1 bytes follow the value"),
        (b"\x81\xff", "utf-8"),
        (b"\xe6\0\0\0\2x", "ends within a value"),
        (b"\xe7\xff\xff\xff\xffx", "ends within a value"),
        (b"\xe9\xff\xff\xff\xff\x01", "ends within a value"),
        (b"\xeb\0\0\0\1\x01", "ends within a value"),
        (b"\xea\0\0\0\2\x01\x01", "a set has the same twice"),
        (b"\xeb\0\0\0\2\x01\x01\xe2\x01", "a dict has the same twice"),
        (b"\xea\0\0\0\1\xe9\0\0\0\0", "a set with what cannot be in one: unhashable"),
        (b"\xeb\0\0\0\1\xc1\xe9\0\0\0\0\0", "a dict with what cannot be in one: unhashable"),
        (b"\xe4\0\0\x04\1" + bytes(1025), "an int of 1025 bytes"),
    ],
)
def test_other_bytes_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_value(data)


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    "value",
    [object(), 1j, Pair(1, 2), bytearray(b"x"), memoryview(b"x"), frozenset(), range(3), ..., int],
)
def test_other_objects_are_not_sent(value: Any) -> None:
    for whole in (value, [value], {"key": (1, value)}):
        with pytest.raises(ValueError, match=f"of type {type(value).__name__} cannot be sent"):
            encode_value(whole)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_int_above_the_limit_is_not_sent(sign: int) -> None:
    largest = sign * ((1 << 8 * LARGEST_INT_BYTES - 1) - 1)
    assert decode_value(encode_value(largest)) == largest
    with pytest.raises(ValueError, match="an int of 1025 bytes"):
        encode_value(largest * 2 + sign * 2)


def test_a_value_that_is_nested_too_deeply_is_neither_sent_nor_read() -> None:
    value: Any = 0
    for _ in range(DEPTH):
        value = [value]
    assert decode_value(encode_value(value)) == value
    with pytest.raises(ValueError, match="more than 32 deep"):
        encode_value([value])
    for deep in (b"\xc1" * 1_000_000, b"\xe9\0\0\0\1" * 1_000_000, b"\xea\0\0\0\1" * 100):
        with pytest.raises(ValueError, match="more than 32 deep"):
            decode_value(deep + b"\0")
    with pytest.raises(ValueError, match="more than 32 deep"):
        decode_value(b"\xeb\0\0\0\1\0" * 100 + b"\0")


def test_a_cycle_is_not_sent() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="more than 32 deep"):
        encode_value(cycle)
