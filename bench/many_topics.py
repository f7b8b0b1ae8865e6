"""Benchmark of many topics: opening them, memory, first messages, starts, very many unloaded."""

import asyncio
import time
from contextlib import AsyncExitStack

from bench.connection import Command, Connection, connected, open_producer
from bench.scenarios import Trial
from bench.servers import Magnetar
from bench.usage import MIB, Measures, cpu_seconds
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.sends import encode_send

CONNECTIONS = 8
"""Each opens its topics one after the other, as clients do that wait for an answer."""
PAYLOAD_BYTES = 100
SETTLING_SECONDS = 1.0
IDLE_SECONDS = 3.0
OPENING_SECONDS = 300
"""The original takes 40 s for ten thousand."""


def many_topics(trial: Trial, topics: int) -> Measures:
    """Open a producer on each of many new topics; restart, and open all of them again; restart,
    open all of them again and use each."""
    count = max(100, int(topics * trial.scale))
    names = [f"{trial.topic}-{number}" for number in range(count)]

    async def make() -> Measures:
        async with AsyncExitStack() as stack:
            before = trial.server.live_mib()
            meter = trial.meter(trial.server.pid)
            await open_producers(trial, stack, names, publish=False)
            measures = meter.stop(count, 0)
            return measures | await _at_rest(trial, count, before)

    measures = trial.run(make, stall_seconds=OPENING_SECONDS)
    trial.server.restart()
    measures["healthy_ms"] = trial.server.healthy_ms

    async def again(publish: bool) -> tuple[float, float]:
        """How many a second, and the CPU of each."""
        async with AsyncExitStack() as stack:
            meter = trial.meter(trial.server.pid)
            await open_producers(trial, stack, names, publish)
            done = meter.stop(count, 0)
            return done["msg_per_s"], done["cpu_us"]

    async def reopen() -> Measures:
        per_s, cpu_us = await again(publish=False)
        return {"reopened_per_s": per_s, "reopen_cpu_us": cpu_us}

    async def touch() -> Measures:
        per_s, cpu_us = await again(publish=True)
        return {"touched_per_s": per_s, "touch_cpu_us": cpu_us}

    measures |= trial.run(reopen, stall_seconds=OPENING_SECONDS)
    trial.server.restart()
    return measures | trial.run(touch, stall_seconds=OPENING_SECONDS)


def known_topics(trial: Trial, known: int, loaded: int) -> Measures:
    """Start with very many topics that are stored and not loaded, and load some of them."""
    server = trial.server
    assert isinstance(server, Magnetar)
    known, loaded = max(1000, int(known * trial.scale)), max(100, int(loaded * trial.scale))
    server.restart()
    without = server.live_mib()
    server.stop()
    where = ["--data-dir", str(server.data_dir), "--prefix", trial.topic]
    server.run_script("bench.known_topics", *where, "--count", str(known))
    server.start()
    healthy_ms, before = server.healthy_ms, server.live_mib()
    step = known // loaded
    names = [f"{trial.topic}-{number * step}" for number in range(loaded)]

    async def load() -> Measures:
        async with AsyncExitStack() as stack:
            meter = trial.meter(server.pid)
            await open_producers(trial, stack, names, publish=True)
            measures = meter.stop(loaded, 0)
            return measures | await _at_rest(trial, loaded, before)

    measures = trial.run(load, stall_seconds=OPENING_SECONDS)
    rss = server.live_mib()
    server.restart()
    return measures | {
        "healthy_ms": max(healthy_ms, server.healthy_ms),
        "without_mib": without,
        "known_mib": before,
        "rss_mib": rss,
        "unloaded_bytes": (before - without) * MIB / known,
    }


async def _at_rest(trial: Trial, count: int, before: float) -> Measures:
    """What the topics cost while clients are idle."""
    await asyncio.sleep(SETTLING_SECONDS)
    kib = (trial.server.live_mib() - before) * 1024 / count
    used, began = sum(cpu_seconds(trial.server.pid)), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    used = sum(cpu_seconds(trial.server.pid)) - used
    return {"topic_kib": kib, "idle_percent": used / (time.perf_counter() - began) * 100}


async def open_producers(
    trial: Trial, stack: AsyncExitStack, names: list[str], publish: bool
) -> None:
    """Look each topic up, open a producer, and publish a message if `publish`."""
    connections = [
        await stack.enter_async_context(connected(trial.server.port)) for _ in range(CONNECTIONS)
    ]

    async def some(number: int) -> None:
        connection = connections[number]
        for producer_id, name in enumerate(names[number::CONNECTIONS], 1):
            await open_producer(connection, name, producer_id)
            if publish:
                await publish_one(connection, producer_id)

    await asyncio.gather(*map(some, range(CONNECTIONS)))


async def publish_one(connection: Connection, producer_id: int) -> None:
    """One message; it is stored on return."""
    received = connection.promise()

    def receipt(count: int, last: Command) -> None:
        received.set_result(None)

    connection.on_receipts = receipt
    metadata = pb.MessageMetadata(
        producer_name="bench", sequence_id=0, publish_time=time.time_ns() // 1_000_000
    )
    encoded = metadata.SerializeToString()
    connection.write(encode_send(producer_id, 0, 1, encoded, bytes(PAYLOAD_BYTES)))
    await received
