"""Benchmark of memory: of a broker after its first REST requests, and of idle connections."""

import asyncio
import urllib.request
from contextlib import AsyncExitStack

from bench.connection import connected, open_producer
from bench.frames import Shape
from bench.scenarios import Trial
from bench.usage import Measures, memory

TOPICS = 4
"""The topics of all producers; `many_topics` measures what a topic takes."""
FIRST = 50
"""The connections before the measurement: their producers create the topics."""


def connections(trial: Trial, shape: Shape, count: int) -> Measures:
    """Measure the memory after a REST request and a scrape, and of connections with a producer."""
    for page in ("admin/v2/clusters", "metrics/"):
        urllib.request.urlopen(f"http://127.0.0.1:{trial.server.http_port}/{page}").read()
    rest_mib = memory(trial.server.pid).rss

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            before = 0.0
            for number in range(FIRST + trial.scaled(count)):
                if number == FIRST:
                    await asyncio.sleep(1)
                    before = memory(trial.server.pid).pss
                connection = await stack.enter_async_context(connected(trial.server.port))
                await open_producer(connection, f"{trial.topic}-{number % TOPICS}")
            await asyncio.sleep(1)
            grown = memory(trial.server.pid).pss - before
            return {"rest_mib": rest_mib, "connection_kib": grown * 1024 / trial.scaled(count)}

    return trial.run(work)
