"""Benchmark of transactions: consume from one topic, publish to another."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import repeat

import magnetar
from bench.connection import SUBSCRIPTION
from bench.frames import Shape
from bench.scenarios import Trial
from bench.usage import Measures

AT_A_TIME = 16
"""The most transactions of one client that are open at the same time."""
TIMEOUT_S = 600.0
Step = Callable[[], Awaitable[None]]


def transact(trial: Trial, shape: Shape, transactions: int) -> Measures:
    """Run transactions, each with `shape.batch` acknowledgements and as many messages.

    `messages` counts transactions.
    """
    each, count, value = shape.batch, trial.scaled(transactions), bytes(shape.size)

    async def work() -> Measures:
        async with magnetar.connect(trial.server.url) as client:
            source = await client.producer(trial.topic, batching=None)
            consumer = await client.subscribe(
                trial.topic, SUBSCRIPTION, type="shared", initial_position="earliest"
            )
            target = await client.producer(f"{trial.topic}-target", batching=None)

            async def step() -> None:
                taken: list[magnetar.Message[bytes]] = []
                while len(taken) < each:
                    taken += await consumer.receive_batch(each - len(taken))
                async with client.transaction(TIMEOUT_S) as txn:
                    consumer.ack(taken, txn=txn)
                    await target.send_batch(repeat(value, each), txn=txn)

            # As many before, to warm up: a server may compile code while it runs.
            await source.send_batch(repeat(value, each * count))
            await _repeat(step, count, trial.seconds)
            await source.send_batch(repeat(value, each * count))
            meter = trial.meter(trial.server.pid)
            done = await _repeat(step, count, trial.seconds)
            return meter.stop(done)

    return trial.run(work)


async def _repeat(step: Step, count: int, seconds: float) -> int:
    """Run `step` `count` times, some concurrently, until the time is over; returns the number."""
    begun, until = 0, time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal begun
        while begun < count and time.perf_counter() < until:
            begun += 1
            await step()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_A_TIME):
            tasks.create_task(worker())
    return begun
