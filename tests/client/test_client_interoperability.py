"""Every form of a message, from this client to the official one and back, on a real broker."""

import asyncio
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pulsar
import pytest

import magnetar
from client.compat.records import plain
from client.key_pairs import key_pair, key_reader
from client.receiving import take
from client.schema import official_records
from magnetar import schema
from official import TIMEOUT_MS
from running_broker import RunningBroker

COMPRESSIONS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
LARGE = os.urandom(1024) * (6 * 1024) + os.urandom(5 * 1024 * 1024)
"""More than an entry can be, however it is compressed."""


@dataclass(frozen=True)
class Values:
    """A schema of both clients, and two values for it as each has them."""

    ours: Callable[[], schema.Schema[Any]]
    theirs: Callable[[], Any]
    pairs: tuple[tuple[Any, Any], tuple[Any, Any]]
    """The second is the smallest there is."""


def records() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    part = official_records.OurClasses.Part("", 0.0)
    return (
        (official_records.ours(), official_records.theirs()),
        (
            official_records.OurClasses.Order(
                False, 0, None, None, None, None, None, None, part, None, None
            ),
            official_records.Order(
                truth=False, small=0, part=official_records.Part(name="", price=0.0)
            ),
        ),
    )


VALUES = {
    "bytes": Values(
        schema.Bytes, pulsar.schema.BytesSchema, ((b"\0one\xff", b"\0one\xff"), (b"", b""))
    ),
    "text": Values(
        schema.String, pulsar.schema.StringSchema, (("tëxt 日本", "tëxt 日本"), ("", ""))
    ),
    "json": Values(
        lambda: schema.Json(official_records.OurClasses.Order),
        lambda: pulsar.schema.JsonSchema(official_records.Order),
        records(),
    ),
    "avro": Values(
        lambda: schema.Avro(official_records.OurClasses.Order),
        lambda: pulsar.schema.AvroSchema(official_records.Order),
        records(),
    ),
}


@dataclass(frozen=True)
class Form:
    """What a message is beside its value; `number` is that of the value, None: it has none."""

    number: int | None = 0
    key: str | None = None
    ordering_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    delay_s: float = 0


FORMS = (
    Form(),
    Form(number=1),
    Form(number=None),
    Form(number=None, key="deleted"),
    Form(key="key"),
    Form(key="schlüssel 鍵"),
    Form(ordering_key="order"),
    Form(key="key", ordering_key="order"),
    Form(properties={"lang": "en", "ü": "日本", "empty": ""}),
    Form(event_time_ms=1),
    Form(event_time_ms=2**53),
    Form(
        number=1, key="k", ordering_key="o", properties={"a": "b"}, event_time_ms=1_700_000_000_000
    ),
    Form(delay_s=0.3, key="later", properties={"is": "delayed"}),
)
"""The delayed one comes last."""

ENCRYPTED = {False: "open", True: "encrypted"}
each_way = pytest.mark.parametrize(
    ("compression", "encrypted"),
    [
        pytest.param(name, encrypted, id=f"{name}-{text}")
        for name in COMPRESSIONS
        for encrypted, text in ENCRYPTED.items()
    ],
)
each_kind = pytest.mark.parametrize(
    ("kind", "compression", "encrypted"),
    [
        pytest.param(kind, name, encrypted, id=f"{kind}-{name}-{text}")
        for kind in VALUES
        for name in (COMPRESSIONS if kind == "bytes" else ["none", "zlib"])
        for encrypted, text in ENCRYPTED.items()
    ],
)


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/forms-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def key_files(tmp_path: Path) -> pulsar.CryptoKeyReader:
    """The keys as the official client reads them."""
    paths = tmp_path / "public.pem", tmp_path / "private.pem"
    for path, pem in zip(paths, key_pair("k"), strict=True):
        path.write_bytes(pem)
    return pulsar.CryptoKeyReader(*map(str, paths))


def our_keys(encrypted: bool) -> dict[str, Any]:
    return {"encryption_keys": ["k"], "key_reader": key_reader("k")} if encrypted else {}


def their_keys(encrypted: bool, keys: pulsar.CryptoKeyReader) -> dict[str, Any]:
    return {"encryption_key": "k", "crypto_key_reader": keys} if encrypted else {}


def outgoing(form: Form, kinds: Values) -> magnetar.Outgoing[Any]:
    return magnetar.Outgoing(
        None if form.number is None else kinds.pairs[form.number][0],
        key=form.key,
        ordering_key=form.ordering_key.encode() if form.ordering_key else None,
        properties=form.properties,
        event_time_ms=form.event_time_ms,
        is_null=form.number is None,
    )


def send_theirs(producer: pulsar.Producer, kinds: Values) -> list[pulsar.MessageId]:
    """All forms; the ids in their order."""
    ids: dict[int, pulsar.MessageId] = {}
    for place, form in enumerate(FORMS):

        def stored(result: Any, message_id: pulsar.MessageId, place: int = place) -> None:
            assert result == pulsar.Result.Ok
            ids[place] = message_id

        producer.send_async(
            None if form.number is None else kinds.pairs[form.number][1],
            stored,
            partition_key=form.key,
            ordering_key=form.ordering_key,
            properties=form.properties,
            event_timestamp=form.event_time_ms or None,
            deliver_after=timedelta(seconds=form.delay_s) if form.delay_s else None,
        )
    producer.flush()
    return [ids[place] for place in range(len(FORMS))]


