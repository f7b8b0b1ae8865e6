"""Programs with schemas, on the official client and on `magnetar.compat`, and between both."""

import queue
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pulsar
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import magnetar.compat
from admin_http import Admin
from client.compat.records import declared, order, plain
from official import TIMEOUT_MS
from running_broker import RunningBroker

KINDS = ["JsonSchema", "AvroSchema", "dicts", "ProtobufNativeSchema", "StringSchema"]


def schema_and_value(api: ModuleType, kind: str) -> tuple[Any, Any]:
    """A schema of this module, and a value for it."""
    of = declared(api.schema)
    if kind == "dicts":
        return api.schema.AvroSchema(None, of.Part.schema()), {"name": "a", "price": 1.5}
    if kind == "ProtobufNativeSchema":
        return api.schema.ProtobufNativeSchema(Timestamp), Timestamp(seconds=5)
    if kind == "StringSchema":
        return api.schema.StringSchema(), "tëxt"
    return getattr(api.schema, kind)(of.Order), order(of)


@pytest.mark.parametrize("kind", KINDS)
def test_values_come_as_they_were_sent(api: ModuleType, client: Any, topic: str, kind: str) -> None:
    schema, value = schema_and_value(api, kind)
    heard: queue.Queue[Any] = queue.Queue()
    consumer = client.subscribe(topic, "s", schema=schema)
    client.subscribe(
        topic, "l", schema=schema, message_listener=lambda _, message: heard.put(message.value())
    )
    routed: list[Any] = []

    def router(message: Any, count: int) -> int:
        routed.append(message.data())
        return 0

    producer = client.create_producer(topic, schema=schema, message_router=router)
    sent = producer.send(value, partition_key="key")
    message = consumer.receive(TIMEOUT_MS)
    assert message.value() == value
    assert message.data() == schema.encode(value)
    assert heard.get(timeout=TIMEOUT_MS / 1000) == value
    reader = client.create_reader(topic, sent, schema=schema, start_message_id_inclusive=True)
    assert reader.read_next(TIMEOUT_MS).value() == value
    policy = api.ConsumerBatchReceivePolicy(1, -1, TIMEOUT_MS)
    batches = client.subscribe(
        topic, "b", schema=schema, batch_receive_policy=policy,
        initial_position=api.InitialPosition.Earliest,
    )  # fmt: skip
    assert [message.value() for message in batches.batch_receive()] == [value]


@pytest.mark.parametrize("kind", KINDS)
def test_table_views_have_values(api: ModuleType, client: Any, topic: str, kind: str) -> None:
    schema, value = schema_and_value(api, kind)
    producer = client.create_producer(topic, schema=schema)
    producer.send(value, partition_key="a")
    view = client.create_table_view(topic, schema=schema)
    assert view.get("a") == value
    there: dict[str, Any] = {}
    view.for_each(there.__setitem__)
    assert there == {"a": value}
    told: queue.Queue[tuple[str, Any]] = queue.Queue()
    view.for_each_and_listen(lambda key, value: told.put((key, value)))
    assert told.get_nowait() == ("a", value)
    producer.send(value, partition_key="b")
    assert told.get(timeout=TIMEOUT_MS / 1000) == ("b", value)


def evolving(api: ModuleType) -> tuple[Any, Any]:
    """Two versions of one record: the later has another field, and lacks one."""
    schema: Any = api.schema

    def before() -> Any:
        class Item(schema.Record):
            name = schema.String(required=True)
            old = schema.Integer(default=1, required=True, required_default=True)

        return Item

    def after() -> Any:
        class Item(schema.Record):
            new = schema.String(default="none", required=True, required_default=True)
            name = schema.String(required=True)

        return Item

    return before(), after()


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_versions_of_a_record(api: ModuleType, client: Any, topic: str, kind: str) -> None:
    before, after = evolving(api)
    first, second = (getattr(api.schema, kind)(cls) for cls in (before, after))
    old = client.subscribe(topic, "old", schema=first)
    new = client.subscribe(topic, "new", schema=second)
    client.create_producer(topic, schema=first).send(before(name="a", old=7))
    client.create_producer(topic, schema=second).send(after(name="b", new="x"))
    assert [old.receive(TIMEOUT_MS).value() for _ in range(2)] == [
        before(name="a", old=7), before(name="b", old=1),
    ]  # fmt: skip
    assert [new.receive(TIMEOUT_MS).value() for _ in range(2)] == [
        after(name="a", new="none"), after(name="b", new="x"),
    ]  # fmt: skip


