"""Benchmarks of several workers: the same load on a broker with one worker, and with two."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

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
from bench.scenarios import WARM_UP_PERCENT, Trial
from bench.servers import Magnetar
from bench.sharing import PERMITS
from bench.usage import MIB, Measures, cpu_ratio, family

WORKERS = 2
GROUPS = 2
"""Connections that publish, with one worker too; each has its own topics."""
CANDIDATES = 2
"""Names that are looked up for each topic, so that every owner has as many topics."""
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
