"""Arrow expressions for the sink's encodings: whole columns, without an object for each row.

A null stays null until `or_else` replaces it.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magnetar_proto.wire import encode_varint

GROUP_BITS = 14
"""The bits of a number in two bytes of its varint."""
LAST, NOTHING = 1 << GROUP_BITS, 2 << GROUP_BITS
"""Offsets in the table of two-byte groups: LAST, of final groups, and NOTHING, the empty group."""


def joined(*parts: pa.Array | bytes, separator: bytes = b"") -> pa.Array:
    """Join the parts row by row; null where a part is null."""
    arguments = [_scalar(part) if isinstance(part, bytes) else part for part in parts]
    return pc.call_function("binary_join_element_wise", [*arguments, _scalar(separator)])


@lru_cache(maxsize=1000)
def _scalar(value: bytes) -> pa.Scalar:
    # Creating a scalar takes as long as a pass over hundreds of rows.
    return pa.scalar(value, pa.binary())


def by_distinct(column: pa.Array, encode: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Apply `encode` to every value, once for equal values."""
    # Sizes and keys repeat a lot, and `encode` runs in Python.
    found = pc.dictionary_encode(column)
    encoded = pa.array([encode(value) for value in found.dictionary.to_pylist()], kind)
    return encoded.take(found.indices)


def or_else(column: pa.Array, other: bytes, nulls: pa.Array | None = None) -> pa.Array:
    """Return the column with values of `other` where the column, or `nulls`, is null."""
    where = column if nulls is None else nulls
    if not where.null_count:
        return column
    return pc.if_else(pc.is_null(where), _scalar(other), column)


def varints(numbers: pa.Array) -> pa.Array:
    """Encode numbers, taken as unsigned, as varints."""
    return joined(*varint_parts(numbers))


def varint_parts(numbers: pa.Array) -> list[pa.Array]:
    """Return the parts of varints, to be joined; each part has two bytes of all numbers."""
    # A negative number is the unsigned one of the same bits, as protobuf encodes it.
    rest = numbers.cast(pa.int64()).view(pa.uint64())
    highest = pc.max(rest).as_py() or 0
    parts: list[pa.Array] = []
    while not parts or highest:
        more = pc.shift_right(rest, _number(GROUP_BITS))
        group = pc.bit_wise_and(rest, _number(LAST - 1))
        # Two bytes at a time are looked up in a table: Arrow has no loop over the bytes of a row.
        is_last = pc.equal(more, _number(0))
        index = pc.if_else(is_last, pc.bit_wise_or(group, _number(LAST)), group)
        if parts:  # rows that ended in an earlier group add nothing, but a 0 needs its first byte
            index = pc.if_else(pc.equal(rest, _number(0)), _number(NOTHING), index)
        parts.append(_groups().take(index))
        rest = more
        highest >>= GROUP_BITS
    return parts


@cache
def _groups() -> pa.Array:
    followed = [bytes((0x80 | group & 0x7F, 0x80 | group >> 7)) for group in range(LAST)]
    last = [encode_varint(group) for group in range(LAST)]
    return pa.array([*followed, *last, b""], pa.binary())


@cache
def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())


def sized(tag: bytes, *parts: pa.Array) -> list[pa.Array]:
    """Return the parts, each row preceded by a tag and its size as a varint.

    They are to be joined later: each join copies everything.
    """
    data = [part.cast(pa.binary()) for part in parts]
    return [by_distinct(lengths(data), lambda size: tag + encode_varint(size), pa.binary()), *data]


def lengths(parts: Iterable[pa.Array]) -> pa.Array:
    """Return the total size of the parts in bytes, row by row."""
    return reduce(pc.add, map(pc.binary_length, parts))


def lists(column: pa.Array, items: pa.Array, separator: bytes = b"") -> pa.Array:
    """Join the encoded items of each list or map; null for a null list."""
    whole = pa.ListArray.from_arrays(column.offsets, items)
    found = pc.call_function("binary_join", [whole, _scalar(separator)])
    if not column.null_count:
        return found
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.binary()), found)


def millis(times: pa.Array) -> pa.Array:
    """Convert timestamps to milliseconds since 1970, rounded down."""
    micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    # Arrow rounds towards zero: this is the floor for times before 1970 as well.
    whole = pc.divide(micros, signed(1000))
    rest = pc.subtract(micros, pc.multiply(whole, signed(1000)))
    return pc.subtract(whole, pc.less(rest, signed(0)).cast(pa.int64()))


@cache
def signed(value: int) -> pa.Scalar:
    """Return the number as an Arrow scalar, for arithmetic and comparisons.

    For a Python number, Arrow looks each time for a module that is not installed.
    """
    return pa.scalar(value, pa.int64())


def fixed_bytes(column: pa.Array) -> pa.Array:
    """Return numbers of a fixed width as bytes, little-endian."""
    width: int = column.type.bit_width // 8
    return column.view(pa.binary(width)).cast(pa.binary())
