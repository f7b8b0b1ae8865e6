"""Schemas that depend on the topic: AutoConsume for its messages, AutoProduce for its schema."""

import json
from typing import Any

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.avro import Avro
from magnetar.schema.base import Bytes, Encoded, Schema
from magnetar.schema.key_value import KeyValue, parts
from magnetar.schema.primitives import Bool, Double, Float, Int8, Int16, Int32, Int64, String
from magnetar.schema.protobuf import ProtobufNative, dynamic_class
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
from magnetar_proto import PulsarApi_pb2 as pb

_PLAIN: dict[int, Schema[Any]] = {
    schema.info.type: schema
    for schema in (
        String(), Bool(), Int8(), Int16(), Int32(), Int64(), Float(), Double(), Date(), Time(),
        Timestamp(), Instant(), LocalDate(), LocalTime(), LocalDateTime(), Bytes(),
    )
}  # fmt: skip


class AutoConsume(Schema[Any]):
    """Decodes each message with the schema of its writer; for consumers and readers.

    Records of Avro and JSON are dicts, pairs are tuples, messages of PROTOBUF_NATIVE have classes
    created from their descriptor.  Messages without schema, and of PROTOBUF, are bytes.
    """

    info = SchemaInfo(pb.Schema.AutoConsume, name="AutoConsume")
    needs_writer = True

    def encode(self, value: Any) -> bytes:
        raise ValueError("AutoConsume is for consumers and readers: producers take AutoProduce")

    def decode(self, data: bytes) -> Any:
        return data

    def reading(self, writer: SchemaInfo) -> Schema[Any]:
        return schema_of(writer)


class AutoProduce(Schema[bytes]):
    """Accepts bytes that are encoded with the topic's schema; for producers.

    The producer registers the topic's latest schema, and refuses bytes that it cannot decode.  If
    the topic has no schema, any bytes are sent.
    """

    info = SchemaInfo(pb.Schema.AutoConsume, name="AutoProduce")

    def encode(self, value: bytes) -> bytes:
        raise ValueError("AutoProduce is for producers: the schema of the topic is unknown here")

    def decode(self, data: bytes) -> bytes:
        raise ValueError("AutoProduce is for producers: consumers take AutoConsume")

    def resolved(self, latest: SchemaInfo | None) -> Schema[bytes]:
        """Return the schema for a topic with this latest schema, or with none."""
        return Bytes() if latest is None else _Checked(latest)


class _Checked(Encoded):
    def __init__(self, info: SchemaInfo) -> None:
        super().__init__(info)
        self._schema = schema_of(info)

    def encode(self, value: bytes) -> bytes:
        data = super().encode(value)
        if isinstance(self._schema, KeyValue) and self._schema.is_separated:
            return data  # it is one part of two
        try:
            self._schema.decode(data)
        except Exception as error:  # a decoder may raise anything on foreign bytes
            raise ValueError(
                f"{value[:40]!r} does not fit the topic's schema ({self.info.type_name}): {error}"
            ) from error
        return data


def schema_of(info: SchemaInfo) -> Schema[Any]:
    """Return a schema that decodes messages of a schema that a broker stores.

    ValueError, or another error of its definition, if that is invalid.
    """
    if info.type == pb.Schema.Avro:
        return Avro(definition=_json(info))
    if info.type == pb.Schema.Json:
        return Json(definition=_json(info))
    if info.type == pb.Schema.KeyValue:
        key, value, encoding = parts(info)
        return KeyValue(schema_of(key), schema_of(value), encoding)
    if info.type == pb.Schema.ProtobufNative:
        return ProtobufNative(dynamic_class(info.definition))
    return _PLAIN.get(info.type) or Encoded(info)


def _json(info: SchemaInfo) -> Any:
    return json.loads(info.definition)
