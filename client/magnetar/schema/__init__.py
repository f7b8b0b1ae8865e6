"""Schemas of values: `client.producer(topic, schema=schema.Json(Order))`."""

from magnetar.schema.base import Bytes, Encoded, Schema
from magnetar.schema.classes import AvroType, FloatField, IntField
from magnetar.schema.info import SchemaInfo, version_number
from magnetar.schema.primitives import Bool, Double, Float, Int8, Int16, Int32, Int64, String
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
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "Schema",
    "SchemaInfo",
    "String",
    "Time",
    "Timestamp",
    "version_number",
]
