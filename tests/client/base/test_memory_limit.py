"""The limit of what waits in the memory of a client."""

import asyncio
import uuid

import pytest

import magnetar
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import ManualClock
from fakes.waiting import until
from magnetar.base.memory import MemoryLimit
from magnetar.consuming.receive_queue import QueueSize
from running_broker import RunningBroker

SIZE = 1000


def new_topic() -> str:
    return f"persistent://public/default/memory-{uuid.uuid4().hex[:10]}"


def memory_of(client: magnetar.Client) -> MemoryLimit:
    return client._memory


def test_one_message_may_always_be_sent() -> None:
    memory = MemoryLimit(100)
    memory.receives(1000)
    assert memory.has_room()
    memory.sends(1)
    assert not memory.has_room()
    memory.sends(-1)
    assert memory.has_room()


def test_who_waits_is_woken_when_there_is_room_and_who_reduces_is_told_once() -> None:
    memory = MemoryLimit(100)
    told: list[str] = []
    memory.on_high(lambda: told.append("high"))
    with memory.waking(lambda: told.append("room")):
        memory.sends(90)
        memory.sends(6)
        memory.sends(60)
        memory.sends(-50)
        assert told == ["high"]
        memory.receives(0)
        memory.sends(-10)
        assert told == ["high", "room"]
    memory.sends(-96)
    assert told == ["high", "room"] and memory.used == 0


def test_without_a_limit_there_is_room() -> None:
    memory = MemoryLimit()
    memory.sends(1 << 60)
    assert memory.has_room() and not memory.is_high


def test_a_queue_grows_when_it_was_full_and_shrinks_to_one() -> None:
    queue = QueueSize(5, starts_small=True)
    assert (queue.now, queue.grow()) == (1, 0)
    queue.received(1)
    assert [queue.grow(), queue.grow()] == [1, 0]
    queue.received(2)
    assert queue.grow() == 2
    queue.received(4)
    assert (queue.grow(), queue.now) == (1, 5)
    assert [queue.shrink(), queue.shrink(), queue.shrink()] == [-3, -1, 0]
    assert QueueSize(0, starts_small=True).now == 0


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="memory_limit must not be negative, but is -1"):
        magnetar.Settings(memory_limit=-1)


async def test_producers_share_it_and_wait_or_raise(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url, memory_limit=10 * SIZE) as client:
        one = await client.producer(new_topic())
        other = await client.producer(new_topic(), key_batching=True)
        with pytest.raises(magnetar.QueueFull, match="memory_limit is reached"):
            for _ in range(11):
                one.send_nowait(bytes(SIZE))
        with pytest.raises(magnetar.QueueFull):
            other.send_nowait(bytes(SIZE))
        high = 0
        for number in range(100):
            sending = [asyncio.ensure_future(each.send(bytes(SIZE))) for each in (one, other)]
            if number % 10:
                continue
            high = max(high, memory_of(client).used)
            await asyncio.gather(*sending)
        await one.flush()
        await other.flush()
        assert high <= 11 * (SIZE + 64)
        await until(lambda: memory_of(client).used == 0, "nothing is counted any more")


async def test_a_receive_queue_counts_shrinks_and_everything_arrives(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    async with (
        magnetar.connect(broker.service_url, memory_limit=20 * SIZE) as client,
        magnetar.connect(broker.service_url) as sending,
    ):
        producer = await sending.producer(topic, batching=None)
        await producer.send_batch([bytes(SIZE)] * 200)
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", queue_size=100, auto_scale_queue=True
        )
        memory, used = memory_of(client), [0]
        count = memory.receives

        def receives(size: int) -> None:
            count(size)
            used.append(memory.used)

        monkeypatch.setattr(memory, "receives", receives)
        received = 0
        while received < 200:
            batch = await consumer.receive_batch(3, TIMEOUT_S)
            consumer.ack(batch)
            received += len(batch)
        assert 0 < max(used) <= 40 * SIZE
        assert memory_of(client).used == 0


async def test_what_is_not_taken_is_not_counted_once_its_consumer_is_closed(
    broker: RunningBroker,
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, memory_limit=1 << 20) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        await producer.send_batch([bytes(SIZE)] * 10)
        await until(lambda: memory_of(client).received == 10 * (SIZE + 64), "all has come")
        await consumer.receive(TIMEOUT_S)
        assert memory_of(client).received == 9 * (SIZE + 64)
        await consumer.close()
        assert memory_of(client).received == 0


async def test_who_sends_what_it_receives_never_waits_for_itself(broker: RunningBroker) -> None:
    source, target = new_topic(), new_topic()
    async with magnetar.connect(broker.service_url, memory_limit=SIZE) as client:
        copies = await client.subscribe(target, "s")
        consumer = await client.subscribe(source, "s")
        producer = await client.producer(target)
        async with magnetar.connect(broker.service_url) as other:
            await (await other.producer(source)).send_batch([bytes(SIZE)] * 50)
        async with asyncio.timeout(TIMEOUT_S):
            for _ in range(50):
                message = await consumer.receive(TIMEOUT_S)
                await producer.send(message.value)
                consumer.ack(message)
        assert len(await take(copies, 50)) == 50


async def test_a_queue_that_scales_reaches_its_limit(
    broker: RunningBroker, clock: ManualClock
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        producer = await client.producer(topic, batching=None)
        consumer = await client.subscribe(topic, "s", queue_size=64, auto_scale_queue=True)
        [partition] = consumer._partitions
        permits = partition.permits
        for size in (1, 2, 4, 8, 16, 32, 64, 64):
            assert permits.size.now == size
            await producer.send_batch([b"x"] * size)
            await until(lambda: permits.queued == permits.size.now, "the queue is full")
            consumer.ack(await take(consumer, size))
            with pytest.raises(magnetar.OperationTimeout):
                await clock.drive(
                    consumer.receive(1), 1
                )  # the application waits behind a full queue
