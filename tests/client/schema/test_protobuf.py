"""Messages of generated classes: what the broker is told of them, and what it makes of that."""

import json

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsar.schema import ProtobufNativeSchema

from effort import examples
from magnetar.schema import Protobuf, ProtobufNative, SchemaInfo
from magnetar.schema.protobuf import dynamic_class
from magnetar_broker.schemas.parsing import parsed_schema
from magnetar_broker.schemas.types import Schema, SchemaType
from magnetar_proto import PulsarApi_pb2 as pb


def test_both_ways() -> None:
    moment = Timestamp(seconds=5, nanos=7)
    for kind in (ProtobufNative(Timestamp), Protobuf(Timestamp)):
        assert kind.decode(kind.encode(moment)) == moment
        with pytest.raises(ValueError, match="expected Timestamp, got"):
            kind.encode(Duration())  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="protoc has generated"):
            type(kind)(int)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be encoded"):
        Protobuf(pb.BaseCommand).encode(pb.BaseCommand())  # required fields are missing


def test_the_official_client_tells_the_same() -> None:
    theirs = json.loads(ProtobufNativeSchema(pb.MessageMetadata).schema_info().schema())
    assert json.loads(ProtobufNative(pb.MessageMetadata).info.definition) == theirs


@pytest.mark.parametrize("kind", [Timestamp, Struct, pb.MessageMetadata, pb.BaseCommand])
def test_the_broker_understands_the_definitions(kind: type) -> None:
    native, avro = ProtobufNative(kind).info, Protobuf(kind).info
    parsed_schema(Schema(SchemaType.PROTOBUF_NATIVE, native.definition))
    parsed_schema(Schema(SchemaType.PROTOBUF, avro.definition))


def test_classes_are_made_of_definitions() -> None:
    value = Struct()
    value.update({"a": [1, {"b": None}]})
    made = ProtobufNative(dynamic_class(ProtobufNative(Struct).info.definition))
    decoded = made.decode(value.SerializeToString())
    assert decoded.SerializeToString(deterministic=True) == value.SerializeToString(
        deterministic=True
    )


def test_avro_of_messages() -> None:
    assert json.loads(Protobuf(Timestamp).info.definition) == {
        "type": "record", "name": "Timestamp", "namespace": "com.google.protobuf",
        "fields": [
            {"name": "seconds", "type": "long", "default": 0},
            {"name": "nanos", "type": "int", "default": 0},
        ],
    }  # fmt: skip
    fields = json.loads(Protobuf(pb.Schema).info.definition)["fields"]
    by_name = {field["name"]: field for field in fields}
    assert "default" not in by_name["name"]
    assert by_name["properties"]["default"] == []
    assert by_name["type"]["type"]["type"] == "enum"
    optional = {
        one["name"]: one
        for one in json.loads(Protobuf(pb.CommandSubscribe).info.definition)["fields"]
    }
    assert optional["start_message_id"]["type"][0] == "null"
    assert optional["start_message_id"]["default"] is None


@settings(max_examples=examples(300))
@given(st.binary(max_size=200))
def test_definitions_that_are_none_are_errors(data: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017 (any: it becomes Undecodable)
        dynamic_class(SchemaInfo(pb.Schema.ProtobufNative, data).definition)
