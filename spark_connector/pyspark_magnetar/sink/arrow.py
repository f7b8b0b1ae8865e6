"""Arrow expressions that the sink's encodings are made of: whole columns, no object for each row.

A null stays null until `or_else` replaces it.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magnetar_proto.wire import encode_varint

LAST_BYTE = 256
"""In the table of the bytes of varints, the place of the byte that there is none."""


def joined(*parts: pa.Array | bytes, separator: bytes = b"") -> pa.Array:
    """Row by row the parts behind each other; null where one of them is null."""
    arguments = [_scalar(part) if isinstance(part, bytes) else part for part in parts]
    return pc.call_function("binary_join_element_wise", [*arguments, _scalar(separator)])


@lru_cache(maxsize=1000)
def _scalar(value: bytes) -> pa.Scalar:
    # Making one takes as long as a pass over hundreds of rows.
    return pa.scalar(value, pa.binary())


def by_distinct(column: pa.Array, encode: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """`encode` of every value, called once for equal ones."""
    found = pc.dictionary_encode(column)
    encoded = pa.array([encode(value) for value in found.dictionary.to_pylist()], kind)
    return encoded.take(found.indices)


def or_else(column: pa.Array, other: bytes, nulls: pa.Array | None = None) -> pa.Array:
    """The column with `other` where it, or where `nulls`, is null."""
    where = column if nulls is None else nulls
    if not where.null_count:
        return column
    return pc.if_else(pc.is_null(where), _scalar(other), column)


def varints(numbers: pa.Array) -> pa.Array:
    """Numbers, taken as unsigned, as varints: a byte of all of them at a time."""
    rest = numbers.cast(pa.int64()).view(pa.uint64())
    highest = pc.max(rest).as_py() or 0
    parts = []
    for place in range(len(encode_varint(highest))):
        more = pc.shift_right(rest, _number(7))
        low = pc.bit_wise_and(rest, _number(127))
        index = pc.if_else(pc.equal(more, _number(0)), low, pc.bit_wise_or(low, _number(128)))
        if place:
            index = pc.if_else(pc.equal(rest, _number(0)), _number(LAST_BYTE), index)
        parts.append(_bytes_by_value().take(index))
        rest = more
    return joined(*parts)


@cache
def _bytes_by_value() -> pa.Array:
    return pa.array([*(bytes((value,)) for value in range(LAST_BYTE)), b""], pa.binary())


@cache
def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())


def sized(column: pa.Array, tag: bytes = b"") -> pa.Array:
    """Bytes or text behind its size as a varint, which is behind a tag."""
    data = column.cast(pa.binary())
    heads = by_distinct(pc.binary_length(data), lambda size: tag + encode_varint(size), pa.binary())
    return joined(heads, data)


def lists(column: pa.Array, items: pa.Array, separator: bytes = b"") -> pa.Array:
    """Row by row the encoded items of a list or map behind each other; null for a null list."""
    whole = pa.ListArray.from_arrays(column.offsets, items)
    found = pc.call_function("binary_join", [whole, _scalar(separator)])
    if not column.null_count:
        return found
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.binary()), found)


def millis(times: pa.Array) -> pa.Array:
    """Timestamps as milliseconds since 1970; of a fraction the past one."""
    micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    # Arrow divides towards zero: this is the floor for times before 1970 as well.
    past = pc.and_(pc.less(micros, 0), pc.not_equal(_rest(micros), 0))
    return pc.subtract(pc.divide(micros, 1000), past.cast(pa.int64()))


def fixed_bytes(column: pa.Array) -> pa.Array:
    """Numbers of a fixed width as their bytes, the lowest first."""
    width: int = column.type.bit_width // 8
    return column.view(pa.binary(width)).cast(pa.binary())


def _rest(micros: pa.Array) -> pa.Array:
    return pc.subtract(micros, pc.multiply(pc.divide(micros, 1000), 1000))
