"""Benchmark of millions of delayed messages: publishing, memory, delivery after a crash."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from random import Random

from bench.connection import (
    SHARED,
    SUBSCRIPTION,
    LoadError,
    connected,
    open_consumer,
    open_producer,
)
from bench.consuming import Receiver
from bench.frames import Load, Shape, Write
from bench.publishing import Publisher
from bench.scenarios import STALL_SECONDS, Trial
from bench.usage import Measures, Meter, cpu_ratio, memory
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.sends import encode_send

PORTION = 100_000
"""Entries that are encoded and sent at a time."""
PLAIN_SHARE = 10
"""For so many delayed entries one is sent to another topic without a delay, to compare."""
WRITE_ENTRIES = 50
DAY_MS = 86_400_000


def delayed(trial: Trial, shape: Shape, entries: int, limit_seconds: float) -> Measures:
    """Publish messages that are due in a day to a month, until all are stored or the time is over;
    kill -9, and receive one that is due.  `stored_share` is how much was stored.
    """
    total = max(PORTION // 10, int(entries * trial.scale))
    plain_topic = f"{trial.topic}-plain"

    async def fill() -> Measures:
        async with AsyncExitStack() as stack:
            port = trial.server.port
            publishers = []
            for topic in (trial.topic, plain_topic):
                waiting = await stack.enter_async_context(connected(port))
                await open_consumer(waiting, topic, SUBSCRIPTION, SHARED)
                if topic == trial.topic:
                    Receiver(waiting)  # ready for what will not come
                publishing = await stack.enter_async_context(connected(port))
                await open_producer(publishing, topic)
                publishers.append(Publisher(publishing))
            late, plain = (Turn(trial, shape, publisher) for publisher in publishers)
            times = _times(Random(7))
            give_up = time.perf_counter() + limit_seconds
            while late.sent < total and time.perf_counter() < give_up:
                count = min(PORTION, total - late.sent)
                await late.send(count, times)
                await plain.send(max(1, count // PLAIN_SHARE), None)
            used = memory(trial.server.pid)
        measures = late.measures()
        compared = plain.measures()
        return measures | {
            "delayed_ratio": measures["msg_per_s"] / compared["msg_per_s"],
            "delayed_cpu_ratio": cpu_ratio(measures["cpu_us"], compared["cpu_us"]),
            "stored_share": late.sent / total,
            "rss_mib": used.rss,
        }

    measures = trial.run(fill, stall_seconds=STALL_SECONDS + limit_seconds)
    trial.server.kill()
    trial.server.start()
    measures["healthy_ms"] = trial.server.healthy_ms

    async def one_that_is_due() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic, SUBSCRIPTION, SHARED)
            receiver = Receiver(connection)
            await open_producer(connection, trial.topic)
            await Publisher(connection).publish(_load(shape, 0, 1, None), trial.seconds)
            await receiver.receive(1, STALL_SECONDS)
        first_ms = (receiver.arrivals[0][0] - trial.server.started_at) * 1000
        return {"first_ms": first_ms, "again_mib": memory(trial.server.pid).rss}

    return measures | trial.run(one_that_is_due)


class Turn:
    """One of two publishers that take turns; what each costs is added up."""

    def __init__(self, trial: Trial, shape: Shape, publisher: Publisher) -> None:
        self.sent = 0
        self._trial = trial
        self._shape = shape
        self._publisher = publisher
        self._parts: list[Measures] = []

    async def send(self, count: int, times: Iterator[int] | None) -> None:
        """So many entries, delayed until these times."""
        load = _load(self._shape, self.sent, count, times)
        meter: Meter = self._trial.meter(self._trial.server.pid)
        if await self._publisher.publish(load, STALL_SECONDS) < count:
            raise LoadError(f"only {self._publisher.answered} entries were stored in time")
        self._parts.append(meter.stop(count, self._shape.size))
        self.sent += count

    def measures(self) -> Measures:
        """Of all turns."""
        seconds = sum(part["seconds"] for part in self._parts)
        cpu = sum(part["cpu_us"] * part["messages"] for part in self._parts)
        return {
            "messages": self.sent,
            "seconds": seconds,
            "msg_per_s": self.sent / seconds,
            "mb_per_s": self.sent * self._shape.size / seconds / 1e6,
            "cpu_us": cpu / self.sent,
            "peak_mib": max(part["peak_mib"] for part in self._parts),
        }


def _times(random: Random) -> Iterator[int]:
    """When messages are due: in a day to a month."""
    now_ms = time.time_ns() // 1_000_000
    while True:
        yield now_ms + random.randrange(DAY_MS, 30 * DAY_MS)


def _load(shape: Shape, first: int, count: int, times: Iterator[int] | None) -> Load:
    """Entries whose sequence ids go on at `first`."""
    payload = Random(7).randbytes(shape.size)
    metadata = pb.MessageMetadata(producer_name="bench", publish_time=time.time_ns() // 1_000_000)
    writes = []
    for start in range(first, first + count, WRITE_ENTRIES):
        stop = min(start + WRITE_ENTRIES, first + count)
        frames = []
        for sequence_id in range(start, stop):
            metadata.sequence_id = sequence_id
            if times is not None:
                metadata.deliver_at_time = next(times)
            frames.append(encode_send(1, sequence_id, 1, metadata.SerializeToString(), payload))
        writes.append(Write([b"".join(frames)], stop - start))
    return Load(shape, writes, count)
