"""Rows as Avro records, a column at a time."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from magnetar_proto.wire import encode_varint
from pyspark_magnetar.sink.arrow import (
    by_distinct,
    fixed_bytes,
    joined,
    lists,
    or_else,
    signed,
    varints,
)

ROOT = "topLevelRecord"
"""The name of the record, as in Spark's own Avro writer."""
NULL, PRESENT = b"\x00", b"\x02"
"""The first byte of a nullable field: the index in the union of null and its type."""
DECIMAL_BYTES = 16
"""The width of Arrow's decimal numbers; Avro allows leading bytes that only repeat the sign."""

WHOLE: dict[type[T.DataType], Any] = {
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "long",
    T.DateType: {"type": "int", "logicalType": "date"},
    T.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    T.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
PLAIN: dict[type[T.DataType], Any] = WHOLE | {
    T.BooleanType: "boolean",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.StringType: "string",
    T.BinaryType: "bytes",
}


def definition_of(fields: list[T.StructField]) -> bytes:
    """Return the Avro schema of rows with these columns; ValueError names an unsupported type."""
    return json.dumps(_record(fields, ROOT)).encode()


def _record(fields: list[T.StructField], name: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [_field(field, f"{name}_{field.name}") for field in fields],
    }


def _field(field: T.StructField, name: str) -> dict[str, Any]:
    if not (field.name.isidentifier() and field.name.isascii()):
        raise ValueError(
            f"column {field.name!r} is not a valid name in Avro: rename it, as with AS"
        )
    found = _type(field.dataType, name)
    if not field.nullable:
        return {"name": field.name, "type": found}
    # With null as the default, readers can have fields that older messages lack.
    return {"name": field.name, "type": ["null", found], "default": None}


def _type(kind: T.DataType, name: str) -> Any:
    if type(kind) in PLAIN:
        return PLAIN[type(kind)]
    match kind:
        case T.DecimalType():
            scale = {"precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", "logicalType": "decimal", **scale}
        case T.ArrayType():
            items = _maybe(_type(kind.elementType, name), kind.containsNull)
            return {"type": "array", "items": items}
        case T.MapType(keyType=T.StringType()):
            values = _maybe(_type(kind.valueType, name), kind.valueContainsNull)
            return {"type": "map", "values": values}
        case T.StructType():
            return _record(kind.fields, name)
    raise ValueError(f"{kind.simpleString()} has no form in Avro: cast it to another type")


def _maybe(found: Any, is_nullable: bool) -> Any:
    return ["null", found] if is_nullable else found


def encode_records(columns: list[pa.Array], fields: list[T.StructField]) -> pa.Array:
    """Encode each row as a record."""
    parts = [
        _encode_maybe(column, field.dataType, field.nullable)
        for column, field in zip(columns, fields, strict=True)
    ]
    return joined(*parts)


def _encode_maybe(column: pa.Array, kind: T.DataType, is_nullable: bool) -> pa.Array:
    encoded = _encode(column, kind)
    if not is_nullable:
        return encoded
    return or_else(joined(PRESENT, encoded), NULL, column)


def _encode(column: pa.Array, kind: T.DataType) -> pa.Array:
    if type(kind) in WHOLE:
        return varints(_zigzag(_integers(column)))
    encode = ENCODERS.get(type(kind))
    if encode is not None:
        return encode(column)
    match kind:
        case T.ArrayType():
            items = _encode_maybe(column.values, kind.elementType, kind.containsNull)
            return _blocks(column, items)
        case T.MapType():
            values = _encode_maybe(column.items, kind.valueType, kind.valueContainsNull)
            return _blocks(column, joined(_text(column.keys), values))
        case T.StructType():
            parts = [pc.struct_field(column, [index]) for index in range(len(kind.fields))]
            return encode_records(parts, kind.fields)
    raise AssertionError(kind)  # `definition_of` has refused it


def _integers(column: pa.Array) -> pa.Array:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


def _zigzag(numbers: pa.Array) -> pa.Array:
    doubled = pc.shift_left(numbers, signed(1))
    return pc.if_else(pc.less(numbers, signed(0)), pc.bit_wise_not(doubled), doubled)


def _size(count: int) -> bytes:
    return encode_varint(count << 1)


def _text(column: pa.Array) -> pa.Array:
    data = column.cast(pa.binary())
    return joined(by_distinct(pc.binary_length(data), _size, pa.binary()), data)


def _blocks(column: pa.Array, items: pa.Array) -> pa.Array:
    """Encode a list or map: the number of items, the items, and 0; if empty, only 0."""
    counts = pc.subtract(column.offsets[1:], column.offsets[:-1])
    heads = by_distinct(counts, lambda count: _size(count) if count else b"", pa.binary())
    return joined(heads, lists(column, items), b"\x00")


def _booleans(column: pa.Array) -> pa.Array:
    return pc.if_else(column, pa.scalar(b"\x01"), pa.scalar(b"\x00"))


def _decimals(column: pa.Array) -> pa.Array:
    return joined(_size(DECIMAL_BYTES), pc.binary_reverse(fixed_bytes(column)))


ENCODERS: dict[type[T.DataType], Callable[[pa.Array], pa.Array]] = {
    T.BooleanType: _booleans,
    T.FloatType: fixed_bytes,
    T.DoubleType: fixed_bytes,
    T.StringType: _text,
    T.BinaryType: _text,
    T.DecimalType: _decimals,
}
