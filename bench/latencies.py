"""Latency of an even load while the server has something else to do."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench.beside import Beside, beside
from bench.compacting import COMPACTION_SECONDS, compacted, keyed_loads
from bench.connection import LoadError, connected, open_consumer, open_producer
from bench.frames import Shape, encode_load
from bench.publishing import Publisher
from bench.scenarios import STALL_SECONDS, Trial, even_load
from bench.usage import Measures

COMPACTED = Shape(1 << 10, keys=20_000)
COMPACTED_MESSAGES = 200_000
COMPACTED_TOPICS = 2
"""Compacted one after the other: a compaction may be over before the measurement."""
BACKLOG_SECONDS_A_GB = 120
Prepared = Callable[[], AbstractAsyncContextManager[Beside]]


def beside_topics(
    trial: Trial, shape: Shape, entries: int, per_second: int, topics: int
) -> Measures:
    """While other topics get a message each second or so."""
    others, count = f"{trial.topic}-other", max(50, int(topics * trial.scale))

    async def prepare() -> Prepared:
        return lambda: beside("topics", trial.server.port, others, count)

    measures, done = _measured(trial, shape, entries, per_second, prepare)
    return measures | {"beside_per_s": done.messages / measures["seconds"]}


def beside_backlog(
    trial: Trial, shape: Shape, entries: int, per_second: int, backlog: Shape
) -> Measures:
    """While a reader catches up from the beginning of a backlog, again and again."""
    topic = f"{trial.topic}-backlog"
    count = max(100, trial.backlog_bytes // (backlog.size * backlog.batch))

    async def prepare() -> Prepared:
        load = encode_load(backlog, count)
        seconds = STALL_SECONDS + BACKLOG_SECONDS_A_GB * trial.backlog_bytes / 1e9
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, topic)  # so that it is kept
            await open_producer(connection, topic)
            if await Publisher(connection).publish(load, seconds) < count:
                raise LoadError("the backlog was not stored in time")
        return lambda: beside("backlog", trial.server.port, topic, count, backlog.batch)

    measures, done = _measured(trial, shape, entries, per_second, prepare)
    return measures | {"beside_per_s": done.messages * backlog.batch / measures["seconds"]}


def beside_compaction(trial: Trial, shape: Shape, entries: int, per_second: int) -> Measures:
    """While other topics are compacted; `beside_share` is how much of the time."""
    topics = [f"{trial.topic}-compacted-{number}" for number in range(COMPACTED_TOPICS)]

    async def prepare() -> Prepared:
        for topic in topics:
            await _fill(trial, topic, max(1000, int(COMPACTED_MESSAGES * trial.scale)))
        return lambda: _compacting(trial.server.http_port, topics)

    measures, done = _measured(trial, shape, entries, per_second, prepare)
    return measures | {"beside_share": min(1.0, done.seconds / measures["seconds"])}


def _measured(
    trial: Trial,
    shape: Shape,
    entries: int,
    per_second: int,
    prepare: Callable[[], Awaitable[Prepared]],
) -> tuple[Measures, Beside]:
    """A server without topics has nothing else to do: it is the reference of a quiet one."""
    load = trial.load(shape, entries, write_entries=1)
    done = Beside()

    async def work() -> Measures:
        if not trial.server.has_topics:
            return await even_load(trial, load, per_second)
        nonlocal done
        meanwhile = await prepare()
        async with meanwhile() as done:
            return await even_load(trial, load, per_second)

    seconds = COMPACTION_SECONDS + BACKLOG_SECONDS_A_GB * trial.backlog_bytes / 1e9
    measures = trial.run(work, stall_seconds=seconds)
    return measures, done


async def _fill(trial: Trial, topic: str, messages: int) -> None:
    async with connected(trial.server.port) as connection:
        await open_producer(connection, topic)
        publisher = Publisher(connection)
        for load in keyed_loads(COMPACTED, messages):
            if await publisher.publish(load, STALL_SECONDS) < load.entries:
                raise LoadError(f"only {publisher.answered} entries were stored in time")


@asynccontextmanager
async def _compacting(http_port: int, topics: list[str]) -> AsyncIterator[Beside]:
    """What is being compacted in the end is finished, uncounted."""
    over, done = asyncio.Event(), Beside()
    began = time.perf_counter()

    async def compact_each() -> None:
        for topic in topics:
            if not over.is_set():
                await compacted(http_port, topic)

    def ended() -> None:
        done.seconds = done.seconds or time.perf_counter() - began

    working = asyncio.ensure_future(compact_each())
    working.add_done_callback(lambda _: ended())
    try:
        yield done
        ended()
    finally:
        over.set()
        await working
