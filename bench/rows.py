"""The rows of the table: what is done to a fresh server, and what is measured."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from statistics import quantiles

import uvloop

from bench.load import (
    Load,
    PacedPublisher,
    Publisher,
    Receiver,
    connected,
    encode_load,
    open_consumer,
    open_producer,
)
from bench.servers import Server

Measures = dict[str, float]
"""By name, see `bench.table.COLUMNS`."""

TOPIC = "persistent://public/default/bench"
SIZE = 100
BATCH = 100
PACE_PER_SECOND = 1000
WARM_UP_PERCENT = 10

cached_load = cache(encode_load)


@dataclass(frozen=True)
class Scale:
    """How much is done in each row."""

    entries: int
    """Of one message each."""
    batches: int
    paced: int


FULL = Scale(entries=300_000, batches=15_000, paced=8_000)
QUICK = Scale(entries=50_000, batches=2_000, paced=2_000)


@contextmanager
def measured(server: Server, messages: int) -> Iterator[Measures]:
    """Fills in what `messages` cost while the block ran."""
    measures: Measures = {}
    own, before, began = time.process_time(), server.usage(), time.perf_counter()
    yield measures
    seconds = time.perf_counter() - began
    after = server.usage()
    measures["messages"] = messages
    measures["msg_per_s"] = messages / seconds
    measures["cpu_us"] = (after.cpu_s - before.cpu_s) / messages * 1e6
    measures["rss_mib"], measures["uss_mib"] = after.rss_mib, after.uss_mib
    measures["generator_percent"] = (time.process_time() - own) / seconds * 100


def split(load: Load) -> tuple[list[tuple[bytes, int]], list[tuple[bytes, int]], int]:
    """Writes to warm up with, writes to measure, and the messages in the latter."""
    warm = max(1, len(load.writes) * WARM_UP_PERCENT // 100)
    rest = load.writes[warm:]
    return load.writes[:warm], rest, sum(entries for _, entries in rest) * load.batch


async def publish(server: Server, load: Load) -> Measures:
    """One producer, as fast as receipts allow."""
    warm_up, rest, messages = split(load)
    async with connected(server.port) as connection:
        await open_producer(connection, TOPIC)
        publisher = Publisher(connection)
        await publisher.publish(warm_up)
        with measured(server, messages) as measures:
            await publisher.publish(rest)
    return measures


def publish_unbatched(server: Server, scale: Scale) -> Measures:
    return uvloop.run(publish(server, cached_load(scale.entries, SIZE)))


def publish_batched(server: Server, scale: Scale) -> Measures:
    return uvloop.run(publish(server, cached_load(scale.batches, SIZE, BATCH)))


def catch_up(server: Server, scale: Scale) -> Measures:
    """A subscription with a backlog; the server was restarted, so nothing is in its memory."""
    load = cached_load(scale.entries, SIZE)
    warm_up = load.entries * WARM_UP_PERCENT // 100

    async def fill() -> None:
        async with connected(server.port) as connection:
            await open_consumer(connection, TOPIC)
            await open_producer(connection, TOPIC)
            await Publisher(connection).publish(load.writes)

    async def consume() -> Measures:
        async with connected(server.port) as connection:
            await open_consumer(connection, TOPIC)
            receiver = Receiver(connection)
            await receiver.receive(warm_up)
            before = len(receiver.arrivals)
            with measured(server, load.entries - before) as measures:
                await receiver.receive(load.entries)
        return measures

    uvloop.run(fill())
    server.restart()
    return uvloop.run(consume())


def deliver_paced(server: Server, scale: Scale) -> Measures:
    """A thousand messages a second to a waiting consumer: from the send to the arrival."""
    load = cached_load(scale.paced, SIZE, entries_per_write=1)

    async def run() -> Measures:
        async with connected(server.port) as consuming, connected(server.port) as producing:
            await open_consumer(consuming, TOPIC)
            await open_producer(producing, TOPIC)
            receiver = Receiver(consuming)
            publisher = PacedPublisher(producing, load, PACE_PER_SECOND)
            with measured(server, load.entries) as measures:
                await publisher.publish()
                await receiver.receive(load.entries)
        pairs = zip(publisher.sent_at, receiver.arrivals, strict=True)
        latencies_ms = [(arrived - sent) * 1000 for sent, arrived in pairs]
        percentiles = quantiles(latencies_ms[load.entries * WARM_UP_PERCENT // 100 :], n=100)
        measures["p50_ms"], measures["p99_ms"] = percentiles[49], percentiles[98]
        return measures

    return uvloop.run(run())


def start(server: Server, scale: Scale) -> Measures:
    """From the start of the process, on an empty directory, until clients are served."""
    return {"start_ms": server.start_ms}


def idle(server: Server, scale: Scale) -> Measures:
    """Memory of a server that has just started."""
    usage = server.usage()
    return {"rss_mib": usage.rss_mib, "uss_mib": usage.uss_mib}


ROWS: dict[str, tuple[str, Callable[[Server, Scale], Measures]]] = {
    "publish": (f"publish {SIZE} B, unbatched", publish_unbatched),
    "publish-batched": (f"publish {BATCH} x {SIZE} B batches", publish_batched),
    "catch-up": (f"catch-up consume {SIZE} B", catch_up),
    "deliver": (f"publish to deliver, {PACE_PER_SECOND:,}/s", deliver_paced),
    "start": ("start, empty", start),
    "idle": ("idle memory", idle),
}
"""Title and measurement by key; each measurement gets a server that was just started."""
