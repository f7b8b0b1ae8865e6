"""Messages between this client and the official one, both ways, over the real daemon."""

import uuid

import pulsar
import pytest

import magnetar
from running_broker import RunningBroker

TIMEOUT_S = 60.0

OFFICIAL_COMPRESSIONS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("compression", OFFICIAL_COMPRESSIONS)
async def test_from_this_client_to_the_official_one(
    broker: RunningBroker, official: pulsar.Client, compression: str, batched: bool
) -> None:
    topic = new_topic()
    consumer = official.subscribe(topic, "s")

    async def send() -> list[magnetar.MessageId]:
        async with magnetar.connect(broker.service_url) as client:
            batching = magnetar.BatchLimits(max_messages=10) if batched else None
            producer = await client.producer(topic, compression=compression, batching=batching)
            return await producer.send_batch(
                magnetar.Outgoing(
                    b"%d" % number,
                    key=f"k{number}",
                    properties={"p": str(number)},
                    event_time_ms=number + 1,
                )
                for number in range(95)
            )

    ids = await send()
    for number, sent in enumerate(ids):
        message = consumer.receive(int(TIMEOUT_S * 1000))
        assert message.data() == b"%d" % number
        assert message.partition_key() == f"k{number}"
        assert message.properties() == {"p": str(number)}
        assert message.event_timestamp() == number + 1
        theirs = message.message_id()
        assert (theirs.ledger_id(), theirs.entry_id(), theirs.batch_index()) == sent[:3]
        consumer.acknowledge(message)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("compression", OFFICIAL_COMPRESSIONS)
async def test_from_the_official_client_to_this_one(
    broker: RunningBroker, official: pulsar.Client, compression: str, batched: bool
) -> None:
    topic = new_topic()
    producer = official.create_producer(
        topic,
        compression_type=OFFICIAL_COMPRESSIONS[compression],
        batching_enabled=batched,
        batching_max_messages=10,
        block_if_queue_full=True,
    )
    for number in range(95):
        producer.send_async(
            b"%d" % number,
            None,
            partition_key=f"k{number}",
            properties={"p": str(number)},
            event_timestamp=number + 1,
        )
    producer.flush()

    async def receive() -> list[magnetar.Message]:
        async with magnetar.connect(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s", initial_position="earliest")
            messages: list[magnetar.Message] = []
            while len(messages) < 95:
                messages += await consumer.receive_batch(timeout_s=TIMEOUT_S)
            consumer.ack(messages)
            await consumer.flush()
            return messages

    for number, message in enumerate(await receive()):
        assert message.value == b"%d" % number
        assert message.key == f"k{number}"
        assert message.properties == {"p": str(number)}
        assert message.event_time_ms == number + 1
