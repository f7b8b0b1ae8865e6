"""Benchmark of clients: the asyncio client beside the official one, in short rounds in turn."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import median, quantiles

import pulsar

import magnetar
from bench.frames import Shape
from bench.scenarios import Trial
from bench.usage import Measures

ROUNDS = 5
"""The clients take turns, so that both meet what else the machine does."""
ROUNDS_OF_ROUND_TRIPS = 20
PENDING = 10_000
DELAY_MS = 1.0
MAX_BATCH_BYTES = 1 << 20
RECEIVED_AT_ONCE = 1000
SUBSCRIPTION = "bench"

Run = Callable[[str, int], list[float]]
"""Sends or receives so many messages of a topic; the seconds that it took, or that each took."""


def sends(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Send as fast as receipts allow, and wait for all of them."""
    sending = _Sending(trial, shape)
    return _rates(trial, messages, sending.ours, sending.theirs)


def receives(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Receive a backlog in batches, and acknowledge every message."""
    receiving = _Receiving(trial, shape)
    return _rates(trial, messages, receiving.ours, receiving.theirs)


def round_trips(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Send one message after the other, and wait for its receipt before the next."""
    sending = _Sending(trial, shape)
    count = max(10, int(messages * trial.scale) // ROUNDS_OF_ROUND_TRIPS)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS_OF_ROUND_TRIPS):
        ours += sending.ours_one_by_one(f"{trial.topic}-ours-{number}", count)
        theirs += sending.theirs_one_by_one(f"{trial.topic}-theirs-{number}", count)
    return {
        "p50_ms": median(ours) * 1000,
        "p99_ms": quantiles(ours, n=100)[98] * 1000,
        "of_official": median(ours) / median(theirs),
        "official_p50_ms": median(theirs) * 1000,
    }


def _rates(trial: Trial, messages: int, ours: Run, theirs: Run) -> Measures:
    count = max(200, int(messages * trial.scale) // ROUNDS)
    rounds = [
        (
            count / sum(ours(f"{trial.topic}-ours-{number}", count)),
            count / sum(theirs(f"{trial.topic}-theirs-{number}", count)),
        )
        for number in range(ROUNDS)
    ]
    return {
        "msg_per_s": median(mine for mine, _ in rounds),
        "official_per_s": median(other for _, other in rounds),
        "of_official": median(mine / other for mine, other in rounds),
    }


class _Sending:
    def __init__(self, trial: Trial, shape: Shape) -> None:
        self._trial = trial
        self._batch = shape.batch
        self._value = bytes(shape.size)
        self._url = _url(trial)

    @property
    def _limits(self) -> magnetar.BatchLimits | None:
        if self._batch == 1:
            return None
        return magnetar.BatchLimits(self._batch, MAX_BATCH_BYTES, DELAY_MS)

    def ours(self, topic: str, count: int) -> list[float]:
        """With `send_batch`, 10,000 messages at a time."""
        seconds: list[float] = []

        async def send() -> Measures:
            async with magnetar.connect(self._url) as client:
                producer = await client.producer(
                    topic, batching=self._limits, max_pending_messages=PENDING
                )
                await producer.send(self._value)
                values = iter([self._value] * count)
                began = time.perf_counter()
                while some := list(islice(values, PENDING)):
                    await producer.send_batch(some)
                seconds.append(time.perf_counter() - began)
            return {}

        self._trial.run(send)
        return seconds

    def theirs(self, topic: str, count: int) -> list[float]:
        """With `send_async`, and `flush` at the end."""
        failed: list[pulsar.Result] = []

        def settled(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            if result != pulsar.Result.Ok:
                failed.append(result)

        with self._their_producer(topic) as producer:
            producer.send(self._value)
            began = time.perf_counter()
            for _ in range(count):
                producer.send_async(self._value, settled)
            producer.flush()
            took = time.perf_counter() - began
        if failed:
            raise OSError(f"{len(failed)} messages were not stored: {failed[0]}")
        return [took]

    def ours_one_by_one(self, topic: str, count: int) -> list[float]:
        """The seconds of each `send`."""
        seconds: list[float] = []

        async def send() -> Measures:
            async with magnetar.connect(self._url) as client:
                producer = await client.producer(topic, batching=None)
                await producer.send(self._value)
                for _ in range(count):
                    began = time.perf_counter()
                    await producer.send(self._value)
                    seconds.append(time.perf_counter() - began)
            return {}

        self._trial.run(send)
        return seconds

    def theirs_one_by_one(self, topic: str, count: int) -> list[float]:
        """The seconds of each `send`."""
        seconds: list[float] = []
        with self._their_producer(topic) as producer:
            producer.send(self._value)
            for _ in range(count):
                began = time.perf_counter()
                producer.send(self._value)
                seconds.append(time.perf_counter() - began)
        return seconds

    @contextmanager
    def _their_producer(self, topic: str) -> Iterator[pulsar.Producer]:
        with _official(self._url) as client:
            yield client.create_producer(
                topic,
                batching_enabled=self._batch > 1,
                batching_max_messages=max(self._batch, 2),
                batching_max_allowed_size_in_bytes=MAX_BATCH_BYTES,
                batching_max_publish_delay_ms=max(1, int(DELAY_MS)),
                max_pending_messages=PENDING,
                block_if_queue_full=True,
            )


class _Receiving:
    def __init__(self, trial: Trial, shape: Shape) -> None:
        self._trial = trial
        self._url = _url(trial)
        self._sending = _Sending(trial, shape)

    def ours(self, topic: str, count: int) -> list[float]:
        """With `receive_batch`."""
        self._fill(topic, count)
        seconds: list[float] = []

        async def receive() -> Measures:
            async with magnetar.connect(self._url) as client:
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
            return {}

        self._trial.run(receive)
        return seconds

    def theirs(self, topic: str, count: int) -> list[float]:
        """With `batch_receive`."""
        self._fill(topic, count)
        with _official(self._url) as client:
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

    def _fill(self, topic: str, count: int) -> None:
        self._sending.ours(topic, count)


def _url(trial: Trial) -> str:
    return f"pulsar://127.0.0.1:{trial.server.port}"


@contextmanager
def _official(url: str) -> Iterator[pulsar.Client]:
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    try:
        yield client
    finally:
        client.close()
