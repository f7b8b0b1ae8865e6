"""Producers, consumers, readers and table views with schemas, on the real broker."""

import asyncio
import uuid
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.request import Request, urlopen

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import magnetar
import magnetar.sync
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import PATIENT, ManualClock
from magnetar import schema
from running_broker import RunningBroker


@dataclass
class Person:
    name: str


@dataclass
class Older:
    name: str
    age: int = -1


@dataclass
class Stranger:
    shoe: int


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


async def test_values_go_through_producers_consumers_and_readers(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, schema=schema.Json(Person))
        await producer.send(Person("Ada"), key="a")
        await producer.send_batch([Person("Eve"), magnetar.Outgoing(Person("Bob"), key="b")])
        await producer.send_nowait(Person("Zoe"), properties={"x": "y"})
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", schema=schema.Json(Person)
        )
        messages = await take(consumer, 4)
        assert [one.value.name for one in messages] == ["Ada", "Eve", "Bob", "Zoe"]
        assert messages[0].data == b'{"name":"Ada"}'
        assert messages[0].value is messages[0].value
        assert {schema.version_number(one.schema_version) for one in messages} == {0}
        reader = await client.reader(topic, schema=schema.Json(Person))
        assert (await reader.read(TIMEOUT_S)).value == Person("Ada")
        view = await client.table_view(topic, schema=schema.Json(Person))
        assert dict(view) == {"a": Person("Ada"), "b": Person("Bob")}
        known = await client.schema(topic)
        assert known.definition == schema.Json(Person).info.definition


