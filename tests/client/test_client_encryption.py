"""Encrypted messages over the real daemon, between this client and the official one too."""

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulsar
import pytest

import magnetar
from admin_http import Admin
from client.key_pairs import key_pair, key_reader
from client.receiving import take, values
from fakes.client_clock import ManualClock
from fakes.waiting import until
from running_broker import RunningBroker

TIMEOUT_S = 60.0
TIMEOUT_MS = int(TIMEOUT_S * 1000)
LARGE = bytes(range(256)) * 24 * 1024
QUEUE_SIZE = 5

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "single": ({"batching": None}, {}),
    "compressed": ({"batching": None, "compression": "zstd"}, {"compression_type": "zstd"}),
    "batched": ({}, {"batching_enabled": True}),
    "both": ({"compression": "lz4"}, {"batching_enabled": True, "compression_type": "lz4"}),
    "chunked": ({"batching": None, "chunking": True}, {"chunking_enabled": True}),
}
COMPRESSIONS = {"zstd": pulsar.CompressionType.ZSTD, "lz4": pulsar.CompressionType.LZ4}


def new_topic() -> str:
    return f"persistent://public/default/encrypted-{uuid.uuid4().hex[:10]}"


def payloads(way: str) -> list[bytes]:
    return [LARGE, b"after"] if way == "chunked" else [b"secret %d" % at for at in range(30)]


def official_reader(folder: Path) -> pulsar.CryptoKeyReader:
    paths = folder / "public.pem", folder / "private.pem"
    for path, pem in zip(paths, key_pair("k"), strict=True):
        path.write_bytes(pem)
    return pulsar.CryptoKeyReader(*map(str, paths))


@pytest.mark.parametrize("way", WAYS)
async def test_from_this_client_to_the_official_one(
    broker: RunningBroker, official: pulsar.Client, way: str, tmp_path: Path
) -> None:
    topic = new_topic()
    consumer = official.subscribe(topic, "s", crypto_key_reader=official_reader(tmp_path))
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(
            topic, encryption_keys=["k"], key_reader=key_reader("k"), **WAYS[way][0]
        )
        await producer.send_batch(payloads(way))
        for expected in payloads(way):
            message = await asyncio.to_thread(consumer.receive, TIMEOUT_MS)
            assert message.data() == expected
            consumer.acknowledge(message)


@pytest.mark.parametrize("way", WAYS)
async def test_from_the_official_client_to_this_one(
    broker: RunningBroker, official: pulsar.Client, way: str, tmp_path: Path
) -> None:
    topic = new_topic()
    options: dict[str, Any] = dict(WAYS[way][1])
    if "compression_type" in options:
        options["compression_type"] = COMPRESSIONS[str(options["compression_type"])]

    def send() -> None:
        producer = official.create_producer(
            topic, encryption_key="k", crypto_key_reader=official_reader(tmp_path), **options
        )
        for payload in payloads(way):
            producer.send_async(payload, None)
        producer.flush()

    await asyncio.to_thread(send)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", key_reader=key_reader("k")
        )
        messages = await take(consumer, len(payloads(way)))
        assert values(messages) == payloads(way)
        assert messages[0].encryption_keys == {"k": {}}
        assert not messages[0].is_encrypted
        metadata = messages[0].entry.metadata
        assert not metadata.HasField("encryption_algo") and len(metadata.encryption_param) == 12
        consumer.ack(messages)
        await consumer.flush()


async def test_readers_and_table_views_decrypt(broker: RunningBroker) -> None:
    topic = new_topic()
    keys = key_reader("k")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, encryption_keys=["k"], key_reader=keys)
        await producer.send(b"10", key="apple")
        reader = await client.reader(topic, key_reader=keys)
        assert (await reader.read(TIMEOUT_S)).value == b"10"
        view = await client.table_view(topic, key_reader=keys)
        assert dict(view) == {"apple": b"10"}
        entries = await client.entry_reader(topic, key_reader=keys)
        [entry] = await entries.receive_entries(timeout_s=TIMEOUT_S)
        assert entry.body() == b"10"
        sealed = await client.entry_reader(topic)
        [entry] = await sealed.receive_entries(timeout_s=TIMEOUT_S)
        assert b"10" not in entry.payload()
        with pytest.raises(magnetar.DecryptionFailed, match="this client has no keys"):
            entry.body()


async def publish_mixed(client: magnetar.Client, topic: str, rounds: int) -> list[bytes]:
    """Rounds of a batch and a message of strangers, in some a large one, and one for us."""
    stranger: dict[str, Any] = {"encryption_keys": ["x"], "key_reader": key_reader("x")}
    batched = await client.producer(topic, **stranger)
    large = await client.producer(topic, batching=None, chunking=True, **stranger)
    ours = await client.producer(topic, encryption_keys=["k"], key_reader=key_reader("k"))
    good = []
    for number in range(rounds):
        await batched.send_batch([b"1", b"2", b"3"])
        await batched.send(b"alone")
        if number < LARGE_ROUNDS:
            await large.send(LARGE)
        good.append(b"good %d" % number)
        await ours.send(good[-1])
    return good


