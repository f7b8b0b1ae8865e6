"""What a producer offers beyond sending: against the daemon, and read by the official client."""

import asyncio
import uuid
from collections.abc import Callable

import pulsar
import pytest

import magnetar
from admin_http import Admin
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import ManualClock
from fakes.waiting import until
from magnetar.producing.routing import partition_of
from running_broker import RunningBroker

TIMEOUT_MS = int(TIMEOUT_S * 1000)
MIB = 1024 * 1024


def new_topic() -> str:
    return f"persistent://public/default/sent-{uuid.uuid4().hex[:10]}"


def partition(broker: RunningBroker, topic: str, count: int) -> None:
    """Make a topic of so many partitions."""
    Admin(broker).put(f"{topic.replace('://', '/')}/partitions", count)


def pattern(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_large_messages_travel_in_chunks(
    broker: RunningBroker, official: pulsar.Client, clock: ManualClock, compression: str
) -> None:
    topic = new_topic()
    theirs = official.subscribe(topic, "theirs")
    large = uuid.uuid4().bytes * (12 * MIB // 16)
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(topic, "ours", type="shared", nack_delay_s=0.01)
        producer = await client.producer(
            topic, chunking=True, max_chunk_bytes=2 * MIB if compression == "none" else 300,
            compression=compression,
        )  # fmt: skip
        ids = await producer.send_batch([b"before", large, b"after"])
        messages = await take(consumer, 3)
        assert [message.value == value for message, value in zip(
            messages, [b"before", large, b"after"], strict=True
        )] == [True] * 3  # fmt: skip
        assert [message.id for message in messages] == ids
        assert (len(messages[1].entry.chunks) > 5) == (compression == "none")
        consumer.nack(messages[1])
        clock.advance(0.02)
        [again] = await take(consumer, 1)
        assert again.value == large
        consumer.ack([messages[0], again, messages[2]])
        await consumer.close()
        fresh = await client.subscribe(topic, "ours", type="shared")
        received = [await asyncio.to_thread(theirs.receive, TIMEOUT_MS) for _ in range(3)]
        assert [m.data() for m in received] == [b"before", large, b"after"]
        await producer.send(b"end")
        assert [message.value for message in await take(fresh, 1)] == [b"end"]


async def test_chunks_of_the_official_client_are_joined(
    broker: RunningBroker, official: pulsar.Client
) -> None:
    topic = new_topic()
    large = pattern(11 * MIB)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = official.create_producer(topic, chunking_enabled=True)
        await asyncio.to_thread(producer.send, large)
        await asyncio.to_thread(producer.send, b"small")
        assert [message.value for message in await take(consumer, 2)] == [large, b"small"]


async def test_a_batch_of_one_key_each(broker: RunningBroker, official: pulsar.Client) -> None:
    topic = new_topic()
    theirs = official.subscribe(topic, "theirs", consumer_type=pulsar.ConsumerType.KeyShared)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "ours")
        producer = await client.producer(topic, key_batching=True)
        sent = [magnetar.Outgoing(b"%d" % n, key=f"k{n % 3}") for n in range(30)]
        await producer.send_batch(sent)
        keys: dict[tuple[int, int], set[object]] = {}
        for message in await take(consumer, 30):
            keys.setdefault(message.entry.position, set()).add(message.key)
        assert len(keys) == 3
        assert all(len(of_entry) == 1 for of_entry in keys.values())
        received = [await asyncio.to_thread(theirs.receive, TIMEOUT_MS) for _ in range(30)]
        for key in ("k0", "k1", "k2"):
            numbers = [int(m.data()) for m in received if m.partition_key() == key]
            assert numbers == sorted(numbers) and len(numbers) == 10


async def test_sequence_ids_of_the_application(
    broker: RunningBroker, make_broker: Callable[..., RunningBroker]
) -> None:
    deduplicating = make_broker(brokerDeduplicationEnabled="true")
    topic = new_topic()
    async with magnetar.connect(deduplicating.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, name="me")
        assert producer.last_sequence_id == -1
        first = await producer.send(b"10", sequence_id=10)
        assert (first.entry >= 0, producer.last_sequence_id) == (True, 10)
        assert (await producer.send(b"again", sequence_id=10))[:2] == (-1, -1)
        await producer.send_batch(
            [magnetar.Outgoing(b"%d" % n, sequence_id=n) for n in (12, 15, 20)]
        )
        assert producer.last_sequence_id == 20
        messages = await take(consumer, 4)
        assert [m.value for m in messages] == [b"10", b"12", b"15", b"20"]
        assert [m.sequence_id for m in messages] == [10, 12, 15, 20]
        await producer.close()
        again = await client.producer(topic, name="me")
        assert again.last_sequence_id == 20
        await again.send(b"21")
        assert (await consumer.receive(TIMEOUT_S)).sequence_id == 21


async def test_exclusive_access(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        first = await client.producer(topic, access_mode="exclusive")
        with pytest.raises(magnetar.ProducerFenced):
            await client.producer(topic, access_mode="exclusive")
        with pytest.raises(magnetar.Busy):
            await client.producer(topic)
        waiting = asyncio.create_task(client.producer(topic, access_mode="wait_for_exclusive"))
        await first.send(b"x")
        assert not waiting.done()
        await first.close()
        second = await waiting
        await second.send(b"y")
        third = await client.producer(topic, access_mode="exclusive_with_fencing")
        await third.send(b"z")
        with pytest.raises(magnetar.ProducerFenced):
            await second.send(b"too late")
    with pytest.raises(ValueError, match="known are shared, exclusive"):
        await client.producer(topic, access_mode="mine")


async def test_delays_and_null_values(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type="shared")
        producer = await client.producer(topic)
        await producer.send(b"later", deliver_after_s=3, ordering_key=b"o")
        await producer.send(b"", key="k", is_null=True)
        now, later = await take(consumer, 2)
        assert (now.key, now.is_null) == ("k", True)
        assert (later.value, later.ordering_key) == (b"later", b"o")
        assert later.deliver_at_ms - later.publish_time_ms in range(2900, 3101)


async def test_routing(broker: RunningBroker) -> None:
    topic = new_topic()
    partition(broker, topic, 4)
    async with magnetar.connect(broker.service_url) as client:
        single = await client.producer(topic, routing="single", batching=None)
        assert len({one.partition for one in await single.send_batch([b"x"] * 20)}) == 1
        mine = await client.producer(
            topic, routing=lambda message, count: int(message.value) % count
        )
        ids = await mine.send_batch([b"%d" % n for n in range(8)])
        assert [one.partition for one in ids] == [0, 1, 2, 3, 0, 1, 2, 3]
        for hashing in ("java", "murmur3"):
            keyed = await client.producer(topic, hashing=hashing)
            for key in ("a", "key-1", "Schlüssel"):
                sent = await keyed.send(b"x", key=key)
                assert sent.partition == partition_of(key, 4, hashing)
        wrong = await client.producer(topic, routing=lambda message, count: 4)
        with pytest.raises(ValueError, match="partition 4: expected 0 to 3"):
            await wrong.send(b"x")


@pytest.mark.parametrize(("text", "hashed"), [("abc", 96354), ("polygenelubricants", 0)])
def test_java_hashes_keys_by_its_strings(text: str, hashed: int) -> None:
    # The second hashes to the smallest int in Java: the sign bit is not used.
    assert partition_of(text, 1 << 31, "java") == hashed


async def test_lazy_producers_open_what_they_use(broker: RunningBroker) -> None:
    topic = new_topic()
    partition(broker, topic, 3)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, lazy=True)
        assert [one.is_connected for one in producer.partitions] == [True, False, False]
        keys = [next(k for k in map(str, range(99)) if partition_of(k, 3) == n) for n in (2, 0)]
        for key in keys:
            await producer.send(b"x", key=key)
        assert [one.is_connected for one in producer.partitions] == [True, False, True]
        assert len(await take(consumer, 2)) == 2
        await producer.flush()


async def test_new_partitions_are_used(broker: RunningBroker, clock: ManualClock) -> None:
    topic = new_topic()
    partition(broker, topic, 1)
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(topic, "s", initial_position="latest")
        producer = await client.producer(topic, routing=lambda _, count: count - 1)
        reader = await client.reader(topic)
        assert len(producer.partitions) == 1
        await asyncio.to_thread(grow, broker, topic, 3)
        clock.advance(60)
        await until(lambda: len(producer.partitions) == 3, "the producer has the new partitions")
        await producer.send(b"x")
        message = await consumer.receive(TIMEOUT_S)
        assert message.topic == f"{topic}-partition-2"
        assert sorted(consumer.topics) == [f"{topic}-partition-{n}" for n in range(3)]
        await reader.close()


def grow(broker: RunningBroker, topic: str, count: int) -> None:
    Admin(broker).post(f"{topic.replace('://', '/')}/partitions", count)


async def test_impossible_options_are_refused(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        for options, why in (
            ({"routing": "best"}, "known are round_robin, single"),
            ({"hashing": "md5"}, "known are murmur3, java"),
            ({"max_chunk_bytes": 0}, "at least 1"),
        ):
            with pytest.raises(ValueError, match=why):
                await client.producer("t", **options)
