"""Producers and consumers on connections that are cut, held up, half closed and fall silent."""

import asyncio
import uuid
from collections import Counter

import pytest

import magnetar
from admin_http import Admin
from client.chaos import QUICK, TROUBLES, ChaosProxy
from effort import seeds
from fakes.client_clock import FOR_EVER_S, ManualClock
from running_broker import RunningBroker

TIMEOUT_S = 120.0
MESSAGES = 300
MOST = 10
"""Troubles of a run."""


def new_topic(broker: RunningBroker, deduplicates: bool = False) -> str:
    namespace = f"public/chaos-{uuid.uuid4().hex[:10]}"
    admin = Admin(broker)
    assert admin.put(f"namespaces/{namespace}", {}).status == 204
    if deduplicates:
        assert admin.post(f"namespaces/{namespace}/deduplication", True).status == 204
    return f"persistent://{namespace}/t"


async def stored(broker: RunningBroker, topic: str) -> list[int]:
    """The numbers in a topic, in order."""
    numbers = []
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic)
        while await reader.has_message_available():
            numbers += [int(message.value) for message in await reader.read_batch()]
    return numbers


@pytest.mark.parametrize("seed", seeds(40))
async def test_with_deduplication_nothing_is_lost_or_doubled(
    broker: RunningBroker, clock: ManualClock, seed: int
) -> None:
    topic = new_topic(broker, deduplicates=True)
    before = asyncio.all_tasks()
    async with ChaosProxy(broker.port, seed, MOST) as proxy, asyncio.timeout(TIMEOUT_S):
        async with (
            proxy.leaping(clock),
            magnetar.connect(proxy.service_url, clock=clock, **QUICK) as client,
        ):
            batching = magnetar.BatchLimits(max_messages=5) if seed % 2 else None
            producer = await client.producer(
                topic, name="sender", batching=batching, max_pending_messages=20,
                send_timeout_s=FOR_EVER_S,
            )  # fmt: skip
            for number in range(MESSAGES):
                if number % 7:
                    await producer.send_message(magnetar.Outgoing(b"%d" % number))
                else:
                    await producer.send_batch([b"%d" % number])
            await producer.flush()
        assert asyncio.all_tasks() - before <= proxy.tasks()
    assert await stored(broker, topic) == list(range(MESSAGES))


@pytest.mark.parametrize("seed", seeds(40))
async def test_consumers_get_everything_and_what_was_acknowledged_stays_so(
    broker: RunningBroker, clock: ManualClock, seed: int
) -> None:
    kind = ("exclusive", "shared")[seed % 2]
    topic = new_topic(broker)
    before = asyncio.all_tasks()
    async with magnetar.connect(broker.service_url) as client:
        await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic, batching=magnetar.BatchLimits(max_messages=3))
        await producer.send_batch([b"%d" % number for number in range(MESSAGES)])
    received: Counter[int] = Counter()
    async with ChaosProxy(broker.port, seed, MOST) as proxy, asyncio.timeout(TIMEOUT_S):
        async with (
            proxy.leaping(clock),
            magnetar.connect(proxy.service_url, clock=clock, **QUICK) as client,
        ):
            consumer = await client.subscribe(topic, "s", type=kind, queue_size=10, ack_delay_ms=1)
            first: list[int] = []
            while len(received) < MESSAGES:
                for message in await consumer.receive_batch(4):
                    number = int(message.value)
                    if not received[number]:
                        first.append(number)
                    received[number] += 1
                    consumer.ack(message)
            await consumer.flush()
        assert asyncio.all_tasks() - before <= proxy.tasks()
    assert sorted(received) == list(range(MESSAGES))
    if kind == "exclusive":
        assert first == sorted(first)
    async with magnetar.connect(broker.service_url) as client:
        await (await client.producer(topic)).send(b"-1")
        again = await client.subscribe(topic, "s", type=kind)
        assert int((await again.receive(TIMEOUT_S)).value) == -1


async def test_every_trouble_is_among_them(broker: RunningBroker, clock: ManualClock) -> None:
    topic = new_topic(broker)
    async with ChaosProxy(broker.port, 1, 16) as proxy, asyncio.timeout(TIMEOUT_S):
        async with (
            proxy.leaping(clock),
            magnetar.connect(proxy.service_url, clock=clock, **QUICK) as client,
        ):
            producer = await client.producer(topic, batching=None, send_timeout_s=FOR_EVER_S)
            while proxy.left:
                await producer.send(b"1")
        assert proxy.done == set(TROUBLES)