async def test_a_value_that_does_not_fit_is_not_sent(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        producer: magnetar.Producer[Any] = await client.producer(
            new_topic(), schema=schema.Json(Person)
        )
        with pytest.raises(ValueError, match="expected Person, got 5"):
            await producer.send(5)
        with pytest.raises(ValueError, match=r"Person.name: expected a str, got 5"):
            producer.send_nowait(Person(5))  # type: ignore[arg-type]
        assert (await producer.send(Person("Ada"))).entry == 0


async def test_no_value_is_none(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, schema=schema.String())
        await producer.send("a", key="k")
        view = await client.table_view(topic, schema=schema.String())
        assert dict(view) == {"k": "a"}
        await producer.send("", key="k", is_null=True)
        await view.refresh()
        assert not view
        reader = await client.reader(topic, schema=schema.String())
        assert [(await reader.read(TIMEOUT_S)).value for _ in range(2)] == ["a", None]


async def test_what_cannot_be_decoded_ends_nothing(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        good = await client.producer(topic, schema=schema.Json(Person))
        bad = await client.producer(topic, schema=schema.Encoded(schema.Json(Person).info))
        await good.send(Person("Ada"), key="k")
        sent = await bad.send(b"{", key="k")
        await good.send(Person("Eve"), key="l")
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", schema=schema.Json(Person)
        )
        first, broken, last = await take(consumer, 3)
        assert (first.value.name, last.value.name) == ("Ada", "Eve")
        with pytest.raises(magnetar.Undecodable, match="schema version 0") as failure:
            _ = broken.value
        assert failure.value.message_id == broken.id == sent._replace(batch_index=-1)
        assert str(broken.id) in str(failure.value)
        assert failure.value.schema_version == bytes(8)
        assert broken.data == b"{"
        consumer.ack([first, broken, last])
        await consumer.flush()
        view = await client.table_view(topic, schema=schema.Json(Person))
        assert dict(view) == {"k": Person("Ada"), "l": Person("Eve")}


async def test_messages_without_schema_are_decoded_as_well(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", schema=schema.Int32())
        await (await client.producer(topic)).send(b"\0\0\0\7")
        message = await consumer.receive(TIMEOUT_S)
        assert (message.value, message.schema_version) == (7, b"")


async def test_incompatible_schemas_are_refused(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, schema=schema.Json(Person))
        others: list[schema.Schema[Any]] = [schema.Json(Stranger), schema.String()]
        for other in others:
            with pytest.raises(magnetar.IncompatibleSchema, match="incompatible"):
                await client.producer(topic, schema=other)
            with pytest.raises(magnetar.IncompatibleSchema):
                await client.subscribe(topic, "s", schema=other)
            with pytest.raises(magnetar.IncompatibleSchema):
                await client.reader(topic, schema=other)
        with pytest.raises(magnetar.IncompatibleSchema, match="shoe"):
            await producer.send(Stranger(5), schema=schema.Json(Stranger))  # type: ignore[arg-type]
        assert (await producer.send(Person("Ada"))).entry == 0
        with pytest.raises(magnetar.NotFound):
            await client.schema(topic, (9).to_bytes(8, "big"))
        with pytest.raises(magnetar.NotFound):
            await client.schema(new_topic())


@pytest.mark.parametrize("options", [{}, {"key_batching": True}, {"batching": None}], ids=str)
async def test_messages_of_several_schemas_from_one_producer(
    broker: RunningBroker, options: dict[str, Any]
) -> None:
    topic = new_topic()
    older = schema.Json(Older)
    async with magnetar.connect(broker.service_url) as client:
        producer: magnetar.Producer[Any] = await client.producer(
            topic, schema=schema.Json(Person), **options
        )
        with pytest.raises(ValueError, match="register"):
            producer.send_nowait(Older("Eve", 37), schema=older)
        assert schema.version_number(await producer.register(older)) == 1
        producer.send_nowait(Person("Ada"))
        producer.send_nowait(Older("Eve", 37), schema=older)
        producer.send_nowait(Person("Bob"))
        await producer.flush()
        await producer.send_batch([magnetar.Outgoing(Older("Zoe", 1), schema=older)])
        consumer = await client.subscribe(topic, "s", initial_position="earliest", schema=older)
        messages = await take(consumer, 4)
        assert [one.value for one in messages] == [
            Older("Ada"), Older("Eve", 37), Older("Bob"), Older("Zoe", 1),
        ]  # fmt: skip
        versions = [schema.version_number(one.schema_version) for one in messages]
        assert versions == [0, 1, 0, 1]


async def test_dead_letters_keep_their_schema(broker: RunningBroker) -> None:
    topic = new_topic()
    kind = schema.Json(Person)
    async with magnetar.connect(broker.service_url) as client:
        await (await client.producer(topic, schema=kind)).send(Person("Ada"))
        consumer = await client.subscribe(
            topic, "s", type="shared", initial_position="earliest", schema=kind, retry=True,
            dead_letter=magnetar.DeadLetterPolicy(1, initial_subscription="kept"),
        )  # fmt: skip
        for _ in range(2):
            message = await consumer.receive(TIMEOUT_S)
            assert message.value == Person("Ada")
            await consumer.reconsume_later(message, 0.01)
        letters = await client.subscribe(f"{topic}-s-DLQ", "kept", schema=kind)
        letter = await letters.receive(TIMEOUT_S)
        assert letter.value == Person("Ada")
        assert schema.version_number(letter.schema_version) == 0


async def test_several_topics_and_partitions(broker: RunningBroker) -> None:
    topics = [new_topic(), new_topic()]
    async with magnetar.connect(broker.service_url) as client:
        for topic in topics:
            await (await client.producer(topic, schema=schema.String())).send(topic)
        consumer = await client.subscribe_all(
            topics, "s", initial_position="earliest", schema=schema.String()
        )
        assert {one.value for one in await take(consumer, 2)} == set(topics)


def test_without_asyncio(broker: RunningBroker) -> None:
    topic = new_topic()
    with magnetar.sync.connect(broker.service_url) as client:
        consumer = client.subscribe(topic, "s", schema=schema.Json(Person))
        client.producer(topic, schema=schema.Json(Person)).send(Person("Ada"))
        assert consumer.receive(TIMEOUT_S).value == Person("Ada")
        assert client.table_view(topic, schema=schema.Json(Person)).snapshot() == {}


async def test_consumers_read_older_and_newer_versions(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        old = await client.producer(topic, schema=schema.Avro(Person))
        await old.send(Person("Ada"))
        young = await client.producer(topic, schema=schema.Avro(Older))
        await young.send_batch([Older("Eve", 37), Older("Zoe", 3)])
        await old.send(Person("Bob"))
        people = await client.subscribe(
            topic, "old", initial_position="earliest", schema=schema.Avro(Person)
        )
        messages = await take(people, 4)
        assert [one.value.name for one in messages] == ["Ada", "Eve", "Zoe", "Bob"]
        versions = [schema.version_number(one.schema_version) for one in messages]
        assert versions == [0, 1, 1, 0]
        reader = await client.reader(topic, schema=schema.Avro(Older), queue_size=0)
        read = [(await reader.read(TIMEOUT_S)).value for _ in range(4)]
        assert read == [Older("Ada", -1), Older("Eve", 37), Older("Zoe", 3), Older("Bob", -1)]


async def test_a_schema_that_is_gone_makes_its_messages_undecodable(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, schema=schema.Avro(Person))
        await producer.send(Person("Ada"))
        await producer.close()
        path = topic.replace("persistent://", "schemas/") + "/schema"
        url = f"{broker.http_url}/admin/v2/{path}"
        await asyncio.to_thread(lambda: urlopen(Request(url, method="DELETE")).close())
        again = await client.producer(topic, schema=schema.Avro(Person))
        await again.send(Person("Eve"))
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", schema=schema.Avro(Person)
        )
        first, second = await take(consumer, 2)
        with pytest.raises(magnetar.Undecodable, match="schema version 0, cannot be decoded"):
            _ = first.value
        assert second.value == Person("Eve")


async def test_anything_is_received_as_it_was_written(broker: RunningBroker) -> None:
    moment = Timestamp(seconds=5)
    pair = schema.KeyValue(schema.String(), schema.Avro(Person), "separated")
    for kind, value, received in (
        (schema.Avro(Person), Person("Ada"), {"name": "Ada"}),
        (schema.Json(Person), Person("Ada"), {"name": "Ada"}),
        (schema.String(), "a", "a"),
        (schema.Int16(), -5, -5),
        (schema.LocalDate(), date(2024, 2, 29), date(2024, 2, 29)),
        (schema.KeyValue(schema.Int8(), schema.Bool()), (1, True), (1, True)),
        (pair, ("k", Person("Ada")), ("k", {"name": "Ada"})),
        (schema.ProtobufNative(Timestamp), moment, moment),
        (schema.Protobuf(Timestamp), moment, moment.SerializeToString()),
        (None, b"bytes", b"bytes"),
    ):
        topic = new_topic()
        async with magnetar.connect(broker.service_url) as client:
            anything: schema.Schema[Any] | None = kind
            await (await client.producer(topic, schema=anything)).send(value)
            consumer = await client.subscribe(
                topic, "s", initial_position="earliest", schema=schema.AutoConsume()
            )
            got = (await consumer.receive(TIMEOUT_S)).value
            if isinstance(value, Timestamp) and not isinstance(received, bytes):
                assert (type(got).__name__, got.seconds) == ("Timestamp", 5)
            else:
                assert got == received
            if anything is not None:
                typed = await client.reader(topic, schema=anything)
                assert (await typed.read(TIMEOUT_S)).value == value


async def test_bytes_are_checked_by_the_schema_of_the_topic(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        plain = await client.producer(new_topic(), schema=schema.AutoProduce())
        assert (await plain.send(b"anything")).entry == 0
        await (await client.producer(topic, schema=schema.Avro(Person))).send(Person("Ada"))
        producer = await client.producer(topic, schema=schema.AutoProduce())
        await producer.send(schema.Avro(Person).encode(Person("Eve")))
        with pytest.raises(ValueError, match="does not fit the topic's schema"):
            await producer.send(b"\x20a")
        reader = await client.reader(topic, schema=schema.Avro(Person))
        messages = [await reader.read(TIMEOUT_S) for _ in range(2)]
        assert [one.value.name for one in messages] == ["Ada", "Eve"]
        assert messages[1].schema_version == bytes(8)
        with pytest.raises(ValueError, match="AutoConsume is for consumers"):
            await client.producer(topic, schema=schema.AutoConsume())
        with pytest.raises(ValueError, match="AutoProduce is for producers"):
            await client.subscribe(topic, "s", schema=schema.AutoProduce())


async def test_separated_keys_choose_the_partition_and_are_compacted_away(
    broker: RunningBroker,
) -> None:
    topic = new_topic()
    kind = schema.KeyValue(schema.String(), schema.Int32(), "separated")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, schema=kind)
        await producer.send_batch([("a", 1), ("b", 2), ("a", 3)])
        view = await client.table_view(topic, schema=kind)
        assert dict(view) == {b"a": ("a", 3), b"b": ("b", 2)}


async def test_dead_letters_of_older_versions(broker: RunningBroker, clock: ManualClock) -> None:
    topic = new_topic()
    async with (
        magnetar.connect(broker.service_url, clock=clock, **PATIENT) as client,
        clock.running(0.1),
    ):
        await (await client.producer(topic, schema=schema.Avro(Person))).send(Person("Ada"))
        await (await client.producer(topic, schema=schema.Avro(Older))).send(Older("Eve", 3))
        consumer = await client.subscribe(
            topic, "s", type="shared", initial_position="earliest", schema=schema.AutoConsume(),
            dead_letter=magnetar.DeadLetterPolicy(1, initial_subscription="kept"),
            nack_delay_s=0.01,
        )  # fmt: skip
        for _ in range(2):
            for message in await take(consumer, 2):
                consumer.nack(message)
        letters = await client.subscribe(
            f"{topic}-s-DLQ", "kept", type="shared", schema=schema.Avro(Older)
        )
        got = {one.value.name: one.value.age for one in await take(letters, 2)}
        assert got == {"Ada": -1, "Eve": 3}
