"""Rows as JSON objects, a column at a time."""

import base64
import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from pyspark_magnetar.sink.arrow import by_distinct, joined, lists, or_else

NULL = b"null"
ESCAPED = r'[\x00-\x1f"\\]'
"""The characters that must be escaped in a JSON string."""


def require_json(fields: list[T.StructField]) -> None:
    """Raise a ValueError that names a type which JSON cannot hold without loss."""
    for field in fields:
        _require(field.dataType)


def _require(kind: T.DataType) -> None:
    match kind:
        case T.ArrayType():
            _require(kind.elementType)
        case T.MapType(keyType=T.StringType()):
            _require(kind.valueType)
        case T.StructType():
            require_json(kind.fields)
        case _ if type(kind) not in ENCODERS:
            raise ValueError(f"{kind.simpleString()} has no form in JSON: cast it to another type")


def encode_objects(columns: list[pa.Array], fields: list[T.StructField]) -> pa.Array:
    """Encode each row as an object."""
    parts: list[pa.Array | bytes] = []
    for index, (column, field) in enumerate(zip(columns, fields, strict=True)):
        parts.append((b"," if index else b"{") + json.dumps(field.name).encode() + b":")
        parts.append(_encode_maybe(column, field.dataType))
    return joined(*parts, b"}")


def _encode_maybe(column: pa.Array, kind: T.DataType) -> pa.Array:
    return or_else(_encode(column, kind), NULL, column)


def _encode(column: pa.Array, kind: T.DataType) -> pa.Array:
    encode = ENCODERS.get(type(kind))
    if encode is not None:
        return encode(column)
    match kind:
        case T.ArrayType():
            items = _encode_maybe(column.values, kind.elementType)
            return joined(b"[", lists(column, items, b","), b"]")
        case T.MapType():
            values = _encode_maybe(column.items, kind.valueType)
            pairs = joined(_text(column.keys), b":", values)
            return joined(b"{", lists(column, pairs, b","), b"}")
        case T.StructType():
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


ENCODERS: dict[type[T.DataType], Callable[[pa.Array], pa.Array]] = {
    T.BooleanType: _numbers,
    T.ByteType: _numbers,
    T.ShortType: _numbers,
    T.IntegerType: _numbers,
    T.LongType: _numbers,
    T.FloatType: _fractions,
    T.DoubleType: _fractions,
    T.StringType: _text,
    T.BinaryType: _base64,
    T.DateType: _days,
    T.TimestampType: _micros,
    T.TimestampNTZType: _micros,
}
"""Dates are days and times microseconds since 1970, as in Avro, the language of the schema."""
