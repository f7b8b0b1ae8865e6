"""Benchmark of many topics: opening them, their memory, a start with them, their first messages."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace

from bench.connection import Connection, connected, open_producer
from bench.frames import Shape, encode_load
from bench.scenarios import Trial
from bench.usage import Measures, cpu_seconds

CONNECTIONS = 8
"""The connections; each opens its topics one by one, like clients that wait for answers."""
SETTLING_SECONDS = 1.0
IDLE_SECONDS = 3.0
OPENING_SECONDS = 300
"""The longest time in which the topics are opened: Pulsar takes 40 s for ten thousand."""


def many_topics(trial: Trial, shape: Shape, topics: int) -> Measures:
    """Measure many new topics: open a producer on each; restart, and open all of them again;
    restart, open all of them again and publish a message to each.
    """
    names = [f"{trial.topic}-{number}" for number in range(trial.scaled(topics))]

    async def make() -> Measures:
        async with AsyncExitStack() as stack:
            before = trial.server.live_mib()
            meter = trial.meter(trial.server.pid)
            await _open(trial, stack, names, None)
            measures = meter.stop(len(names))
            return measures | await _at_rest(trial, len(names), before)

    def again(name: str, message: Shape | None) -> Measures:
        async def work() -> Measures:
            async with AsyncExitStack() as stack:
                meter = trial.meter(trial.server.pid)
                await _open(trial, stack, names, message)
                done = meter.stop(len(names))
            return {f"{name}_per_s": done["msg_per_s"], f"{name}_cpu_us": done["cpu_us"]}

        return trial.run(work, stall_seconds=OPENING_SECONDS)

    measures = trial.run(make, stall_seconds=OPENING_SECONDS)
    trial.server.restart()
    measures["healthy_ms"] = trial.server.healthy_ms
    measures |= again("reopened", None)
    trial.server.restart()
    return measures | again("used", shape)


async def _at_rest(trial: Trial, count: int, before: float) -> Measures:
    """Measure memory and CPU time of the topics while clients are idle."""
    await asyncio.sleep(SETTLING_SECONDS)
    kib = (trial.server.live_mib() - before) * 1024 / count
    used, began = cpu_seconds(trial.server.pid), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    used = cpu_seconds(trial.server.pid) - used
    return {"topic_kib": kib, "idle_percent": used / (time.perf_counter() - began) * 100}


async def _open(
    trial: Trial, stack: AsyncExitStack, names: list[str], message: Shape | None
) -> None:
    """Look up each topic, open its producer, and publish the message, if given."""

    async def some(topics: list[str]) -> None:
        connection = await stack.enter_async_context(connected(trial.server.port))
        writes = []
        if message is not None and topics:
            writes = encode_load(replace(message, topics=len(topics)), len(topics), 1).writes
        for at, topic in enumerate(topics):
            await open_producer(connection, topic, at + 1)
            if writes:
                await _stored(connection, writes[at].buffers)

    await asyncio.gather(*(some(names[number::CONNECTIONS]) for number in range(CONNECTIONS)))


async def _stored(connection: Connection, buffers: list[bytes]) -> None:
    """Publish one message, and wait for its receipt."""
    received = connection.promise()
    connection.on_receipts = lambda count, last: received.set_result(None)
    connection.write_all(buffers)
    await received
