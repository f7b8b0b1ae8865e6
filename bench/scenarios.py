"""The scenarios: the work of a server, and the measurements during it."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from statistics import quantiles

import uvloop

from bench.connection import SUBSCRIPTION, LoadError, connected, open_consumer, open_producer
from bench.consuming import Receiver
from bench.frames import WRITE_ENTRIES, Load, Shape, encode_load
from bench.publishing import PacedPublisher, Publisher, open_all
from bench.servers import Server
from bench.usage import Measures, Meter, memory

WARM_UP_PERCENT = 10
FILL_FACTOR = 3
"""The factor by which a backlog takes longer to fill than the measurement after it lasts."""
STALL_SECONDS = 120
"""The seconds after which a server that has not answered is considered failed."""
FILL_SECONDS = 600
"""The time in which a server stores the data of the row that starts on much data."""
SUBSCRIPTIONS = 10
"""The number of subscriptions of a fan-out."""
PER_SECOND = 1000
"""The messages per second of an even load."""


@dataclass(frozen=True)
class Trial:
    """One measurement of one server."""

    server: Server
    topic: str
    """A name that was never used before."""
    scale: float
    """The fraction of the full load that is used."""
    seconds: float
    """The maximum length of a measurement."""
    meter: Callable[[int], Meter] = Meter

    def load(self, shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES) -> Load:
        """Return a load of `entries`, scaled."""
        return encode_load(shape, self.scaled(entries), write_entries)

    def scaled(self, count: int) -> int:
        """Return the fraction of a full load's `count` that is used."""
        return max(20, int(count * self.scale))

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
    """Publish on one connection with a producer per topic, as fast as receipts allow."""
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)

    async def work() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_all(connection, trial.topic, shape)
            publisher = Publisher(connection)
            await publisher.publish(warm_up, trial.seconds)
            meter = trial.meter(trial.server.pid)
            published = await publisher.publish(rest, trial.seconds)
            return meter.stop(published * rest.shape.batch)

    return trial.run(work)


def tail(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish as fast as possible to a consumer that reads at the same time."""
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
            measures = meter.stop((receiver.entries - before) * shape.batch)
        publishing_seconds = publisher.answered_at - meter.began
        measures["published_per_s"] = published * shape.batch / publishing_seconds
        measures["behind_messages"] = receiver.most_behind * shape.batch
        measures["behind_ms"] = receiver.most_behind / published * publishing_seconds * 1000
        measures["kept_up"] = min(1.0, publishing_seconds / measures["seconds"])
        return measures

    return trial.run(work)


def catch_up(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Consume a backlog that the server must read from its files."""
    return consume_backlog(trial, shape, fill_backlog(trial, shape, entries))


def fill_backlog(trial: Trial, shape: Shape, entries: int) -> int:
    """Publish a backlog, and remove it from the server's memory; returns its entries."""
    stored = fill(trial, trial.topic, trial.load(shape, entries), trial.seconds * FILL_FACTOR)
    trial.server.forget(trial.topic)
    return stored


def consume_backlog(trial: Trial, shape: Shape, stored: int) -> Measures:
    """Consume a backlog of this many entries."""

    async def work() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic)
            receiver = Receiver(connection, shape.batch)
            begun: list[tuple[int, Meter]] = []
            receiver.when_warm(
                stored * WARM_UP_PERCENT // 100,
                lambda: begun.append((receiver.entries, trial.meter(trial.server.pid))),
            )
            await receiver.receive(stored, trial.seconds)
            if not begun:
                raise LoadError(f"only {receiver.entries} of {stored} entries came in time")
            before, meter = begun[0]
            return meter.stop((receiver.entries - before) * shape.batch)

    return trial.run(work)


