"""Values as columns of the topic's schema."""

import asyncio
import json
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StructType

import magnetar
from magnetar import schema as schemas
from magnetar.base.schema_info import SchemaInfo
from magnetar_proto import PulsarApi_pb2 as pb
from pyspark_magnetar import DefaultSource
from pyspark_magnetar.rows.value_schema import value_schema
from running_broker import RunningBroker
from spark.source_driver import new_topic

SIMPLE: dict[str, Any] = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {
            "name": "place",
            "type": ["null", {
                "type": "record", "name": "Place", "fields": [{"name": "floor", "type": "int"}],
            }],
            "default": None,
        },
    ],
}  # fmt: skip
LATER = {
    **SIMPLE,
    "fields": [*SIMPLE["fields"], {"name": "unit", "type": "string", "default": "C"}],
}
RICH = {
    "type": "record",
    "name": "Rich",
    "namespace": "a.b",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "price", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2,
        }},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEART", "CLUB"]}},
        {"name": "other", "type": ["null", "a.b.Suit"], "default": None},
        {"name": "digest", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "raw", "type": "bytes"},
    ],
}  # fmt: skip
ROW = {"sensor": "a", "celsius": 1.5, "tags": ["x"], "place": {"floor": 3}}
BARE: dict[str, Any] = {"sensor": "b", "celsius": None, "tags": [], "place": None}


def send(
    broker: RunningBroker,
    topic: str,
    schema: schemas.Schema[Any] | None,
    sent: Sequence[Any],
) -> None:
    async def run() -> None:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(topic, schema=schema)
            await producer.send_batch(sent)

    asyncio.run(run())


def rows(
    broker: RunningBroker, topic: str, metadata: str = "none", **more: str
) -> tuple[StructType, list[dict[str, Any]]]:
    place = {"service.url": broker.service_url, "topic": topic}
    source = DefaultSource({**place, "schemaMode": "auto", "metadata": metadata, **more})
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    found = [
        row
        for split in reader.partitions()
        for batch in reader.read(split)
        for row in batch.to_pylist()
    ]
    return schema, found


@pytest.mark.parametrize("kind", [schemas.Avro, schemas.Json])
def test_records_are_columns(broker: RunningBroker, kind: Any) -> None:
    topic = new_topic()
    send(broker, topic, kind(definition=SIMPLE), [ROW, BARE])
    schema, found = rows(broker, topic)
    assert schema.simpleString() == (
        "struct<sensor:string,celsius:double,tags:array<string>,place:struct<floor:int>>"
    )
    assert found == [ROW, BARE]
    schema, found = rows(broker, topic, metadata="__schemaVersion,__batchIndex")
    assert schema.fieldNames()[-2:] == ["__batchIndex", "__schemaVersion"]
    assert [row["__batchIndex"] for row in found] == [0, 1]


@pytest.mark.parametrize("kind", [schemas.Avro, schemas.Json])
def test_messages_of_other_versions(broker: RunningBroker, kind: Any) -> None:
    topic = new_topic()
    send(broker, topic, kind(definition=SIMPLE), [ROW])
    send(broker, topic, kind(definition=LATER), [{**BARE, "unit": "F"}])
    schema, found = rows(broker, topic)
    assert schema.fieldNames()[-1] == "unit"
    assert [row["sensor"] for row in found] == ["a", "b"]
    assert found[0]["unit"] == ("C" if kind is schemas.Avro else None)
    assert found[1] == {**BARE, "unit": "F"}


