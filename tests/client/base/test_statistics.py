"""What producers and consumers count, and the metrics made of it."""

import asyncio
import uuid

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

import magnetar
import magnetar.sync
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import ManualClock
from fakes.waiting import until
from magnetar.base.statistics import (
    LATENCY_BOUNDS_S,
    ConsumerStatistics,
    ProducerStatistics,
    by_topic,
    total,
)
from magnetar.prometheus import ClientCollector
from running_broker import RunningBroker

Samples = dict[tuple[str, str], float]


def new_topic() -> str:
    return f"persistent://public/default/counted-{uuid.uuid4().hex[:10]}"


def samples(registry: prometheus_client.CollectorRegistry) -> Samples:
    """By name and topic."""
    page = prometheus_client.generate_latest(registry).decode()
    return {
        (sample.name, sample.labels["topic"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("le", "+Inf") == "+Inf"
    }


def test_a_latency_is_in_the_bucket_that_ends_there() -> None:
    counts = ProducerStatistics("t")
    for latency_s in (0.0005, 0.00051, 30, 31):
        counts.stored(2, 100, latency_s)
    assert (counts.messages, counts.bytes, counts.entries) == (8, 400, 4)
    assert counts.latencies[:2] == [1, 1]
    assert counts.latencies[-2:] == [1, 1]
    assert len(counts.latencies) == len(LATENCY_BOUNDS_S) + 1


def test_sums_over_partitions() -> None:
    one, two = ProducerStatistics("t-partition-0"), ProducerStatistics("t-partition-1")
    one.stored(2, 10, 0.0001)
    two.stored(3, 20, 100)
    summed = total("t", [one, two])
    assert (summed.topic, summed.messages, summed.bytes, summed.entries) == ("t", 5, 30, 2)
    assert (summed.latencies[0], summed.latencies[-1]) == (1, 1)
    assert (one.messages, one.latencies[-1]) == (2, 0)


def test_those_of_one_topic_and_subscription_are_summed() -> None:
    parts = [
        ConsumerStatistics("b", "s", messages=1),
        ConsumerStatistics("a", "s", messages=2),
        ConsumerStatistics("a", "r", messages=4),
        ConsumerStatistics("a", "s", messages=8),
    ]
    assert [(one.topic, one.subscription, one.messages) for one in by_topic(parts)] == [
        ("a", "r", 4),
        ("a", "s", 10),
        ("b", "s", 1),
    ]


async def test_what_is_sent_and_received(broker: RunningBroker, clock: ManualClock) -> None:
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        await sends_and_receives(client, clock, new_topic())


async def sends_and_receives(client: magnetar.Client, clock: ManualClock, topic: str) -> None:
    producer = await client.producer(topic)
    consumer = await client.subscribe(
        topic, "s", type="shared", nack_delay_s=0.01, on_unreadable="skip"
    )
    await producer.send_batch([b"one", b"two", b"three"])
    with pytest.raises(magnetar.MessageTooLarge):
        await producer.send(bytes(6 * 1024 * 1024))
    sent = producer.statistics
    assert (sent.messages, sent.failed_messages, sent.pending_messages) == (3, 1, 0)
    assert sent.bytes > len(b"onetwothree")
    assert sent.entries == sum(sent.latencies) >= 1
    assert sent.latency_s == 0, "the clock stood still"

    [first, *rest] = await take(consumer, 3)
    consumer.ack(rest)
    consumer.nack(first)
    clock.advance(0.02)
    await take(consumer, 1)
    received = consumer.statistics
    assert received.messages >= 4
    assert received.redelivered_entries >= 1
    assert received.nacked_entries >= 1
    assert received.queued_messages == 0
    await consumer.flush()
    assert consumer.statistics.acked_entries >= 1
    assert {one.topic for one in client.statistics()} == {topic}


async def test_what_was_closed_does_not_count(client: magnetar.Client) -> None:
    topic = new_topic()
    producer = await client.producer(topic)
    consumer = await client.subscribe(topic, "s")
    assert {type(one) for one in client.statistics()} == {ProducerStatistics, ConsumerStatistics}
    await producer.close()
    await consumer.close()
    assert client.statistics() == []


async def test_what_waits(client: magnetar.Client) -> None:
    topic = new_topic()
    producer = await client.producer(topic)
    reader = await client.reader(topic)
    producer.send_nowait(b"x")
    assert producer.statistics.pending_messages == 1
    assert producer.statistics.pending_bytes > 0
    await producer.flush()
    await until(lambda: reader.statistics.queued_messages == 1, "it is received")
    await reader.read(TIMEOUT_S)
    assert reader.statistics.queued_messages == 0


async def test_partitions_are_summed(client: magnetar.Client) -> None:
    consumer = await client.subscribe_all([new_topic(), new_topic()], "s")
    for topic in consumer.topics:
        await (await client.producer(topic)).send(b"x")
    await take(consumer, 2)
    assert consumer.statistics.messages == 2
    assert [one.messages for one in client.statistics()] == [1, 1, 1, 1]


async def test_metrics(client: magnetar.Client) -> None:
    topic = new_topic()
    registry = prometheus_client.CollectorRegistry()
    registry.register(ClientCollector(client))
    assert samples(registry) == {}
    producer = await client.producer(topic)
    consumer = await client.subscribe(topic, "s")
    await producer.send(b"x")
    await take(consumer, 1)
    here = samples(registry)
    assert here[("magnetar_client_sent_messages_total", topic)] == 1
    assert here[("magnetar_client_send_seconds_bucket", topic)] == 1
    assert here[("magnetar_client_send_seconds_count", topic)] == 1
    assert here[("magnetar_client_received_messages_total", topic)] == 1
    assert here[("magnetar_client_queued_messages", topic)] == 0
    assert await asyncio.to_thread(samples, registry) == here


async def test_metrics_without_asyncio(broker: RunningBroker) -> None:
    def use() -> Samples:
        topic = new_topic()
        registry = prometheus_client.CollectorRegistry()
        with magnetar.sync.connect(broker.service_url) as client:
            registry.register(ClientCollector(client))
            producer = client.producer(topic)
            consumer = client.subscribe(topic, "s", initial_position="earliest")
            producer.send(b"x")
            consumer.receive(TIMEOUT_S)
            assert producer.statistics.messages == consumer.statistics.messages == 1
            return {(name, ""): value for (name, _), value in samples(registry).items()}

    found = await asyncio.to_thread(use)
    assert found[("magnetar_client_sent_messages_total", "")] == 1
    assert found[("magnetar_client_received_messages_total", "")] == 1