def fan_out(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish to subscriptions with a connection each; deliveries are counted."""
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)
    port = trial.server.port

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            receivers = []
            for number in range(SUBSCRIPTIONS):
                connection = await stack.enter_async_context(connected(port))
                await open_consumer(connection, trial.topic, f"{SUBSCRIPTION}-{number}")
                receivers.append(Receiver(connection, shape.batch))
            connection = await stack.enter_async_context(connected(port))
            await open_producer(connection, trial.topic)
            publisher = Publisher(connection)

            async def deliver(load: Load) -> int:
                await publisher.publish(load, trial.seconds)
                await asyncio.gather(*(r.receive(publisher.sent, trial.seconds) for r in receivers))
                return sum(receiver.entries for receiver in receivers)

            before = await deliver(warm_up)
            meter = trial.meter(trial.server.pid)
            delivered = await deliver(rest) - before
            return meter.stop(delivered * shape.batch)

    return trial.run(work)


def latency(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish an even load to a waiting consumer: the time from before the send to the arrival."""
    load = trial.load(shape, entries, write_entries=1)

    async def work() -> Measures:
        port = trial.server.port
        async with connected(port) as consuming, connected(port) as producing:
            await open_consumer(consuming, trial.topic)
            await open_producer(producing, trial.topic)
            receiver = Receiver(consuming)
            publisher = PacedPublisher(producing, load, PER_SECOND)
            meter = trial.meter(trial.server.pid)
            await publisher.publish()
            await receiver.receive(load.entries, trial.seconds)
            measures = meter.stop(load.entries)
        if receiver.entries < load.entries:
            raise LoadError(f"only {receiver.entries} of {load.entries} entries came in time")
        arrived = chain.from_iterable(repeat(at, count) for at, count in receiver.arrivals)
        pairs = zip(publisher.sent_at, arrived, strict=True)
        taken_ms = [(arrived_at - sent_at) * 1000 for sent_at, arrived_at in pairs]
        del taken_ms[: load.entries * WARM_UP_PERCENT // 100]
        cuts = quantiles(taken_ms, n=1000)
        return measures | {
            "p50_ms": cuts[499],
            "p99_ms": cuts[989],
            "p999_ms": cuts[998],
            "longest_ms": max(taken_ms),
        }

    return trial.run(work)


def start(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Measure an empty server: its start, and its memory before any client."""
    used = memory(trial.server.pid)
    healthy_ms = trial.server.healthy_ms
    fill(trial, trial.topic, encode_load(shape, entries), trial.seconds)
    return {
        "healthy_ms": healthy_ms,
        "first_ms": _first_delivery_ms(trial),
        "rss_mib": used.rss,
        "pss_mib": used.pss,
    }


def crash(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Fill a server, kill it with SIGKILL as soon as all data is stored, and start it again."""
    load = trial.load(shape, entries)
    if fill(trial, trial.topic, load, FILL_SECONDS) < load.entries:
        raise LoadError(f"not all of {load.entries} entries were stored in {FILL_SECONDS} s")
    stored_gb = trial.server.stored_bytes() / 1e9
    trial.server.kill()
    trial.server.start()
    used = memory(trial.server.pid)
    return {
        "healthy_ms": trial.server.healthy_ms,
        "first_ms": _first_delivery_ms(trial),
        "stored_gb": stored_gb,
        "rss_mib": used.rss,
        "pss_mib": used.pss,
    }


def fill(trial: Trial, topic: str, load: Load, seconds: float) -> int:
    """Create a topic with a subscription, and publish; returns the entries stored in time."""

    async def work() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, topic)  # so that the topic and its entries are kept
            await open_producer(connection, topic)
            return {"stored": await Publisher(connection).publish(load, seconds)}

    return int(trial.run(work, stall_seconds=seconds + STALL_SECONDS)["stored"])


def _first_delivery_ms(trial: Trial) -> float:
    """Return the time from the start of the process to the first message of the topic."""

    async def work() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic)
            receiver = Receiver(connection)
            await receiver.receive(1, STALL_SECONDS)
        if not receiver.arrivals:
            raise LoadError(f"nothing came in {STALL_SECONDS} s")
        return {"ms": (receiver.arrivals[0][0] - trial.server.started_at) * 1000}

    return trial.run(work)["ms"]