def test_another_schema_is_refused(api: ModuleType, client: Any, topic: str) -> None:
    of = declared(api.schema)
    client.create_producer(topic, schema=api.schema.JsonSchema(of.Part))
    with pytest.raises(api.IncompatibleSchema):
        client.create_producer(topic, schema=api.schema.JsonSchema(of.Spaced))
    with pytest.raises(api.IncompatibleSchema):
        client.subscribe(topic, "s", schema=api.schema.AvroSchema(of.Part))


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_a_value_that_cannot_be_decoded_raises_where_it_is_asked_for(
    api: ModuleType, client: Any, topic: str, kind: str
) -> None:
    of = declared(api.schema)
    consumer = client.subscribe(topic, "s", schema=getattr(api.schema, kind)(of.Part))

    base: Any = api.schema.Schema

    class Careless(base):
        def __init__(self) -> None:
            info = getattr(api.schema, kind)(of.Part).schema_info()
            super().__init__(bytes, info.schema_type(), of.Part.schema(), info.name())

        def encode(self, obj: Any) -> bytes:
            return bytes(obj)

    client.create_producer(topic, schema=Careless()).send(b"\xff")
    message = consumer.receive(TIMEOUT_MS)
    assert message.data() == b"\xff"
    with pytest.raises(Exception):  # noqa: B017 (the official client raises what it meets)
        message.value()
    consumer.acknowledge(message)


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema", "StringSchema"])
def test_a_message_without_value(api: ModuleType, client: Any, topic: str, kind: str) -> None:
    schema, _ = schema_and_value(api, kind)
    consumer = client.subscribe(topic, "s", schema=schema)
    client.create_producer(topic, schema=schema).send(None, partition_key="key")
    message = consumer.receive(TIMEOUT_MS)
    assert (message.has_null_value(), message.data()) == (True, b"")
    if kind == "StringSchema":
        assert message.value() == ""
    else:
        with pytest.raises(Exception):  # noqa: B017 (as above: there is nothing to decode)
            message.value()


@pytest.fixture
def both(broker: RunningBroker) -> Iterator[dict[ModuleType, Any]]:
    """A client of either module."""
    modules: tuple[Any, ...] = (pulsar, magnetar.compat)
    clients = {module: module.Client(broker.service_url) for module in modules}
    yield clients
    for client in clients.values():
        client.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [pulsar, magnetar.compat], ids=["theirs", "ours"])
def test_both_share_a_topic(
    broker: RunningBroker, both: dict[Any, Any], topic: str, kind: str, first: Any
) -> None:
    with_schema = {module: schema_and_value(module, kind) for module in (pulsar, magnetar.compat)}
    (second,) = set(both) - {first}
    consumers = {
        module: client.subscribe(topic, module.__name__, schema=with_schema[module][0])
        for module, client in ((one, both[one]) for one in (first, second))
    }
    for writer in (first, second):
        schema, value = with_schema[writer]
        both[writer].create_producer(topic, schema=schema).send(value)
        for module, consumer in consumers.items():
            got = consumer.receive(TIMEOUT_MS).value()
            assert plain(got) == plain(with_schema[module][1])
            assert type(got).__module__ == type(with_schema[module][1]).__module__
    stored = Admin(broker).get(f"schemas/{topic.partition('://')[2]}/schemas").json
    assert len(stored["getSchemaResponses"]) == 1