@each_kind
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_from_this_client_to_the_official_one(
    broker: RunningBroker,
    official: pulsar.Client,
    topic: str,
    key_files: pulsar.CryptoKeyReader,
    kind: str,
    batched: bool,
    compression: str,
    encrypted: bool,
) -> None:
    kinds = VALUES[kind]
    consumer = official.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        schema=kinds.theirs(),
        crypto_key_reader=key_files if encrypted else None,
    )
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(
            topic,
            name="ours",
            schema=kinds.ours(),
            compression=compression,
            batching=magnetar.BatchLimits(max_delay_ms=1000) if batched else None,
            **our_keys(encrypted),
        )
        receipts = [producer.send_message_nowait(outgoing(form, kinds)) for form in FORMS[:-1]]
        await producer.flush()
        last = FORMS[-1]
        ids = [await receipt for receipt in receipts]
        ids.append(
            await producer.send(
                kinds.pairs[0][0],
                key=last.key,
                properties=last.properties,
                deliver_after_s=last.delay_s,
            )
        )
    assert (ids[0].batch_index >= 0) == batched
    for form, sent in zip(FORMS, ids, strict=True):
        message = await asyncio.to_thread(consumer.receive, TIMEOUT_MS)
        theirs = message.message_id()
        assert (theirs.ledger_id(), theirs.entry_id(), theirs.batch_index()) == sent[:3]
        assert message.has_null_value() == (form.number is None)
        if form.number is not None:
            assert message.value() == kinds.pairs[form.number][1]
        else:
            assert message.data() == b""
        assert message.partition_key() == (form.key or "")
        assert message.ordering_key() == (form.ordering_key or "")
        assert message.properties() == form.properties
        assert message.event_timestamp() == form.event_time_ms
        assert message.producer_name() == "ours"
        assert (message.encryption_context() is not None) == encrypted
        consumer.acknowledge(message)


@each_kind
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_from_the_official_client_to_this_one(
    broker: RunningBroker,
    official: pulsar.Client,
    topic: str,
    key_files: pulsar.CryptoKeyReader,
    kind: str,
    batched: bool,
    compression: str,
    encrypted: bool,
) -> None:
    kinds = VALUES[kind]
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            type="shared",
            schema=kinds.ours(),
            key_reader=key_reader("k") if encrypted else None,
        )
        producer = official.create_producer(
            topic,
            producer_name="theirs",
            schema=kinds.theirs(),
            compression_type=COMPRESSIONS[compression],
            batching_enabled=batched,
            batching_max_publish_delay_ms=60_000,
            **their_keys(encrypted, key_files),
        )
        ids = await asyncio.to_thread(send_theirs, producer, kinds)
        assert (ids[0].batch_index() >= 0) == batched
        for form, sent, message in zip(FORMS, ids, await take(consumer, len(FORMS)), strict=True):
            assert message.id[:2] == (sent.ledger_id(), sent.entry_id())
            assert message.id.batch_index == sent.batch_index()
            assert message.is_null == (form.number is None)
            expected = None if form.number is None else kinds.pairs[form.number][0]
            assert message.value == expected
            assert message.key == form.key
            assert message.ordering_key == (form.ordering_key or "").encode()
            assert message.properties == form.properties
            assert message.event_time_ms == form.event_time_ms
            assert message.producer_name == "theirs"
            assert message.encryption_keys == ({"k": {}} if encrypted else {})
            consumer.ack(message)


@each_way
async def test_chunks_from_this_client_to_the_official_one(
    broker: RunningBroker,
    official: pulsar.Client,
    topic: str,
    key_files: pulsar.CryptoKeyReader,
    compression: str,
    encrypted: bool,
) -> None:
    keys = key_files if encrypted else None
    consumer = official.subscribe(topic, "s", crypto_key_reader=keys)
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(
            topic, batching=None, chunking=True, compression=compression, **our_keys(encrypted)
        )
        await producer.send(LARGE, key="key", properties={"a": "b"}, event_time_ms=5)
        await producer.send(b"after")
    message = await asyncio.to_thread(consumer.receive, TIMEOUT_MS)
    assert message.data() == LARGE
    assert (message.partition_key(), message.properties()) == ("key", {"a": "b"})
    assert message.event_timestamp() == 5
    consumer.acknowledge(message)
    assert (await asyncio.to_thread(consumer.receive, TIMEOUT_MS)).data() == b"after"


@each_way
async def test_chunks_from_the_official_client_to_this_one(
    broker: RunningBroker,
    official: pulsar.Client,
    topic: str,
    key_files: pulsar.CryptoKeyReader,
    compression: str,
    encrypted: bool,
) -> None:
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", key_reader=key_reader("k") if encrypted else None
        )

        def send() -> None:
            producer = official.create_producer(
                topic,
                chunking_enabled=True,
                compression_type=COMPRESSIONS[compression],
                **their_keys(encrypted, key_files),
            )
            producer.send(LARGE, partition_key="key", properties={"a": "b"}, event_timestamp=5)
            producer.send(b"after")

        await asyncio.to_thread(send)
        message, after = await take(consumer, 2)
        assert message.value == LARGE
        assert (message.key, message.properties) == ("key", {"a": "b"})
        assert message.event_time_ms == 5
        assert after.value == b"after"


def test_records_of_both_are_the_same() -> None:
    for mine, their in records():
        assert plain(their).keys() == vars(mine).keys()
