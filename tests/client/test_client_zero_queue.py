"""queue_size=0: nothing is received before the application asks."""

import asyncio
import uuid

import pytest

import magnetar
from admin_http import Admin
from fakes.client_clock import ManualClock
from running_broker import RunningBroker

TIMEOUT_S = 60.0


def new_topic() -> str:
    return f"persistent://public/default/zero-{uuid.uuid4().hex[:10]}"


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


async def test_what_is_not_asked_for_goes_to_the_others(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        slow = await client.subscribe(topic, "s", type="shared", queue_size=0)
        eager = await client.subscribe(topic, "s", type="shared")
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"%d" % number for number in range(50)])
        messages = [await eager.receive(TIMEOUT_S) for _ in range(50)]
        assert [message.value for message in messages] == [b"%d" % n for n in range(50)]
        eager.ack(messages)
        await eager.close()
        await producer.send(b"for the slow one")
        assert (await slow.receive(TIMEOUT_S)).value == b"for the slow one"


async def test_one_message_is_held_at_a_time(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        one = await client.subscribe(topic, "s", type="shared", queue_size=0)
        two = await client.subscribe(topic, "s", type="shared", queue_size=0)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"%d" % number for number in range(40)])
        for number in range(0, 40, 2):
            first, second = await one.receive(TIMEOUT_S), await two.receive(TIMEOUT_S)
            assert (first.value, second.value) == (b"%d" % number, b"%d" % (number + 1))


@pytest.mark.parametrize("max_messages", [1, 1000])
async def test_batches_arrive_whole(broker: RunningBroker, max_messages: int) -> None:
    topic = new_topic()
    sent = [b"%d" % number for number in range(2000)]
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", queue_size=0)
        producer = await client.producer(topic, batching=magnetar.BatchLimits(max_messages=7))
        await producer.send_batch(sent)
        values: list[bytes] = []
        while len(values) < len(sent):
            batch = await consumer.receive_batch(max_messages, TIMEOUT_S)
            assert len(batch) <= 7
            values += [message.value for message in batch]
            consumer.ack(batch)
        assert values == sent


async def test_a_message_may_come_after_the_waiting_ended(
    broker: RunningBroker, clock: ManualClock
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(topic, "s", queue_size=0)
        for _ in range(3):
            with pytest.raises(magnetar.OperationTimeout):
                await clock.drive(consumer.receive(1), 1)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"a", b"b", b"c"])
        assert [(await consumer.receive(TIMEOUT_S)).value for _ in range(3)] == [b"a", b"b", b"c"]


async def test_all_partitions_are_asked(broker: RunningBroker) -> None:
    topic = new_topic()
    assert Admin(broker).put(f"{path_of(topic)}/partitions", 3).status == 204
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", queue_size=0)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"%d" % number for number in range(300)])
        values = {(await consumer.receive(TIMEOUT_S)).value for _ in range(300)}
        assert values == {b"%d" % number for number in range(300)}


async def test_a_waiting_receive_sends_its_permit_again_after_a_reconnect(
    broker: RunningBroker,
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=10) as client:
        consumer = await client.subscribe(topic, "s", queue_size=0)
        producer = await client.producer(topic)
        await producer.send(b"before")
        consumer.ack(await consumer.receive(TIMEOUT_S))
        await consumer.flush()
        waiting = asyncio.create_task(consumer.receive(TIMEOUT_S))
        await asyncio.sleep(0)
        unloaded = await asyncio.to_thread(Admin(broker).put, f"{path_of(topic)}/unload")
        assert unloaded.status == 204
        await producer.send(b"after")
        assert (await waiting).value == b"after"


async def test_closing_ends_the_waiting(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(new_topic(), "s", queue_size=0)
        waiting = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(magnetar.Closed):
            await waiting
