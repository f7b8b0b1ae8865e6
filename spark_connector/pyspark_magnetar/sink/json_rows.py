"""Rows as JSON objects, a column at a time."""

import base64
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_magnetar.sink.arrow import by_distinct, joined, lists, or_else

NULL = b"null"
ESCAPED = r'[\x00-\x1f"\\]'
"""The characters that must be escaped in a JSON string."""


def require_json(fields: list[StructField]) -> None:
    """Raise a ValueError that names a type which JSON cannot hold without loss."""
    for field in fields:
        _require(field.dataType)


def _require(kind: DataType) -> None:
    match kind:
        case ArrayType():
            _require(kind.elementType)
        case MapType(keyType=StringType()):
            _require(kind.valueType)
        case StructType():
            require_json(kind.fields)
        case _ if type(kind) not in ENCODERS:
            raise ValueError(f"{kind.simpleString()} has no form in JSON: cast it to another type")


def encode_objects(columns: list[pa.Array], fields: list[StructField]) -> pa.Array:
    """Encode each row as an object."""
    parts: list[pa.Array | bytes] = []
    for index, (column, field) in enumerate(zip(columns, fields, strict=True)):
        parts.append((b"," if index else b"{") + json.dumps(field.name).encode() + b":")
        parts.append(_encode_maybe(column, field.dataType))
    return joined(*parts, b"}")


def _encode_maybe(column: pa.Array, kind: DataType) -> pa.Array:
    return or_else(_encode(column, kind), NULL, column)


def _encode(column: pa.Array, kind: DataType) -> pa.Array:
    encode = ENCODERS.get(type(kind))
    if encode is not None:
        return encode(column)
    match kind:
        case ArrayType():
            items = _encode_maybe(column.values, kind.elementType)
            return joined(b"[", lists(column, items, b","), b"]")
        case MapType():
            values = _encode_maybe(column.items, kind.valueType)
            pairs = joined(_text(column.keys), b":", values)
            return joined(b"{", lists(column, pairs, b","), b"}")
        case StructType():
            parts = [pc.struct_field(column, [index]) for index in range(len(kind.fields))]
            return or_else(encode_objects(parts, kind.fields), NULL, column)
    raise AssertionError(kind)  # `require_json` has refused it


def _numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _days(column: pa.Array) -> pa.Array:
    return _numbers(column.cast(pa.int32()))


def _micros(column: pa.Array) -> pa.Array:
    return _numbers(column.cast(pa.int64()))


def _fractions(column: pa.Array) -> pa.Array:
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise ValueError("JSON has no NaN and no infinity: replace them, or write Avro")
    return _numbers(column)


def _text(column: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(column, ESCAPED)).as_py():
        return joined(b'"', column.cast(pa.binary()), b'"')
    return by_distinct(
        column, lambda text: json.dumps(text, ensure_ascii=False).encode(), pa.binary()
    )


def _base64(column: pa.Array) -> pa.Array:
    return by_distinct(column, lambda data: b'"' + base64.b64encode(data) + b'"', pa.binary())


ENCODERS: dict[type[DataType], Callable[[pa.Array], pa.Array]] = {
    BooleanType: _numbers,
    ByteType: _numbers,
    ShortType: _numbers,
    IntegerType: _numbers,
    LongType: _numbers,
    FloatType: _fractions,
    DoubleType: _fractions,
    StringType: _text,
    BinaryType: _base64,
    DateType: _days,
    TimestampType: _micros,
    TimestampNTZType: _micros,
}
"""Dates are days and times microseconds since 1970, as in Avro, the language of the schema."""
