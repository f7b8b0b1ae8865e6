"""Benchmark of clients: the asyncio client and the official one, in short alternating rounds."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import median, quantiles
from typing import Any

import pulsar

import magnetar
from bench.connection import SUBSCRIPTION
from bench.frames import Shape
from bench.scenarios import Trial
from bench.usage import Measures

ROUNDS = 5
"""The rounds of each client; clients alternate, so that other load affects both."""
PENDING = 10_000
DELAY_MS = 1
MAX_BATCH_BYTES = 1 << 20
RECEIVED_AT_ONCE = 1000

Run = Callable[[Trial, Shape, str, int], list[float]]
"""Sends or receives a number of messages of a topic; returns the seconds in total, or of each."""


def sends(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Send as fast as receipts allow, and wait for all receipts."""
    return _rates(trial, shape, messages, _send, _send_official)


def receives(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Receive a backlog in batches, and acknowledge every message."""
    return _rates(trial, shape, messages, _receive, _receive_official)


def round_trips(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Send one message after another, waiting for each receipt."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        count = trial.scaled(messages) // ROUNDS
        ours += _send_each(trial, shape, f"{trial.topic}-ours-{number}", count)
        theirs += _send_each_official(trial, shape, f"{trial.topic}-theirs-{number}", count)
    return {
        "p50_ms": median(ours) * 1000,
        "p99_ms": quantiles(ours, n=100)[98] * 1000,
        "official_p50_ms": median(theirs) * 1000,
        "of_official": median(ours) / median(theirs),
    }


def _rates(trial: Trial, shape: Shape, messages: int, ours: Run, theirs: Run) -> Measures:
    count = trial.scaled(messages) // ROUNDS
    rates = [
        (
            count / sum(ours(trial, shape, f"{trial.topic}-ours-{number}", count)),
            count / sum(theirs(trial, shape, f"{trial.topic}-theirs-{number}", count)),
        )
        for number in range(ROUNDS)
    ]
    return {
        "msg_per_s": median(mine for mine, _ in rates),
        "official_per_s": median(other for _, other in rates),
        "of_official": median(mine / other for mine, other in rates),
    }


# The asyncio client ------------------------------------------------------------------------------


Work = Callable[[magnetar.Client, list[float]], Awaitable[None]]


def _run(trial: Trial, work: Work) -> list[float]:
    """Run `work` with a connected client; returns the seconds that it has noted."""
    seconds: list[float] = []

    async def connected() -> Measures:
        async with magnetar.connect(trial.server.url) as client:
            await work(client, seconds)
        return {}

    trial.run(connected)
    return seconds


def _send(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Send with `send_batch`, 10,000 messages at a time."""
    limits = magnetar.BatchLimits(shape.batch, MAX_BATCH_BYTES, float(DELAY_MS))
    value = bytes(shape.size)

    async def send(client: magnetar.Client, seconds: list[float]) -> None:
        producer = await client.producer(
            topic, batching=limits if shape.batch > 1 else None, max_pending_messages=PENDING
        )
        await producer.send(value)
        values = iter([value] * count)
        began = time.perf_counter()
        while some := list(islice(values, PENDING)):
            await producer.send_batch(some)
        seconds.append(time.perf_counter() - began)

    return _run(trial, send)


def _send_each(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Return the seconds of each `send`."""
    value = bytes(shape.size)

    async def send(client: magnetar.Client, seconds: list[float]) -> None:
        producer = await client.producer(topic, batching=None)
        await producer.send(value)
        for _ in range(count):
            began = time.perf_counter()
            await producer.send(value)
            seconds.append(time.perf_counter() - began)

    return _run(trial, send)


def _receive(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Receive messages with `receive_batch`."""
    _send(trial, shape, topic, count)

    async def receive(client: magnetar.Client, seconds: list[float]) -> None:
        consumer = await client.subscribe(
            topic, SUBSCRIPTION, type="shared", initial_position="earliest"
        )
        left = count - len(await consumer.receive_batch(1))
        began = time.perf_counter()
        while left > 0:
            messages = await consumer.receive_batch(RECEIVED_AT_ONCE)
            consumer.ack(messages)
            left -= len(messages)
        seconds.append(time.perf_counter() - began)

    return _run(trial, receive)


# The official client -----------------------------------------------------------------------------


@contextmanager
def _official(trial: Trial) -> Iterator[pulsar.Client]:
    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(trial.server.url, logger=quiet)
    try:
        yield client
    finally:
        client.close()


def _producer(client: pulsar.Client, shape: Shape, topic: str) -> pulsar.Producer:
    return client.create_producer(
        topic,
        batching_enabled=shape.batch > 1,
        batching_max_messages=max(shape.batch, 2),
        batching_max_allowed_size_in_bytes=MAX_BATCH_BYTES,
        batching_max_publish_delay_ms=DELAY_MS,
        max_pending_messages=PENDING,
        block_if_queue_full=True,
    )


def _send_official(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Send with `send_async`, and `flush` at the end."""
    value, failed = bytes(shape.size), list[Any]()

    def settled(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    with _official(trial) as client:
        producer = _producer(client, shape, topic)
        producer.send(value)
        began = time.perf_counter()
        for _ in range(count):
            producer.send_async(value, settled)
        producer.flush()
        took = time.perf_counter() - began
    if failed:
        raise RuntimeError(f"{len(failed)} messages were not stored: {failed[0]}")
    return [took]


def _send_each_official(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Return the seconds of each `send`."""
    value, seconds = bytes(shape.size), list[float]()
    with _official(trial) as client:
        producer = _producer(client, shape, topic)
        producer.send(value)
        for _ in range(count):
            began = time.perf_counter()
            producer.send(value)
            seconds.append(time.perf_counter() - began)
    return seconds


def _receive_official(trial: Trial, shape: Shape, topic: str, count: int) -> list[float]:
    """Receive messages with `batch_receive`."""
    _send(trial, shape, topic, count)
    with _official(trial) as client:
        consumer = client.subscribe(
            topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(RECEIVED_AT_ONCE, -1, 10),
        )
        consumer.acknowledge(consumer.receive())
        left = count - 1
        began = time.perf_counter()
        while left > 0:
            messages = consumer.batch_receive()
            for message in messages:
                consumer.acknowledge(message)
            left -= len(messages)
        return [time.perf_counter() - began]
