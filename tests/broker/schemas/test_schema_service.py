"""Schemas as sessions ask for them: limits, switches, and the reason of a refusal."""

import json
from typing import Any

import pytest

from fakes.sessions import TOPIC, Client, SessionWorld, produce, subscribe
from fakes.world import run
from magnetar_broker.config.domains import SchemaCompatibility
from magnetar_broker.schemas.counts import Work
from magnetar_broker.schemas.registry import History
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from raw_client import refused

NAME = TopicName.parse(TOPIC)
A = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
A_B = {**A, "fields": [*A["fields"], {"name": "b", "type": "int"}]}


def avro(definition: Any) -> pb.Schema:
    return pb.Schema(name="", type=pb.Schema.Avro, schema_data=json.dumps(definition).encode())


def external(data: bytes) -> pb.Schema:
    return pb.Schema(name="", type=pb.Schema.External, schema_data=data)


def asks(client: Client, schema: pb.Schema, topic: str = TOPIC) -> Any:
    return client.ask(pb.CommandGetOrCreateSchema(request_id=1, topic=topic, schema=schema))


def registered(client: Client, schema: pb.Schema, topic: str = TOPIC) -> int:
    answer = asks(client, schema, topic)
    assert not answer.HasField("error_code"), answer
    return int.from_bytes(answer.schema_version, "big")


def opened(world: SessionWorld, topic: str = TOPIC) -> Client:
    client = world.client()
    assert isinstance(client.ask(produce(1, topic=topic)), pb.CommandProducerSuccess)
    return client


def test_a_refusal_names_the_version_the_field_and_the_rule() -> None:
    world = SessionWorld()
    client = opened(world)
    registered(client, avro(A))
    answer = client.ask(produce(2, 2, schema=avro(A_B)))
    refused(
        answer,
        pb.IncompatibleSchema,
        TOPIC,
        "under FULL",
        "as a reader of version 0 it fails",
        "field 'b': the reader's has no default, and the writer's record lacks it",
        "schemaCompatibilityStrategy",
    )


def test_what_is_done_with_schemas_is_counted() -> None:
    world = SessionWorld()
    client = opened(world)
    registered(client, avro(A))
    client.ask(produce(2, 2, schema=avro(A_B)))
    ((namespace, counts),) = world.directory.schemas.counts.all()
    assert namespace == NAME.namespace_name
    assert (counts.compatible, counts.incompatible) == (0, 1)
    assert counts.durations[Work.PUT].count == 2
    assert counts.failed[Work.PUT] == 1
    run(world.directory.schemas.remove(NAME), world.clock)
    assert counts.durations[Work.DEL].count == 1


def test_the_reader_may_be_the_old_version() -> None:
    world = SessionWorld(schema_compatibility_strategy=SchemaCompatibility.FORWARD)
    client = opened(world)
    registered(client, avro(A_B))
    answer = asks(client, avro(A))
    assert "version 0 as its reader fails: field 'b'" in answer.error_message


def test_a_producer_that_is_opened_again_has_its_schema_version() -> None:
    client = SessionWorld().client()
    first = client.ask(produce(1, schema=avro(A)))
    again = client.ask(produce(1, schema=avro(A)))
    assert first.schema_version == again.schema_version == bytes(8)


def test_a_schema_that_is_too_large() -> None:
    client = opened(SessionWorld(magnetar_max_schema_size_in_bytes=10))
    assert registered(client, external(b"x" * 10)) == 0
    answer = asks(client, external(b"x" * 11))
    assert answer.error_code == pb.IncompatibleSchema
    assert "exceeds the limit of 10 (magnetarMaxSchemaSizeInBytes)" in answer.error_message
    properties = [pb.KeyValue(key="key", value="x" * 8)]
    large = pb.Schema(name="", type=pb.Schema.String, schema_data=b"", properties=properties)
    assert "11 bytes" in asks(client, large).error_message


def test_a_schema_of_any_depth_is_registered_or_refused() -> None:
    client = SessionWorld().client()
    for depth in range(850, 1000):
        default = "[" * depth + "]" * depth
        text = json.dumps(A).replace('"int"', f'"int", "default": {default}')
        sent = pb.Schema(name="", type=pb.Schema.Avro, schema_data=text.encode())
        answer = client.ask(produce(depth, depth, schema=sent, topic=f"{TOPIC}-{depth}"))
        if not isinstance(answer, pb.CommandProducerSuccess):
            refused(answer, pb.IncompatibleSchema, "deep")


