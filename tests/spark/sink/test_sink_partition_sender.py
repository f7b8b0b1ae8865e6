"""A task is done when all it sent has a receipt, and fails if one has none."""

from collections.abc import Callable

import pytest

import magnetar
from magnetar.producing.batching import Packed
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from pyspark_magnetar.sink.partition_sender import PartitionSender
from running_broker import RunningBroker

BODY = encode_batch([(pb.SingleMessageMetadata(payload_size=1), b"v")] * 2)


async def test_what_the_broker_refuses_fails_the_task(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(maxMessageSize="1000")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer("t")
        sender = PartitionSender(producer.partitions[0])
        await sender.send([Packed(2, BODY), magnetar.Outgoing(b"one")])
        await sender.settle()
        assert sender.messages == 3
        assert sender.last_id is not None
        with pytest.raises(magnetar.MessageTooLarge):
            await sender.send([Packed(2, BODY + bytes(2000))])
            await sender.settle()
        with pytest.raises(magnetar.MessageTooLarge):
            await sender.send([magnetar.Outgoing(bytes(2000))])
            await sender.settle()
        await sender.send([magnetar.Outgoing(b"two")])
        await sender.settle()


async def test_an_ended_topic_fails_the_task(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer("t")
        sender = PartitionSender(producer.partitions[0])
        await producer.close()
        with pytest.raises(magnetar.Closed):
            await sender.send([Packed(2, BODY)])
