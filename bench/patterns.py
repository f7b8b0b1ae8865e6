"""Benchmark of topic patterns: listing, subscribing, and notification of a new topic."""

import re
import time
from contextlib import AsyncExitStack
from statistics import median

import pulsar

from bench.connection import (
    SUBSCRIPTION,
    Connection,
    LoadError,
    connected,
    look_up,
    open_producer,
)
from bench.many_topics import OPENING_SECONDS, open_producers
from bench.scenarios import Trial
from bench.usage import Measures
from magnetar_proto import PulsarApi_pb2 as pb

NAMESPACE = "public/default"
LISTINGS = 5
NEWCOMERS = 20
TIMEOUT_MS = 300_000
WATCHER = 1


def patterns(trial: Trial, topics: int) -> Measures:
    """Subscribe to a pattern that many topics match, with the official client for Python."""
    count = max(100, int(topics * trial.scale))
    short = trial.topic.rpartition("/")[2]
    pattern = f".*/{short}-.*"

    async def list_and_watch() -> Measures:
        async with AsyncExitStack() as stack:
            names = [f"{trial.topic}-{number}" for number in range(count)]
            await open_producers(trial, stack, names, publish=False)
            watching = await stack.enter_async_context(connected(trial.server.port))
            listed_ms = [await _listed_ms(watching, pattern, count) for _ in range(LISTINGS)]
            producing = await stack.enter_async_context(connected(trial.server.port))
            seen_ms = await _seen_ms(trial, watching, producing, pattern)
        return {"listed_ms": median(listed_ms), "seen_ms": median(seen_ms)}

    measures = trial.run(list_and_watch, stall_seconds=OPENING_SECONDS)
    meter = trial.meter(trial.server.pid)
    _subscribe(trial, f"persistent://{NAMESPACE}/{short}-.*")
    return meter.stop(count, 0) | measures


async def _listed_ms(connection: Connection, pattern: str, expected: int) -> float:
    """One GET_TOPICS_OF_NAMESPACE."""
    began = time.perf_counter()
    answer = await connection.call(
        pb.CommandGetTopicsOfNamespace(
            request_id=connection.request_id(), namespace=NAMESPACE, topics_pattern=pattern
        )
    )
    listed = answer.getTopicsOfNamespaceResponse
    if not listed.filtered or len(listed.topics) != expected:
        raise LoadError(f"{len(listed.topics)} of {expected} topics were listed")
    return (time.perf_counter() - began) * 1000


async def _seen_ms(
    trial: Trial, watching: Connection, producing: Connection, pattern: str
) -> list[float]:
    """From the answer to a producer, whose topic is new, until a watcher knows: 0 if before."""
    await watching.call(
        pb.CommandWatchTopicList(
            request_id=watching.request_id(),
            watcher_id=WATCHER,
            namespace=NAMESPACE,
            topics_pattern=pattern,
        )
    )
    taken = []
    for number in range(NEWCOMERS):
        name = f"{trial.topic}-new-{number}"
        await look_up(producing, name)
        update = watching.update()
        await open_producer(producing, name, number + 1)
        made = time.perf_counter()
        if list((await update).new_topics) != [name]:
            raise LoadError(f"the watcher was notified of another topic than {name}")
        taken.append((time.perf_counter() - made) * 1000)
    return taken


def _subscribe(trial: Trial, pattern: str) -> None:
    """Return when the client reports that it is subscribed."""
    client = pulsar.Client(
        f"pulsar://127.0.0.1:{trial.server.port}",
        operation_timeout_seconds=TIMEOUT_MS // 1000,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        client.subscribe(re.compile(pattern), SUBSCRIPTION)
    finally:
        client.close()
