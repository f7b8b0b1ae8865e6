"""What is done to a server, and what is measured while it is done."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from statistics import quantiles
from typing import Any

import uvloop

from bench.connection import SUBSCRIPTION, LoadError, connected, open_consumer, open_producer
from bench.consuming import Receiver
from bench.dialect import Dialect
from bench.frames import WRITE_ENTRIES, Load, Shape, encode_load
from bench.publishing import PacedPublisher, Publisher
from bench.servers import Server
from bench.usage import Measures, Meter, memory

WARM_UP_PERCENT = 10
FILL_FACTOR = 3
"""How many times as long as a measurement a backlog may take that is filled before it."""
BACKLOG_GB = 2.0
STALL_SECONDS = 120
"""When a server has not done in this time what should take seconds, it never will."""


@dataclass(frozen=True)
class Trial:
    """One measurement of one server."""

    server: Server
    topic: str
    """A name of its own, never used before."""
    scale: float
    """How much of the full load is used."""
    seconds: float
    """No measurement lasts longer."""
    meter: Callable[[int], Meter] = Meter
    backlog_gb: float = BACKLOG_GB
    """Of the rows that need much data; scaled too."""

    @property
    def backlog_bytes(self) -> int:
        """What to store in the rows that need much data."""
        return int(self.backlog_gb * self.scale * 1e9)

    @property
    def dialect(self) -> Dialect[Any]:
        """How to speak to the server."""
        return self.server.dialect

    def load(self, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES) -> Load:
        """So many entries, scaled."""
        count = max(20, int(entries * self.scale))
        return self.dialect.encode_load(self.topic, shape, count, write_entries)

    def run(
        self, work: Callable[[], Awaitable[Measures]], stall_seconds: float = STALL_SECONDS
    ) -> Measures:
        """Run in a new event loop, garbage collector off; TimeoutError if it takes too long."""

        async def bounded() -> Measures:
            async with asyncio.timeout(self.seconds * 2 + stall_seconds):
                return await work()

        with _no_garbage_collected():
            return uvloop.run(bounded())


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def publish(trial: Trial, shape: Shape, entries: int) -> Measures:
    """One connection, one producer a topic, as fast as receipts allow."""
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)

    async def work() -> Measures:
        async with trial.dialect.connected(trial.server.port) as link:
            await trial.dialect.open_producer(link, trial.topic, shape)
            publisher = Publisher(link)
            await publisher.publish(warm_up, trial.seconds)
            meter = trial.meter(trial.server.pid)
            published = await publisher.publish(rest, trial.seconds)
            return meter.stop(published * rest.shape.batch, shape.size)

    return trial.run(work)


def tail(trial: Trial, shape: Shape, entries: int) -> Measures:
    """A consumer reads what a publisher, as fast as it can be, writes."""
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)

    async def work() -> Measures:
        port = trial.server.port
        async with connected(port) as consuming, connected(port) as producing:
            await open_consumer(consuming, trial.topic)
            await open_producer(producing, trial.topic)
            publisher = Publisher(producing)
            receiver = Receiver(consuming, shape.batch, lambda: publisher.answered)
            await publisher.publish(warm_up, trial.seconds)
            await receiver.receive(publisher.sent, trial.seconds)
            receiver.most_behind = 0
            before = receiver.entries
            meter = trial.meter(trial.server.pid)
            published = await publisher.publish(rest, trial.seconds)
            await receiver.receive(publisher.sent, trial.seconds)
            measures = meter.stop((receiver.entries - before) * shape.batch, shape.size)
        publishing_seconds = publisher.answered_at - meter.began
        measures["published_per_s"] = published * shape.batch / publishing_seconds
        measures["behind_messages"] = receiver.most_behind * shape.batch
        measures["behind_ms"] = receiver.most_behind / published * publishing_seconds * 1000
        measures["kept_up"] = min(1.0, publishing_seconds / measures["seconds"])
        return measures

    return trial.run(work)


def catch_up(trial: Trial, shape: Shape, entries: int) -> Measures:
    """A subscription with a backlog that the server has to read from its files."""
    load, dialect, topic = trial.load(shape, entries), trial.dialect, trial.topic

    async def fill() -> Measures:
        async with dialect.connected(trial.server.port) as link:
            await dialect.open_consumer(link, topic, SUBSCRIPTION)
            await dialect.open_producer(link, topic, shape)
            entries = await Publisher(link).publish(load, trial.seconds * FILL_FACTOR)
            return {"entries": entries}

    stored = int(trial.run(fill)["entries"])
    trial.server.forget(topic)

    async def work() -> Measures:
        async with dialect.connected(trial.server.port) as link:
            await dialect.open_consumer(link, topic, SUBSCRIPTION)
            receiver = dialect.receiver(link, load.shape.batch)
            begun: list[tuple[int, Meter]] = []
            receiver.when_warm(
                stored * WARM_UP_PERCENT // 100,
                lambda: begun.append((receiver.entries, trial.meter(trial.server.pid))),
            )
            await receiver.receive(stored, trial.seconds)
            if not begun:
                raise LoadError(f"only {receiver.entries} of {stored} entries came in time")
            before, meter = begun[0]
            return meter.stop((receiver.entries - before) * load.shape.batch, shape.size)

    return trial.run(work)


def fan_out(trial: Trial, shape: Shape, entries: int, subscriptions: int) -> Measures:
    """A publisher, and subscriptions with a connection each; deliveries are counted."""
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)
    dialect, topic, batch = trial.dialect, trial.topic, rest.shape.batch

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            receivers = []
            for number in range(subscriptions):
                link = await stack.enter_async_context(dialect.connected(trial.server.port))
                await dialect.open_consumer(link, topic, f"{SUBSCRIPTION}-{number}")
                receivers.append(dialect.receiver(link, batch))
            link = await stack.enter_async_context(dialect.connected(trial.server.port))
            await dialect.open_producer(link, topic, shape)
            publisher = Publisher(link)

            async def deliver(load: Load) -> int:
                await publisher.publish(load, trial.seconds)
                await asyncio.gather(*(r.receive(publisher.sent, trial.seconds) for r in receivers))
                return sum(receiver.entries for receiver in receivers)

            before = await deliver(warm_up)
            meter = trial.meter(trial.server.pid)
            delivered = await deliver(rest) - before
            return meter.stop(delivered * batch, shape.size)

    return trial.run(work)


def latency(trial: Trial, shape: Shape, entries: int, per_second: int) -> Measures:
    """An even load to a waiting consumer: from before the send to the arrival."""
    load = trial.load(shape, entries, write_entries=1)
    return trial.run(lambda: even_load(trial, load, per_second))


async def even_load(
    trial: Trial,
    load: Load,
    per_second: int,
    connect: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
) -> Measures:
    """Percentiles of the latency of an even load, which is made of writes of one entry.

    `connect` makes its connections, where the port leads to several processes.
    """
    dialect, topic = trial.dialect, trial.topic
    connect = connect or partial(dialect.connected, trial.server.port)
    async with connect() as consuming, connect() as producing:
        await dialect.open_consumer(consuming, topic, SUBSCRIPTION)
        await dialect.open_producer(producing, topic, load.shape)
        receiver = dialect.receiver(consuming, load.shape.batch)
        publisher = PacedPublisher(producing, load, per_second)
        meter = trial.meter(trial.server.pid)
        await publisher.publish()
        await receiver.receive(load.entries, trial.seconds)
        measures = meter.stop(load.entries, load.shape.size)
    if receiver.entries < load.entries:
        raise LoadError(f"only {receiver.entries} of {load.entries} entries came in time")
    arrived = chain.from_iterable(repeat(at, count) for at, count in receiver.arrivals)
    pairs = zip(publisher.sent_at, arrived, strict=True)
    taken_ms = [(arrived_at - sent_at) * 1000 for sent_at, arrived_at in pairs]
    cuts = quantiles(taken_ms[load.entries * WARM_UP_PERCENT // 100 :], n=1000)
    measures["p50_ms"], measures["p99_ms"] = cuts[499], cuts[989]
    measures["p999_ms"] = cuts[998]
    return measures


def start(trial: Trial) -> Measures:
    """An empty server, just started: how long that took, and its memory before any client."""
    used = memory(trial.server.pid)
    load = trial.dialect.encode_load(trial.topic, Shape(100), 1)
    return {
        "healthy_ms": trial.server.healthy_ms,
        "first_ms": _first_delivery_ms(trial, load),
        "peak_mib": used.peak,
        "rss_mib": used.rss,
        "pss_mib": used.pss,
        "uss_mib": used.uss,
    }


def crash(trial: Trial, shape: Shape, gigabytes: float) -> Measures:
    """Fill a server, kill -9 it under that load's last words, and start it again."""
    load = encode_load(shape, int(gigabytes * 1e9) // (shape.size * shape.batch))

    async def fill() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic)
            await open_producer(connection, trial.topic)
            return {
                "entries": await Publisher(connection).publish(
                    load, STALL_SECONDS * max(1, gigabytes)
                )
            }

    trial.run(fill)
    trial.server.kill()
    trial.server.start()
    used = memory(trial.server.pid)
    return {
        "healthy_ms": trial.server.healthy_ms,
        "first_ms": _first_delivery_ms(trial, None),
        "rss_mib": used.rss,
        "pss_mib": used.pss,
        "uss_mib": used.uss,
    }


def _first_delivery_ms(trial: Trial, load: Load | None) -> float:
    """From the start of the process; publishes the load first, if there is one."""

    dialect, topic = trial.dialect, trial.topic

    async def work() -> Measures:
        async with dialect.connected(trial.server.port) as link:
            await dialect.open_consumer(link, topic, SUBSCRIPTION)
            receiver = dialect.receiver(link, 1)
            if load is not None:
                await dialect.open_producer(link, topic, load.shape)
                await Publisher(link).publish(load, trial.seconds)
            await receiver.receive(1, STALL_SECONDS)
        return {"ms": (receiver.arrivals[0][0] - trial.server.started_at) * 1000}

    return trial.run(work)["ms"]
