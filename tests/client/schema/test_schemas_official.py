"""Values between this client and the official one, both ways, over the real broker."""

import uuid
from typing import Any

import pulsar
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import magnetar
from client.schema import official_records
from client.schema.official_records import OurClasses
from magnetar import schema
from official import TIMEOUT_MS, connect
from running_broker import RunningBroker

TIMEOUT_S = 60.0
Ours, Theirs = OurClasses.Order, official_records.Order

PAIRS: list[tuple[schema.Schema[Any], Any, Any, Any]] = [
    (schema.Bytes(), pulsar.schema.BytesSchema(), b"\0a", b"\0a"),
    (schema.String(), pulsar.schema.StringSchema(), "tëxt", "tëxt"),
    (
        schema.Json(Ours),
        pulsar.schema.JsonSchema(Theirs),
        official_records.ours(),
        official_records.theirs(),
    ),
    (
        schema.Avro(Ours),
        pulsar.schema.AvroSchema(Theirs),
        official_records.ours(),
        official_records.theirs(),
    ),
    (
        schema.Avro(definition=official_records.Part.schema()),
        pulsar.schema.AvroSchema(None, official_records.Part.schema()),
        {"name": "a", "price": 1.5},
        {"name": "a", "price": 1.5},
    ),
    (
        schema.ProtobufNative(Timestamp),
        pulsar.schema.ProtobufNativeSchema(Timestamp),
        Timestamp(seconds=5),
        Timestamp(seconds=5),
    ),
]
IDS = [type(kind).__name__ for kind, *_ in PAIRS]


@pytest.mark.parametrize(("kind", "their_kind", "value", "their_value"), PAIRS, ids=IDS)
async def test_both_ways(
    broker: RunningBroker, kind: Any, their_kind: Any, value: Any, their_value: Any
) -> None:
    topic = f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"
    official = connect(broker.service_url)
    try:
        theirs = official.subscribe(topic, "theirs", schema=their_kind)
        async with magnetar.connect(broker.service_url) as client:
            ours = await client.subscribe(topic, "ours", schema=kind)
            await (await client.producer(topic, schema=kind)).send(value)
            official.create_producer(topic, schema=their_kind).send(their_value)
            versions = set()
            for _ in range(2):
                message = await ours.receive(TIMEOUT_S)
                assert message.value == value
                versions.add(message.schema_version)
                assert theirs.receive(TIMEOUT_MS).value() == their_value
            # One version: to the broker both are the same schema.
            assert versions == ({b""} if isinstance(kind, schema.Bytes) else {bytes(8)})
    finally:
        official.close()
