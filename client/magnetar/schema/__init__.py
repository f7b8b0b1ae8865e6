"""Schemas of values: `client.producer(topic, schema=schema.Json(Order))`."""

from magnetar.base.schema_info import SchemaInfo, version_number
from magnetar.schema.auto import AutoConsume, AutoProduce
from magnetar.schema.avro import Avro
from magnetar.schema.base import Bytes, Encoded, Schema
from magnetar.schema.classes import AvroType, FloatField, IntField
from magnetar.schema.key_value import KeyValue
from magnetar.schema.primitives import Bool, Double, Float, Int8, Int16, Int32, Int64, String
from magnetar.schema.protobuf import Protobuf, ProtobufNative
from magnetar.schema.records import Json
from magnetar.schema.times import (
    Date,
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    Time,
    Timestamp,
)

__all__ = [
    "AutoConsume",
    "AutoProduce",
    "Avro",
    "AvroType",
    "Bool",
    "Bytes",
    "Date",
    "Double",
    "Encoded",
    "Float",
    "FloatField",
    "Instant",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "IntField",
    "Json",
    "KeyValue",
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "Protobuf",
    "ProtobufNative",
    "Schema",
    "SchemaInfo",
    "String",
    "Time",
    "Timestamp",
    "version_number",
]
