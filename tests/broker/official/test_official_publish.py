"""The official client publishes: every way of sending arrives as it was sent."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pulsar
import pulsar.asyncio
import pytest

from admin_http import Admin
from official import TIMEOUT_MS, batching, connect, publish, publish_batch, take, texts
from running_broker import RunningBroker

COMPRESSIONS = list(pulsar.CompressionType.__members__.values())
LARGEST = 5 * 1024 * 1024


def earliest(client: pulsar.Client, topic: str) -> pulsar.Consumer:
    return client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)


def test_a_sync_send_returns_the_id_that_is_delivered(client: pulsar.Client, topic: str) -> None:
    receipts = publish(client.create_producer(topic), "a", "b", "c")
    received = take(earliest(client, topic), 3)
    assert texts(received) == ["a", "b", "c"]
    assert [
        (m.message_id().ledger_id(), m.message_id().entry_id()) for m in received
    ] == [(r.ledger_id(), r.entry_id()) for r in receipts]  # fmt: skip


def test_async_sends_are_answered_in_order(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, block_if_queue_full=True)
    answers: list[tuple[int, pulsar.Result]] = []
    for number in range(2000):
        producer.send_async(
            str(number).encode(), lambda result, _, n=number: answers.append((n, result))
        )
    producer.flush()
    assert answers == [(n, pulsar.Result.Ok) for n in range(2000)]
    assert texts(take(earliest(client, topic), 2000)) == [str(n) for n in range(2000)]


async def test_sends_awaited_with_asyncio(broker: RunningBroker, topic: str) -> None:
    client = pulsar.asyncio.Client(
        broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    producer = await client.create_producer(topic)
    await asyncio.gather(*(producer.send(str(n).encode()) for n in range(50)))
    consumer = await client.subscribe(
        topic, "sub", initial_position=pulsar.InitialPosition.Earliest
    )
    received = [(await consumer.receive()).data() for _ in range(50)]
    await client.close()
    assert received == [str(n).encode() for n in range(50)]


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda kind: kind.name)
def test_every_compression_batched_or_not(
    client: pulsar.Client, topic: str, compression: pulsar.CompressionType, batched: bool
) -> None:
    payloads = [f"{n} {'squeeze me ' * n}" for n in range(40)]
    consumer = earliest(client, topic)
    if batched:
        publish_batch(batching(client, topic, compression_type=compression), *payloads)
    else:
        publish(client.create_producer(topic, compression_type=compression), *payloads)
    received = take(consumer, len(payloads))
    assert texts(received) == payloads
    assert [m.message_id().batch_index() >= 0 for m in received] == [batched] * len(payloads)


def test_the_messages_of_a_batch_share_an_entry(client: pulsar.Client, topic: str) -> None:
    ids = publish_batch(batching(client, topic), "a", "b", "c")
    assert len({(i.ledger_id(), i.entry_id()) for i in ids}) == 1
    received = take(earliest(client, topic), 3)
    assert [m.message_id().batch_index() for m in received] == [0, 1, 2]


@pytest.mark.parametrize("batched", [False, True])
def test_all_metadata_of_a_message(client: pulsar.Client, topic: str, batched: bool) -> None:
    producer = client.create_producer(topic, producer_name="the-author", batching_enabled=batched)
    producer.send(
        b"body",
        properties={"colour": "blue", "empty": ""},
        partition_key="the-key",
        ordering_key="the-order",
        event_timestamp=1_234_567_890_123,
        sequence_id=77,
    )
    (message,) = take(earliest(client, topic), 1)
    assert message.data() == b"body"
    assert message.properties() == {"colour": "blue", "empty": ""}
    assert message.partition_key() == "the-key"
    assert message.ordering_key() == "the-order"
    assert message.event_timestamp() == 1_234_567_890_123
    assert message.producer_name() == "the-author"
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0
    assert producer.last_sequence_id() == 77


def test_an_empty_message(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).send(b"")
    assert take(earliest(client, topic), 1)[0].data() == b""


def test_a_producer_without_a_name_is_given_one_of_its_own(
    client: pulsar.Client, topic: str
) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3 and all(names)


def test_the_largest_message_arrives_whole(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    payload = bytes(range(256)) * ((LARGEST - 1024) // 256)
    producer.send(payload)
    producer.send(b"after")
    consumer = earliest(client, topic)
    assert take(consumer, 1)[0].data() == payload
    assert take(consumer, 1)[0].data() == b"after"


def test_the_client_refuses_a_message_above_the_limit_of_the_broker(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(b"x" * (LARGEST + 1))
    producer.send(b"fits")
    assert take(earliest(client, topic), 1)[0].data() == b"fits"


def test_a_compressible_message_counts_by_its_compressed_size(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, compression_type=pulsar.CompressionType.ZSTD)
    payload = b"x" * (LARGEST - 1024)
    producer.send(payload)
    assert take(earliest(client, topic), 1)[0].data() == payload


def test_a_chunked_message_is_put_together_again(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, chunking_enabled=True)
    payload = bytes(range(256)) * (12 * 1024 * 4)
    producer.send(payload)
    assert take(earliest(client, topic), 1)[0].data() == payload


def test_a_smaller_limit_is_sent_to_clients(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    client = connect(make_broker(maxMessageSize="20000").service_url)
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(b"x" * 20_001)
    producer.send(b"x" * 19_000)
    assert len(earliest(client, topic).receive(timeout_millis=TIMEOUT_MS).data()) == 19_000
    client.close()


def test_producers_of_one_topic_keep_their_own_order(client: pulsar.Client, topic: str) -> None:
    producers = [client.create_producer(topic, f"p{n}", block_if_queue_full=True) for n in range(4)]
    for number in range(200):
        for producer in producers:
            producer.send_async(str(number).encode(), lambda result, _: None)
    for producer in producers:
        producer.flush()
    by_producer: dict[str, list[str]] = {}
    for message in take(earliest(client, topic), 800):
        by_producer.setdefault(message.producer_name(), []).append(message.data().decode())
    assert by_producer == {f"p{n}": [str(i) for i in range(200)] for n in range(4)}


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_a_message_that_is_refused_fails_alone(
    make_broker: Callable[..., RunningBroker], topic: str, batched: bool
) -> None:
    broker = make_broker(delayedDeliveryMaxDelayInMillis="1000")
    path = topic.replace("persistent://", "persistent/")
    assert Admin(broker).put(path).status == 204
    assert Admin(broker).post(f"{path}/maxMessageSize", 1000).status == 204
    client = connect(broker.service_url)
    consumer = earliest(client, topic)
    producer = client.create_producer(topic, batching_enabled=batched)
    publish(producer, "first")
    with pytest.raises(pulsar.ChecksumError):
        producer.send(b"later", deliver_after=timedelta(hours=1))
    publish(producer, "second")
    with pytest.raises(pulsar.ChecksumError):
        producer.send(b"x" * 5000)
    publish(producer, "third", "fourth")
    assert texts(take(consumer, 4)) == ["first", "second", "third", "fourth"]
    client.close()
