"""Consume, transform and produce, while connections fail, transactions abort and brokers die."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

import magnetar
from client.chaos import QUICK, ChaosProxy
from client.test_client_chaos import TIMEOUT_S
from client.transacting import Unwanted
from effort import seeds
from fakes.client_clock import FOR_EVER_S, ManualClock
from magnetar.clock import EVENT_LOOP, Clock
from running_broker import RunningBroker

MESSAGES = 100
MOST = 12
KILLS = 3
ABORTED = 0.15
"""The share of transactions that the application gives up."""
TRANSACTION_S = 5.0
WAITS_S = 1.0


class Pipeline:
    """Moves numbers from one topic to another, some at a time, in transactions."""

    def __init__(self, broker: RunningBroker, random: Random, kind: str) -> None:
        number = uuid.uuid4().hex[:10]
        self._source, self._target = (
            f"persistent://public/default/{one}-{number}" for one in ("from", "to")
        )
        self._broker = broker
        self._random = random
        self._kind = kind
        self.committed = 0

    async def fill(self) -> None:
        """Store the numbers, and begin the subscription."""
        async with magnetar.connect(self._broker.service_url) as client:
            await client.subscribe(self._source, "s", type=self._kind)
            limits = magnetar.BatchLimits(max_messages=3)
            producer = await client.producer(self._source, batching=limits)
            await producer.send_batch([b"%d" % number for number in range(MESSAGES)])

    async def run(
        self,
        service_url: str,
        between: Callable[[], None] = lambda: None,
        clock: Clock = EVENT_LOOP,
    ) -> None:
        """Move until all are there; `between` is called after each transaction."""
        async with magnetar.connect(service_url, clock=clock, **QUICK) as client:
            consumer = await client.subscribe(
                self._source, "s", type=self._kind, queue_size=10, ack_delay_ms=1
            )
            limits = magnetar.BatchLimits(max_messages=2)
            producer = await client.producer(
                self._target, name="mover", batching=limits, send_timeout_s=FOR_EVER_S
            )
            while not await self._move(client, consumer, producer):
                between()

    async def _move(
        self, client: magnetar.Client, consumer: magnetar.Consumer, producer: magnetar.Producer
    ) -> bool:
        """One transaction; whether everything was moved before it."""
        txn = client.transaction(TRANSACTION_S)
        is_late = False
        try:
            async with txn:
                try:
                    messages = await consumer.receive_batch(5, WAITS_S)
                except magnetar.OperationTimeout:
                    is_late = True
                    raise Unwanted from None
                consumer.ack(messages, txn=txn)
                for message in messages:
                    producer.send_nowait(message.value, txn=txn)
                if self._random.random() < ABORTED:
                    raise Unwanted
            self.committed += 1
        except (Unwanted, magnetar.MagnetarError):
            pass  # what it has acknowledged comes again
        return is_late and sum((await self.moved()).values()) >= MESSAGES

    async def moved(self) -> Counter[int]:
        """What is in the target."""
        numbers: Counter[int] = Counter()
        async with magnetar.connect(self._broker.service_url) as client:
            reader = await client.reader(self._target)
            while await reader.has_message_available():
                numbers.update(int(message.value) for message in await reader.read_batch())
        return numbers

    async def left(self) -> list[int]:
        """What the subscription delivers in front of a message that is sent now."""
        async with magnetar.connect(self._broker.service_url) as client:
            await (await client.producer(self._source)).send(b"-1")
            again = await client.subscribe(self._source, "s", type=self._kind)
            found: list[int] = []
            while -1 not in found:
                found.append(int((await again.receive(TIMEOUT_S)).value))
            return found[:-1]


@pytest.mark.parametrize("seed", seeds(20))
async def test_every_message_is_moved_once(
    broker: RunningBroker, clock: ManualClock, seed: int
) -> None:
    kind = ("exclusive", "shared", "failover", "key_shared")[seed % 4]
    pipeline = Pipeline(broker, Random(seed), kind)
    await pipeline.fill()
    before = asyncio.all_tasks()
    async with ChaosProxy(broker.port, seed, MOST) as proxy, asyncio.timeout(TIMEOUT_S):
        async with proxy.leaping(clock):
            await pipeline.run(proxy.service_url, clock=clock)
        assert asyncio.all_tasks() - before <= proxy.tasks()
    assert await pipeline.moved() == Counter(range(MESSAGES))
    assert await pipeline.left() == []
    assert pipeline.committed > 0


@pytest.mark.parametrize("seed", seeds(8))
async def test_every_message_is_moved_once_although_the_broker_is_killed(
    make_broker: Callable[..., RunningBroker], seed: int
) -> None:
    broker = make_broker()
    random = Random(seed)
    pipeline = Pipeline(broker, random, ("shared", "exclusive")[seed % 2])
    await pipeline.fill()
    kills = [KILLS]
    ready = asyncio.Event()
    ready.set()

    async def kill() -> None:
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        ready.set()

    tasks: set[asyncio.Task[None]] = set()

    def sometimes() -> None:
        if kills[0] and ready.is_set() and random.random() < 0.2:
            kills[0] -= 1
            ready.clear()
            tasks.add(asyncio.create_task(kill()))

    async with asyncio.timeout(2 * TIMEOUT_S):
        await pipeline.run(broker.service_url, sometimes)
    await asyncio.gather(*tasks)
    assert tasks
    assert await pipeline.moved() == Counter(range(MESSAGES))
    assert await pipeline.left() == []