def test_more_versions_than_allowed() -> None:
    client = opened(SessionWorld(magnetar_max_schema_versions=2))
    assert [registered(client, external(b"%d" % number)) for number in range(2)] == [0, 1]
    assert "magnetarMaxSchemaVersions" in asks(client, external(b"2")).error_message
    assert registered(client, external(b"0")) == 0


def test_a_consumer_that_has_what_never_changes() -> None:
    world = SessionWorld(schema_compatibility_strategy=SchemaCompatibility.ALWAYS_INCOMPATIBLE)
    client = opened(world)
    registered(client, avro(A))
    assert "ALWAYS_INCOMPATIBLE" in asks(client, avro(A_B)).error_message
    assert isinstance(client.ask(subscribe(1, schema=avro(A))), pb.CommandSuccess)
    refused(client.ask(subscribe(2, 2, schema=avro(A_B))), pb.IncompatibleSchema, "ALWAYS_INCOMP")


def test_topics_of_the_system_have_a_strategy_of_their_own() -> None:
    world = SessionWorld()
    topic = "persistent://public/default/__change_events"
    client = opened(world, topic)
    assert registered(client, avro(A), topic) == 0
    assert registered(client, external(b"x"), topic) == 1


def test_the_text_of_a_consumers_primitive_schema_does_not_matter() -> None:
    client = SessionWorld().client()
    text = pb.Schema(name="", type=pb.Schema.Int32, schema_data=b"text")
    assert isinstance(client.ask(subscribe(1, schema=text)), pb.CommandSuccess)
    answer = client.ask(produce(1, schema=text))
    refused(answer, pb.IncompatibleSchema, "invalid INT32 schema", "expected no data")


def test_a_non_persistent_topic_that_is_used_as_bytes() -> None:
    world = SessionWorld()
    topic = TOPIC.replace("persistent", "non-persistent")
    client = world.client()
    assert isinstance(client.ask(subscribe(1, topic=topic)), pb.CommandSuccess)
    answer = world.client().ask(subscribe(1, topic=topic, subscription="s", schema=avro(A)))
    refused(answer, pb.IncompatibleSchema, "in use without a schema")


def test_a_schema_that_two_domains_share_goes_with_the_last_of_both() -> None:
    world = SessionWorld()
    other = TOPIC.replace("persistent", "non-persistent")
    for gone, left in ((TOPIC, other), (other, TOPIC)):
        client = world.client()
        client.ask(produce(1, 1, topic=gone, schema=avro(A)))
        client.ask(produce(2, 2, topic=left, schema=avro(A)))
        world.do(world.directory.deletion.topics.delete(TopicName.parse(gone), force=True))
        assert world.do(world.directory.schemas.has(TopicName.parse(left)))
    world.do(world.directory.deletion.topics.delete(NAME, force=True))
    assert not world.do(world.directory.schemas.has(NAME))


def test_what_is_deleted_with_a_topic_and_with_a_namespace() -> None:
    world = SessionWorld()
    client = opened(world)
    schemas = world.directory.schemas
    registered(client, avro(A))
    run(schemas.delete(NAME), world.clock)
    assert run(schemas.get(NAME), world.clock) is None
    assert registered(client, external(b"x")) == 0
    run(schemas.delete_namespace("public/default"), world.clock)
    assert not run(schemas.has(NAME), world.clock)


def test_a_topic_that_is_deleted_meanwhile_gets_no_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SessionWorld()
    client, topic = opened(world), world.topic()
    registry = world.directory.schemas._registry
    history, gate = registry.history, world.clock.promise()

    async def slow_history(name: str) -> History:
        found = await history(name)
        await gate
        return found

    monkeypatch.setattr(registry, "history", slow_history)
    client.send(produce(2, 2, schema=avro(A)))
    world.clock.pump()
    world.do(world.directory.deletion.topics.delete(topic.name, force=True))
    gate.set_result(None)
    (answer,) = [one for one in client.received() if isinstance(one, pb.CommandError)]
    refused(answer, pb.ServiceNotReady)
    assert world.do(world.directory.schemas.get(topic.name)) is None


@pytest.mark.parametrize("limit", ["MAX_UNDERSTOOD", "MAX_UNDERSTOOD_BYTES"])
def test_meanings_that_are_forgotten(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(f"magnetar_broker.schemas.service.{limit}", 3)
    world = SessionWorld()
    client = opened(world)
    numbers = [registered(client, external(b"%d" % number)) for number in range(9)]
    assert numbers == list(range(9))
    assert len(world.directory.schemas._accepted) == 3
    assert registered(client, external(b"0")) == 0


def test_a_topic_without_a_schema_keeps_nothing() -> None:
    world = SessionWorld()
    opened(world)
    registry = world.directory.schemas._registry
    assert not registry._known and not registry._writing.keys()
