"""Benchmark of several workers: publishing to topics through the workers that own them."""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import replace

from bench.connection import LoadError, connected, look_up
from bench.frames import Load, Shape
from bench.publishing import Publisher, open_each
from bench.scenarios import WARM_UP_PERCENT, Trial
from bench.usage import Measures

GROUPS = 2
"""The number of publishing connections, even with one worker; each has its own topics."""
CANDIDATES = 2
"""The names looked up per topic, so that every owner gets the same number of topics."""


def publish_spread(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish with a producer on each topic, as fast as receipts allow."""

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            publishing = []
            for owner, topics in await _by_owner(trial, shape):
                connection = await stack.enter_async_context(connected(trial.server.port, owner))
                await open_each(connection, topics)
                load = trial.load(replace(shape, topics=len(topics)), entries // GROUPS)
                publishing.append((Publisher(connection), *load.split(WARM_UP_PERCENT)))
            await _publish_all(trial, [(each, warm_up) for each, warm_up, _ in publishing])
            meter = trial.meter(trial.server.pid)
            published = await _publish_all(trial, [(each, rest) for each, _, rest in publishing])
            return meter.stop(published * shape.batch)

    return trial.run(work)


async def _by_owner(trial: Trial, shape: Shape) -> list[tuple[str, list[str]]]:
    """Return `GROUPS` groups of equally many topics, each with its owner's address."""
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


async def _publish_all(trial: Trial, loads: list[tuple[Publisher, Load]]) -> int:
    """Publish all loads concurrently; returns the number of published entries."""
    published = (publisher.publish(load, trial.seconds) for publisher, load in loads)
    return sum(await asyncio.gather(*published))
