"""Benchmarks of several workers: the same load on a broker with one worker, and with two."""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count

from bench.connection import (
    SHARED,
    SUBSCRIPTION,
    Connection,
    LoadError,
    connected,
    connected_as,
    look_up,
    open_consumer,
)
from bench.consuming import Echo
from bench.frames import Load, Shape
from bench.publishing import Publisher, open_each
from bench.scenarios import WARM_UP_PERCENT, Trial, even_load
from bench.servers import Magnetar
from bench.sharing import PERMITS
from bench.usage import MIB, Measures, cpu_ratio, family

WORKERS = 2
GROUPS = 2
"""Connections that publish, with one worker too; each has its own topics."""
CANDIDATES = 2
"""Names that are looked up for each topic, so that every owner has as many topics."""
DEATH_SECONDS = 1.5
CONSUMERS = 2
"""Of the subscription of each topic."""

Spread = Callable[[Trial, Shape, int], Measures]
"""Measures a load of so many entries on the topics of a shape."""


def several(trial: Trial, spread: Spread, shape: Shape, entries: int) -> Measures:
    """Measure with one worker and then with two, and compare rate, CPU and memory."""
    server = trial.server
    assert isinstance(server, Magnetar)
    one = spread(replace(trial, topic=f"{trial.topic}-one"), shape, entries)
    server.configure({"magnetarWorkers": str(WORKERS)})
    server.restart()
    idle = max(process.memory_info().rss for process in family(server.pid)) / MIB
    healthy_ms = server.healthy_ms
    two = spread(replace(trial, topic=f"{trial.topic}-two"), shape, entries)
    return two | {
        "one_per_s": one["msg_per_s"],
        "of_one": two["msg_per_s"] / one["msg_per_s"],
        "cpu_of_one": cpu_ratio(two["cpu_us"], one["cpu_us"]),
        "idle_mib": idle,
        "healthy_ms": healthy_ms,
    }


def publish_spread(trial: Trial, shape: Shape, entries: int) -> Measures:
    """A producer on each topic, as fast as receipts allow."""

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            publishing = await _publishers(trial, stack, shape, entries)
            await _publish_all(trial, [(p, warm_up) for p, warm_up, _ in publishing])
            meter = trial.meter(trial.server.pid)
            published = await _publish_all(trial, [(p, rest) for p, _, rest in publishing])
            return meter.stop(published * shape.batch, shape.size)

    return trial.run(work)


def share_spread(trial: Trial, shape: Shape, entries: int) -> Measures:
    """A backlog on each topic, then consumers that share it and acknowledge message by message."""

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            owners = await _by_owner(trial, shape)
            for owner, topics in owners:
                for topic in topics:
                    held = await stack.enter_async_context(connected(trial.server.port, owner))
                    await open_consumer(held, topic, SUBSCRIPTION, SHARED)
                    held.close()
            publishing = await _publishers(trial, stack, shape, entries)
            filled = await _publish_all(trial, [(p, warm_up) for p, warm_up, _ in publishing])
            filled += await _publish_all(trial, [(p, rest) for p, _, rest in publishing])
            taken, consumers = Taken(filled), []
            for owner, topics in owners:
                for topic in topics * CONSUMERS:
                    taking = await stack.enter_async_context(
                        connected_as(Echo, trial.server.port, owner)
                    )
                    await open_consumer(taking, topic, SUBSCRIPTION, SHARED)
                    taking.took = taken.add
                    consumers.append(taking)
            meter = trial.meter(trial.server.pid)
            for taking in consumers:
                taking.begin(PERMITS)
            await taken.all(taking)
            return meter.stop(filled * shape.batch, shape.size)

    return trial.run(work)


class Taken:
    """Counts what all consumers take together."""

    def __init__(self, wanted: int) -> None:
        self._missing = wanted
        self._done: asyncio.Future[None] | None = None

    def add(self, entries: int) -> None:
        """One of them took so many."""
        self._missing -= entries
        if self._missing <= 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def all(self, connection: Connection) -> None:
        """Return when everything was taken; LoadError if the connection ends."""
        self._done = connection.promise()
        self.add(0)
        await self._done


def deaths(trial: Trial, shape: Shape, entries: int, per_second: int) -> Measures:
    """Latency on one of two workers, and while the other one dies again and again."""
    server = trial.server
    assert isinstance(server, Magnetar)
    server.configure({"magnetarWorkers": str(WORKERS)})
    server.restart()

    async def work() -> Measures:
        async with connected(server.port) as asking:
            owner = await look_up(asking, trial.topic)
            names = (f"{trial.topic}-{number}" for number in count())
            while await look_up(asking, topic := next(names)) != owner:
                pass
        connect = partial(connected, server.port, owner)
        quiet = await even_load(trial, trial.load(shape, entries, 1), per_second, connect)
        other = next(f"worker-{n}" for n in range(WORKERS) if not owner.startswith(f"worker-{n}:"))
        beside = replace(trial, topic=topic)
        async with _dying(server, other) as killed:
            measures = await even_load(beside, beside.load(shape, entries, 1), per_second, connect)
        return measures | {
            "quiet_p99_ms": quiet["p99_ms"],
            "of_quiet": measures["p99_ms"] / quiet["p99_ms"],
            "deaths": float(len(killed)),
        }

    return trial.run(work)


@asynccontextmanager
async def _dying(server: Magnetar, worker: str) -> AsyncIterator[list[int]]:
    """Kill a worker whenever it has been back for some time; the processes that were killed."""
    killed: list[int] = []

    async def kill() -> None:
        while True:
            pid = server.processes()[worker]
            if pid not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            await asyncio.sleep(DEATH_SECONDS)

    killing = asyncio.ensure_future(kill())
    try:
        yield killed
    finally:
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing


async def _by_owner(trial: Trial, shape: Shape) -> list[tuple[str, list[str]]]:
    """`GROUPS` of as many topics, each with the address of their owner."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    async with connected(trial.server.port) as asking:
        for number in range(shape.topics * CANDIDATES):
            topic = f"{trial.topic}-{number}"
            found[await look_up(asking, topic)].append(topic)
    share, groups = shape.topics // GROUPS, GROUPS // len(found)
    if min(map(len, found.values())) < share * groups:
        raise LoadError("too few of the topics that were looked up have the same owner")
    return [
        (owner, topics[at * share : (at + 1) * share])
        for owner, topics in found.items()
        for at in range(groups)
    ]


async def _publishers(
    trial: Trial, stack: AsyncExitStack, shape: Shape, entries: int
) -> list[tuple[Publisher, Load, Load]]:
    """Of each group of topics: its publisher, and its share of the load, of which some is first."""
    publishers = []
    for owner, topics in await _by_owner(trial, shape):
        connection = await stack.enter_async_context(connected(trial.server.port, owner))
        await open_each(connection, topics)
        load = trial.load(replace(shape, topics=len(topics)), entries * len(topics) // shape.topics)
        publishers.append((Publisher(connection), *load.split(WARM_UP_PERCENT)))
    return publishers


async def _publish_all(trial: Trial, loads: list[tuple[Publisher, Load]]) -> int:
    """Publish all loads at the same time; how many entries were published."""
    published = (publisher.publish(load, trial.seconds) for publisher, load in loads)
    return sum(await asyncio.gather(*published))
