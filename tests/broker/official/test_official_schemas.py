"""Schemas of the official Python client."""

from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from pulsar.schema import (
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    Long,
    Record,
    String,
    StringSchema,
)

from admin_http import Admin
from official import connect
from running_broker import RunningBroker


class Person(Record):
    name = String(required=True)
    age = Integer(required=True)


class Older(Record):
    """A person with a field more, which others may lack."""

    name = String(required=True)
    age = Integer(required=True)
    town = String(required_default=True)


class Aged(Record):
    name = String(required=True)
    age = Long(required=True)


class Stranger(Record):
    name = String(required=True)
    age = Integer(required=True)
    shoe = Integer(required=True)


def rest(broker: RunningBroker, method: str, topic: str, what: str, body: Any = None) -> Any:
    path = topic.removeprefix("persistent://")
    answer = Admin(broker).ask(method, f"schemas/{path}/{what}", body)
    assert answer.status < 300, answer.body
    return answer.json


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_records_come_back(client: pulsar.Client, topic: str, kind: Any) -> None:
    consumer = client.subscribe(topic, "sub", schema=kind(Person))
    producer = client.create_producer(topic, schema=kind(Person))
    producer.send(Person(name="Ada", age=36))
    received = consumer.receive(60_000)
    value = received.value()
    assert (value.name, value.age) == ("Ada", 36)
    assert received.schema_version() == (0).to_bytes(8, "big").decode()


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_a_schema_that_evolves(
    client: pulsar.Client, broker: RunningBroker, topic: str, kind: Any
) -> None:
    old = client.create_producer(topic, schema=kind(Person))
    new = client.create_producer(topic, schema=kind(Older))
    old.send(Person(name="Ada", age=36))
    new.send(Older(name="Eve", age=37, town="Rome"))
    versions = rest(broker, "GET", topic, "schemas")["getSchemaResponses"]
    assert [one["version"] for one in versions] == [0, 1]
    consumer = client.subscribe(
        topic, "sub", schema=kind(Person), initial_position=pulsar.InitialPosition.Earliest
    )
    assert [consumer.receive(60_000).value().name for _ in range(2)] == ["Ada", "Eve"]


@pytest.mark.parametrize("stranger", [Stranger, Aged])
def test_an_incompatible_schema_is_refused_for_good(
    client: pulsar.Client, topic: str, stranger: type[Any]
) -> None:
    client.create_producer(topic, schema=AvroSchema(Person))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(stranger))


def test_a_consumer_that_could_not_read(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=AvroSchema(Person))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "sub", schema=AvroSchema(Stranger))
    client.subscribe(topic, "sub", schema=AvroSchema(Aged)).close()


def test_texts_and_bytes(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", schema=StringSchema())
    client.create_producer(topic, schema=StringSchema()).send("text")
    assert consumer.receive(60_000).value() == "text"
    client.create_producer(topic, schema=BytesSchema()).send(b"bytes")
    assert consumer.receive(60_000).data() == b"bytes"
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=JsonSchema(Person))


def test_producers_without_a_schema_may_be_refused(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    client = connect(make_broker(isSchemaValidationEnforced="true").service_url)
    client.create_producer(topic)
    client.create_producer(f"{topic}-2", schema=StringSchema())
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(f"{topic}-2")
    client.close()


def test_versions_that_only_administrators_add(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(isAllowAutoUpdateSchemaEnabled="false")
    client = connect(broker.service_url)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Person))
    text = AvroSchema(Person).schema_info().schema()
    added = rest(broker, "POST", topic, "schema", {"type": "AVRO", "schema": text})
    assert added == {"version": {"version": 0}}
    client.create_producer(topic, schema=AvroSchema(Person))
    client.close()


def test_a_restart_keeps_every_version(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    for record in (Person, Older):
        client.create_producer(topic, schema=AvroSchema(record))
    before = rest(broker, "GET", topic, "schemas")
    client.close()
    broker.kill()
    broker.start()
    assert rest(broker, "GET", topic, "schemas") == before
    client = connect(broker.service_url)
    client.create_producer(topic, schema=AvroSchema(Person))
    assert rest(broker, "GET", topic, "schemas") == before
    client.close()
