"""Conversion of the columns of a row to the value of a message, and the schema of the value.

A single column is a value of its type; several are a record.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from magnetar.base.schema_info import SchemaInfo
from magnetar_proto import PulsarApi_pb2 as pb
from pyspark_magnetar.sink.arrow import fixed_bytes, millis
from pyspark_magnetar.sink.avro import definition_of, encode_records
from pyspark_magnetar.sink.json_rows import encode_objects, require_json

AUTO, AVRO, JSON, BYTES = "auto", "avro", "json", "bytes"

Encode = Callable[[list[pa.Array]], pa.Array]


@dataclass(frozen=True, slots=True)
class ValueForm:
    """The encoding of values: columns to binary; null where a message has no value."""

    encode: Encode
    schema: SchemaInfo | None
    """The schema to register with the topic; None for plain bytes."""


def form_of(fields: list[T.StructField], form: str = AUTO) -> ValueForm:
    """Return the encoding of these columns; ValueError if the chosen form does not support them."""
    single = fields[0].dataType if len(fields) == 1 else None
    if form == BYTES or (form == AUTO and isinstance(single, T.BinaryType)):
        if not isinstance(single, T.BinaryType | T.StringType):
            shown = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
            raise ValueError(
                f"valueFormat bytes needs one column of type binary or string, got {shown}"
            )
        return ValueForm(lambda columns: columns[0].cast(pa.binary()), None)
    if form == AUTO and type(single) in PRIMITIVES:
        number, encode = PRIMITIVES[type(single)]
        return ValueForm(lambda columns: encode(columns[0]), SchemaInfo(number))
    definition = definition_of(fields)
    if form == JSON:
        require_json(fields)
        schema = SchemaInfo(pb.Schema.Json, definition, "JSON")
        return ValueForm(lambda columns: encode_objects(columns, fields), schema)
    schema = SchemaInfo(pb.Schema.Avro, definition, "AVRO")
    return ValueForm(lambda columns: encode_records(columns, fields), schema)


def _highest_first(column: pa.Array) -> pa.Array:
    return pc.binary_reverse(fixed_bytes(column))


def _boolean(column: pa.Array) -> pa.Array:
    return pc.if_else(column, pa.scalar(b"\x01"), pa.scalar(b"\x00"))


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


PRIMITIVES: dict[type[T.DataType] | type[None], tuple[int, Callable[[pa.Array], pa.Array]]] = {
    T.StringType: (pb.Schema.String, _text),
    T.BooleanType: (pb.Schema.Bool, _boolean),
    T.ByteType: (pb.Schema.Int8, _highest_first),
    T.ShortType: (pb.Schema.Int16, _highest_first),
    T.IntegerType: (pb.Schema.Int32, _highest_first),
    T.LongType: (pb.Schema.Int64, _highest_first),
    T.FloatType: (pb.Schema.Float, _highest_first),
    T.DoubleType: (pb.Schema.Double, _highest_first),
    T.TimestampType: (pb.Schema.Timestamp, lambda column: _highest_first(millis(column))),
    T.TimestampNTZType: (pb.Schema.Timestamp, lambda column: _highest_first(millis(column))),
}
"""The schema type and the encoding, by the type of the only column."""
