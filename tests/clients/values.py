"""Values of the asyncio client on topics that a client in another language has written to."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

import magnetar.sync
from magnetar import schema

TIMEOUT_S = 60.0


@dataclass
class Person:
    """As the scenarios have it: whatever has no value is null in Java."""

    name: str | None = None


MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
ADA = Person("Ada")
PERSON = schema.Avro(Person, namespace="magnetar.clients.Schemas")
KINDS: dict[str, tuple[schema.Schema[Any], Any]] = {
    "string": (schema.String(), "tëxt"),
    "bool": (schema.Bool(), True),
    "int8": (schema.Int8(), -8),
    "int16": (schema.Int16(), -16),
    "int32": (schema.Int32(), -32),
    "int64": (schema.Int64(), -64),
    "float": (schema.Float(), 0.5),
    "double": (schema.Double(), 0.1),
    "date": (schema.Date(), MOMENT),
    "time": (schema.Time(), time(12, 30)),
    "timestamp": (schema.Timestamp(), MOMENT),
    "instant": (schema.Instant(), MOMENT.replace(microsecond=7)),
    "local_date": (schema.LocalDate(), date(1969, 12, 31)),
    "local_time": (schema.LocalTime(), time(12, 30, 1, 7)),
    "local_date_time": (schema.LocalDateTime(), datetime(2024, 2, 29, 12, 30)),
    "avro": (PERSON, ADA),
    "json": (schema.Json(Person, namespace="magnetar.clients.Schemas"), ADA),
    "inline": (schema.KeyValue(schema.String(), PERSON), ("key", ADA)),
    "separated": (schema.KeyValue(schema.String(), PERSON, "separated"), ("key", ADA)),
    "protobuf": (schema.Protobuf(Timestamp), Timestamp(seconds=1_700_000_000_000, nanos=5)),
    "protobuf_native": (
        schema.ProtobufNative(Timestamp),
        Timestamp(seconds=1_700_000_000_000, nanos=5),
    ),
}


def share_value(service_url: str, topic: str, kind: str) -> None:
    """Receive the value that the topic has, by its schema and as anything; then send it too."""
    form, value = KINDS[kind]
    with magnetar.sync.connect(service_url) as client:
        received = client.reader(topic, schema=form).read(TIMEOUT_S).value
        assert received == value, received
        anything = client.reader(topic, schema=schema.AutoConsume()).read(TIMEOUT_S).value
        if isinstance(anything, Message):  # of a class that was made of the schema
            anything = anything.SerializeToString()
        assert anything == _generic(kind, value), anything
        client.producer(topic, schema=form).send(value)


def _generic(kind: str, value: Any) -> Any:
    """As a receiver sees it who knows nothing of the topic."""
    if kind in ("avro", "json"):
        return {"name": "Ada"}
    if kind in ("inline", "separated"):
        return ("key", {"name": "Ada"})
    if isinstance(value, Message):
        return value.SerializeToString()
    return value
