"""The schemas of the official client, and records for JSON and Avro."""

from magnetar.compat.schema.avro import AvroSchema
from magnetar.compat.schema.base import BytesSchema, Schema, SchemaInfo, StringSchema
from magnetar.compat.schema.definition import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    Record,
    String,
)
from magnetar.compat.schema.json_schema import JsonSchema
from magnetar.compat.schema.protobuf import ProtobufNativeSchema

__all__ = [
    "Array",
    "AvroSchema",
    "Boolean",
    "Bytes",
    "BytesSchema",
    "CustomEnum",
    "Double",
    "Field",
    "Float",
    "Integer",
    "JsonSchema",
    "Long",
    "Map",
    "Null",
    "ProtobufNativeSchema",
    "Record",
    "Schema",
    "SchemaInfo",
    "String",
    "StringSchema",
]