ROUNDS = 30
"""Many times the permits of a queue."""
LARGE_ROUNDS = 2
ENTRIES_OF_STRANGERS = 2 * ROUNDS + 2 * LARGE_ROUNDS


@pytest.mark.parametrize("queue_size", [0, QUEUE_SIZE])
@pytest.mark.parametrize("kind", ["exclusive", "shared"])
@pytest.mark.parametrize("choice", ["fail", "discard", "consume"])
async def test_what_no_key_decrypts_ends_no_consumer(
    broker: RunningBroker, choice: str, kind: str, queue_size: int
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        good = await publish_mixed(client, topic, ROUNDS)
        consumer = await client.subscribe(
            topic, "s", type=kind, initial_position="earliest", queue_size=queue_size,
            key_reader=key_reader("k"), on_undecryptable=choice,
        )  # fmt: skip
        received: list[bytes] = []
        encrypted = failures = 0
        while len(received) < ROUNDS:
            try:
                message = await consumer.receive(TIMEOUT_S)
            except magnetar.DecryptionFailed:
                failures += 1
                continue
            consumer.ack(message)
            if message.is_encrypted:
                encrypted += 1
                assert message.encryption_keys == {"x": {}} and message.id.batch_index == -1
            else:
                received.append(message.value)
        assert received == good
        strangers = ENTRIES_OF_STRANGERS
        assert failures == (strangers if choice == "fail" else 0)
        assert encrypted == (strangers if choice == "consume" else 0)
        assert consumer.unreadable == (0 if choice == "consume" else strangers)
        await consumer.close()
        producer = await client.producer(topic)
        await producer.send(b"end")
        again = await client.subscribe(topic, "s", type=kind, on_unreadable="skip")
        assert (await again.receive(TIMEOUT_S)).value == b"end"
        assert again.unreadable == (strangers if choice == "fail" else 0)


async def test_a_message_whose_key_comes_later_is_delivered_after_the_ack_timeout(
    broker: RunningBroker, clock: ManualClock
) -> None:
    topic = new_topic()
    asked = []

    def find(name: str, metadata: Mapping[str, str]) -> bytes:
        asked.append(name)
        if len(asked) < 3:
            raise LookupError("not there yet")
        return key_pair("k")[1]

    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type="shared", key_reader=magnetar.KeyReader(private=find),
            on_unreadable="skip", ack_timeout_s=1, ack_timeout_tick_s=0.05,
        )  # fmt: skip
        producer = await client.producer(topic, encryption_keys=["k"], key_reader=key_reader("k"))
        await producer.send(b"secret")
        for tries in (1, 2):
            await until(lambda: len(asked) == tries, "it was tried to decrypt it")  # noqa: B023
            clock.advance(1.05)
        message = await consumer.receive(TIMEOUT_S)
        assert (message.value, message.redelivery_count) == (b"secret", 2)


async def test_a_namespace_that_requires_encryption_accepts_it(broker: RunningBroker) -> None:
    namespace = f"public/required-{uuid.uuid4().hex[:10]}"
    admin = Admin(broker)
    assert admin.put(f"namespaces/{namespace}", {}).status == 204
    assert admin.post(f"namespaces/{namespace}/encryptionRequired", True).status == 204
    topic = f"persistent://{namespace}/t"
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, encryption_keys=["k"], key_reader=key_reader("k"))
        await producer.send(b"secret")


async def test_a_producer_without_its_keys(broker: RunningBroker) -> None:
    topic = new_topic()
    nothing = magnetar.KeyReader({})
    async with magnetar.connect(broker.service_url) as client:
        with pytest.raises(magnetar.EncryptionFailed, match="there is no public key 'k'"):
            await client.producer(topic, encryption_keys=["k"], key_reader=nothing)
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(
            topic, encryption_keys=["k"], key_reader=nothing, on_encryption_failure="send"
        )
        await producer.send(b"plain")
        message = await consumer.receive(TIMEOUT_S)
        assert (message.value, message.encryption_keys) == (b"plain", {})


@pytest.mark.parametrize("partitions", [0, 3])
async def test_messages_are_sent_again_as_they_were_encrypted(
    broker: RunningBroker, partitions: int
) -> None:
    topic = new_topic()
    path = topic.replace("://", "/")
    if partitions:
        assert Admin(broker).put(f"{path}/partitions", partitions).status == 204
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", key_reader=key_reader("k"))
        producer = await client.producer(
            topic, encryption_keys=["k"], key_reader=key_reader("k"), lazy=True
        )
        for number in range(20):
            producer.send_nowait(b"%d" % number, key=str(number))
            if number == 10:
                assert Admin(broker).put(f"{path}/unload").status == 204
        await producer.flush()
        assert {int(value) for value in values(await take(consumer, 20))} == set(range(20))