def test_types_of_avro(broker: RunningBroker) -> None:
    topic = new_topic()
    row = {
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 12, 0, 1, 5000, UTC),
        "clock": time(1, 2, 3, 4),
        "price": Decimal("12.34"),
        "counts": {"a": 1, "b": 2},
        "suit": "CLUB",
        "other": "HEART",
        "digest": b"abcd",
        "wide": 2**40,
        "raw": b"\x00\xff",
    }
    send(broker, topic, schemas.Avro(definition=RICH), [row])
    schema, [found] = rows(broker, topic)
    assert schema.simpleString() == (
        "struct<day:date,at:timestamp,clock:bigint,price:decimal(10,2),counts:map<string,bigint>,"
        "suit:string,other:string,digest:binary,wide:bigint,raw:binary>"
    )
    assert found == {
        **row,
        "clock": (3600 + 2 * 60 + 3) * 1_000_000 + 4,
        "counts": [("a", 1), ("b", 2)],
    }


@pytest.mark.parametrize(
    ("schema", "kind", "values"),
    [
        (schemas.String(), "string", ["a", "", "ä"]),
        (schemas.Bool(), "boolean", [True, False]),
        (schemas.Int8(), "tinyint", [-1, 7]),
        (schemas.Int64(), "bigint", [-(2**63), 5]),
        (schemas.Double(), "double", [1.5, -2.0]),
        (schemas.Timestamp(), "timestamp", [datetime(2026, 1, 31, 12, tzinfo=UTC)]),
        (None, "binary", [b"x", b""]),
    ],
)
def test_single_values(broker: RunningBroker, schema: Any, kind: str, values: list[Any]) -> None:
    topic = new_topic()
    send(broker, topic, schema, values)
    columns, found = rows(broker, topic)
    assert columns.simpleString() == f"struct<value:{kind}>"
    assert [row["value"] for row in found] == values


@pytest.mark.parametrize("encoding", ["inline", "separated"])
def test_pairs(broker: RunningBroker, encoding: str) -> None:
    topic = new_topic()
    pair = schemas.KeyValue(schemas.Avro(definition=SIMPLE), schemas.Int32(), encoding)
    send(broker, topic, pair, [(ROW, 1), (BARE, None)])
    schema, found = rows(broker, topic, metadata="__key,__topic")
    assert schema.fieldNames() == ["__key", "value", "__topic"]
    assert [(row["__key"], row["value"]) for row in found] == [(ROW, 1), (BARE, None)]


@pytest.mark.parametrize("kind", [schemas.Avro, schemas.Json])
def test_values_that_do_not_fit(broker: RunningBroker, kind: Any) -> None:
    topic = new_topic()
    schema = kind(definition=SIMPLE)
    send(broker, topic, schema, [ROW])
    send(broker, topic, None, [b"\xff\xff"])
    send(broker, topic, schema, [BARE])
    with pytest.raises(magnetar.Undecodable, match=r"message \d+:1 of .* cannot be decoded as"):
        rows(broker, topic)
    assert rows(broker, topic, mode="DROP")[1] == [ROW, BARE]
    columns, found = rows(broker, topic, mode="permissive")
    assert columns.fieldNames()[-1] == "_corrupt"
    assert [row["_corrupt"] for row in found] == [None, b"\xff\xff", None]
    assert [row["sensor"] for row in found] == ["a", None, "b"]


def test_topics_of_different_schemas(broker: RunningBroker) -> None:
    one, two = new_topic(), new_topic()
    send(broker, one, schemas.String(), ["a"])
    send(broker, two, schemas.Int32(), [1])
    place = {"service.url": broker.service_url, "topics": f"{one},{two}", "schemaMode": "auto"}
    with pytest.raises(ValueError, match="have different schemas"):
        DefaultSource(place).schema()
    found = DefaultSource({**place, "allowDifferentTopicSchemas": "true"}).schema()
    assert found["value"].dataType.simpleString() == "binary"


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
         "contains itself"),
        (["string", "int"], "has no column type"),
        ({"type": "record", "name": "R"}, "is damaged"),
        ("nothing", "is damaged"),
    ],
)  # fmt: skip
def test_what_has_no_columns(definition: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value_schema(SchemaInfo(pb.Schema.Avro, json.dumps(definition).encode()))
    with pytest.raises(ValueError, match="schemaMode"):
        value_schema(SchemaInfo(pb.Schema.Protobuf))
