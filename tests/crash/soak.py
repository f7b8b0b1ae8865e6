"""Whether the broker stays as it is: half of what these clients can do, for long; they come and go.

`make soak MINUTES=30`.  What is consumed is deleted meanwhile.  Every ten seconds memory,
descriptors, threads and disk use are noted; the verdict is over the last two thirds.

Memory is what is in use.  Resident memory has free memory of the C library's heap in addition, and
is no sign of a leak: the heap keeps what it needed at full speed, before the samples, protobuf
gives all its free pages back after every 10,000 freed messages, and the traffic takes them again.
Free memory is judged by itself: the heap may be twice as large as what is in use.
"""

import asyncio
import random
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import psutil
import pulsar
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from crash.big import RING, encode_ring
from crash.lives import CONTEXT
from crash.raw_load import subscribe
from crash.wire import Gone, Wire, dial
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import decode_message, encode_flow
from magnetar_proto.entries import parse_metadata
from magnetar_proto.frames import Frame
from official import TIMEOUT_MS, connect
from running_broker import RunningBroker

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "2000",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "5",
}
SHAPES = ((1, 1024), (50, 256))
"""Messages of an entry, bytes of each; topics take turns."""
TOPICS = 8
SAMPLE_SECONDS = 10.0
WARM_UP_SECONDS = 5.0
FULL_SPEED_SECONDS = 10.0
TURN_SECONDS = 0.01
SHORTEST_VISIT, LONGEST_VISIT = 1.0, 15.0
"""Seconds that a client stays."""
WINDOW_ENTRIES = 500
PERMITS = 1000
BURST = 200
CATCH_UP_SECONDS = 120.0
PATIENCE_SECONDS = 0.05


class Sample(NamedTuple):
    """The daemon at one moment."""

    memory: float
    """MiB in use."""
    resident: float
    """MiB, with what is free in the heap."""
    heap: float
    """MiB of the C library's heap that are in use, a part of `memory`."""
    descriptors: float
    threads: float
    disk: float
    """MiB"""
    connections: float
    backlog: float
    """Messages."""
    published: float
    """Entries of raw clients, since the one before."""


class Bound(NamedTuple):
    """Growth over the last two thirds of a run that still counts as flat."""

    least: float
    share: float
    """Of the median, if that is more."""


BOUNDS = {
    "memory": Bound(16.0, 0.05),
    "descriptors": Bound(4.0, 0.05),
    "threads": Bound(0.5, 0.0),
    "disk": Bound(64.0, 0.10),
}
FREE_SHARE = 1.0
"""Free resident memory of the heap, as a share of what is in use of it, that is allowed."""

SHARED, FAILOVER = DURABLE = ("shared", "failover")
"""Subscriptions of every topic."""


class Soak:
    """The raw clients of a run; `rate` is entries a second of all, None as many as go."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.rate: float | None = None
        self.answered = 0
        self.acked: Counter[str] = Counter()
        """Entries, by durable subscription."""
        self.stopping = asyncio.Event()
        self._random = random.Random(seed)
        self._rings = [encode_ring(*shape) for shape in SHAPES]

    def work(self) -> "list[asyncio.Task[None]]":
        """Producers, consumers and readers of every topic."""
        kinds = [self._produce, self._share, self._share, self._take_over, self._read]
        return [
            asyncio.create_task(self._visits(kind, number))
            for number in range(TOPICS)
            for kind in kinds
        ]

    def stop(self) -> None:
        """No more publishing; consumers continue."""
        self.rate = 0.0

    def speed(self) -> int:
        """Entries that were published and reached every subscription, so far."""
        return min(self.answered, *(self.acked[name] for name in DURABLE))

    async def _visits(
        self, work: Callable[[Wire, int], Coroutine[Any, Any, None]], number: int
    ) -> None:
        """Come, stay for a while, leave with or without a word, and come again."""
        while not self.stopping.is_set():
            try:
                wire = await dial(self.port)
            except (Gone, OSError):
                await asyncio.sleep(PATIENCE_SECONDS)
                continue
            try:
                async with asyncio.timeout(self._random.uniform(SHORTEST_VISIT, LONGEST_VISIT)):
                    await work(wire, number)
            except (TimeoutError, Gone):
                if self._random.random() < 0.5:
                    wire.write(encode(pb.CommandCloseProducer(producer_id=1, request_id=99)))
                    wire.write(encode(pb.CommandCloseConsumer(consumer_id=1, request_id=99)))
            finally:
                wire.end("left")

    @staticmethod
    def _topic(number: int) -> str:
        return f"persistent://public/default/soak-{number}"

    async def _produce(self, wire: Wire, number: int) -> None:
        ring = self._rings[number % len(SHAPES)]
        sent = answered = 0
        began = time.monotonic()

        def receipt(*_: int) -> None:
            nonlocal answered
            answered += 1
            self.answered += 1

        wire.on_receipt = receipt
        await wire.ask(pb.CommandProducer(topic=self._topic(number), producer_id=1, request_id=0))
        rate, base = self.rate, 0
        while not wire.gone.done():
            if self.rate != rate:
                rate, base, began = self.rate, sent, time.monotonic()
            room = answered + WINDOW_ENTRIES - sent
            if rate is not None:
                room = min(room, base + int((time.monotonic() - began) * rate / TOPICS) - sent)
            if room > 0 and wire.writable:
                wire.write(b"".join([ring[(sent + i) % RING] for i in range(room)]))
                sent += room
            await asyncio.sleep(TURN_SECONDS)

    async def _share(self, wire: Wire, number: int) -> None:
        await self._consume(wire, number, SHARED, pb.CommandSubscribe.Shared)

    async def _take_over(self, wire: Wire, number: int) -> None:
        await self._consume(wire, number, FAILOVER, pb.CommandSubscribe.Failover)

    async def _read(self, wire: Wire, number: int) -> None:
        """Read on from the end, and be forgotten."""
        name = f"reader-{self._random.randrange(1 << 30)}"
        await self._consume(
            wire, number, name, pb.CommandSubscribe.Exclusive, durable=False,
            initialPosition=pb.CommandSubscribe.Latest,
        )  # fmt: skip

    async def _consume(
        self, wire: Wire, number: int, name: str, kind: pb.CommandSubscribe.SubType, **fields: Any
    ) -> None:
        cumulative = kind != pb.CommandSubscribe.Shared
        used = 0

        def messages(frames: list[Frame]) -> None:
            nonlocal used
            ids = []
            for _, buf, start, mid, entry in frames:
                header = decode_message(buf, start, mid)
                ids.append((header.ledger, header.entry, ()))
                metadata, _ = parse_metadata(entry[:128])
                used += metadata.num_messages_in_batch or 1
            if name in DURABLE:
                self.acked[name] += len(ids)
            if cumulative:
                wire.write(encode_ack(1, pb.CommandAck.Cumulative, ids[-1:]))
            else:
                wire.write(encode_ack(1, pb.CommandAck.Individual, ids))
            if used > PERMITS // 2:
                wire.write(encode_flow(1, used))
                used = 0

        wire.on_messages = messages
        await wire.ask(subscribe(self._topic(number), name, kind, **fields))
        wire.write(encode_flow(1, PERMITS))
        await asyncio.wait((wire.gone,))


def official_visits(service_url: str, stop: Any) -> None:
    """Official clients that come, publish, consume what they published, unsubscribe and leave."""
    chance = random.Random(0)
    while not stop.is_set():
        client = connect(service_url)
        topic = f"persistent://public/default/soak-official-{chance.randrange(TOPICS)}"
        consumer = client.subscribe(topic, f"visit-{chance.randrange(1 << 30)}")
        producer = client.create_producer(topic, batching_enabled=chance.random() < 0.5)
        for _ in range(BURST):
            producer.send_async(b"x" * chance.randrange(2000), _expect_ok)
        producer.flush()
        for _ in range(BURST):
            consumer.acknowledge(consumer.receive(timeout_millis=TIMEOUT_MS))
        consumer.unsubscribe()
        client.close()


def _expect_ok(result: pulsar.Result, _: pulsar.MessageId) -> None:
    assert result == pulsar.Result.Ok, result


# Samples --------------------------------------------------------------------------------------


FIGURES = (
    "pulsar_active_connections",
    "pulsar_broker_msg_backlog",
    "process_heap_used_bytes",
)


def take_sample(broker: RunningBroker, process: psutil.Process, published: int) -> Sample:
    """What the daemon has now; for a thread."""
    with urllib.request.urlopen(f"{broker.http_url}/metrics") as page:
        figures = {
            family.name: sum(sample.value for sample in family.samples)
            for family in text_string_to_metric_families(page.read().decode())
            if family.name in FIGURES
        }
    resident, outside = resident_bytes(process)
    # Only glibc tells what is in use; elsewhere all counts.
    heap = figures.get("process_heap_used_bytes", resident - outside)
    return Sample(
        memory=(outside + heap) / (1 << 20),
        resident=resident / (1 << 20),
        heap=heap / (1 << 20),
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        disk=sum(used_bytes(broker.data_dir)) / (1 << 20),
        connections=figures["pulsar_active_connections"],
        backlog=figures["pulsar_broker_msg_backlog"],
        published=published,
    )


def resident_bytes(process: psutil.Process) -> tuple[int, int]:
    """Resident memory of a process, all of it and outside of the C library's heap."""
    areas = {area.path: area.rss for area in process.memory_maps()}
    return sum(areas.values()), sum(areas.values()) - areas.get("[heap]", 0)


def left_over(broker: RunningBroker) -> list[str]:
    """What the daemon reports of each subscription that has a backlog; for a thread."""
    with urllib.request.urlopen(f"{broker.http_url}/metrics") as page:
        return [
            line
            for line in page.read().decode().splitlines()
            if line.startswith("pulsar_subscription_back_log{") and not line.endswith(" 0.0")
        ]


def used_bytes(directory: Path) -> Iterator[int]:
    """Bytes of each file on the disk; files may vanish meanwhile."""
    for path in directory.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        yield status.st_blocks * 512


def table(samples: list[tuple[float, Sample]]) -> str:
    """All samples."""
    lines = ["  min  " + "".join(f"{name:>12}" for name in Sample._fields)]
    for seconds, sample in samples:
        lines.append(f"{seconds / 60:5.1f}  " + "".join(f"{value:>12,.0f}" for value in sample))
    return "\n".join(lines)


def verdict(samples: list[tuple[float, Sample]]) -> tuple[str, bool]:
    """How much each figure grew over the last two thirds, and whether all of them are flat."""
    late = samples[len(samples) // 3 :]
    lines, flat = [], len(late) > 2
    for name, bound in BOUNDS.items():
        points = [(seconds, getattr(sample, name)) for seconds, sample in late]
        slope, _ = statistics.linear_regression(*zip(*points, strict=True))
        growth = slope * (points[-1][0] - points[0][0])
        median = statistics.median(value for _, value in points)
        allowed = max(bound.least, bound.share * median)
        good = growth <= allowed
        flat = flat and good
        lines.append(f"{name:<12} median {median:>8,.0f}, grew by {growth:>+8.1f} "
                     f"(at most {allowed:.1f}): {'flat' if good else 'GROWS'}")  # fmt: skip
    free = statistics.median(sample.resident - sample.memory for _, sample in late)
    allowed = FREE_SHARE * statistics.median(sample.heap for _, sample in late)
    flat = flat and free <= allowed
    lines.append(f"{'free heap':<12} median {free:>8,.0f} (at most {allowed:.0f}): "
                 f"{'good' if free <= allowed else 'TOO MUCH'}")  # fmt: skip
    return "\n".join(lines), flat


# A run ----------------------------------------------------------------------------------------


async def run(broker: RunningBroker, minutes: float) -> list[tuple[float, Sample]]:
    """Samples with the seconds since the begin; at the end everything must be consumed."""
    process = psutil.Process(broker.pid)
    soak = Soak(broker.port, seed=0)
    tasks = soak.work()
    await asyncio.wait(tasks, timeout=WARM_UP_SECONDS)
    before = soak.speed()
    await asyncio.wait(tasks, timeout=FULL_SPEED_SECONDS)
    rate = (soak.speed() - before) / FULL_SPEED_SECONDS / 2
    soak.stop()
    await caught_up(broker)
    soak.rate = rate
    click.echo(f"half speed: {soak.rate:,.0f} entries a second")
    samples: list[tuple[float, Sample]] = []
    began, before = time.monotonic(), soak.answered
    while (now := time.monotonic() - began) < minutes * 60:
        await asyncio.wait(tasks, timeout=SAMPLE_SECONDS - now % SAMPLE_SECONDS)
        for task in tasks:
            if task.done():
                task.result()
        published, before = soak.answered - before, soak.answered
        sample = await asyncio.to_thread(take_sample, broker, process, published)
        samples.append((time.monotonic() - began, sample))
        if sys.stdout.isatty():
            spent = (time.monotonic() - began) / 60
            line = f"{spent:.1f} of {minutes:.1f} min: {sample.memory:.0f} MiB in use"
            click.echo(f"\r\x1b[K{line}, {sample.disk:.0f} MiB on disk", nl=False)
    soak.stop()
    await caught_up(broker)
    soak.stopping.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return samples


async def caught_up(broker: RunningBroker) -> None:
    """Everything is consumed, or `CATCH_UP_SECONDS` are over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CATCH_UP_SECONDS):
            while await asyncio.to_thread(left_over, broker):
                await asyncio.sleep(PATIENCE_SECONDS)


@click.command()
@click.option("--minutes", default=30.0, show_default=True)
def main(minutes: float) -> None:
    """Publish at half speed with clients that come and go, and see whether anything grows."""
    directory = Path(tempfile.mkdtemp(prefix="magnetar-soak-"))
    broker = RunningBroker(directory / "data", **SETTINGS).start()
    stop = CONTEXT.Event()
    visitors = CONTEXT.Process(target=official_visits, args=(broker.service_url, stop))
    visitors.start()
    try:
        samples = uvloop.run(run(broker, minutes))
        alive = visitors.is_alive()
        stop.set()
        visitors.join()  # until its visit is over, there may be messages of it
        left = left_over(broker)
    finally:
        stop.set()
        visitors.join()
        broker.stop()
        defect = "Traceback" in broker.log
        shutil.rmtree(directory)
    text, flat = verdict(samples)
    click.echo(f"\n{table(samples)}\n\n{text}")
    for line in left:
        click.echo(f"not consumed: {line}")
    if not alive:
        click.echo("the official clients failed")
    if defect:
        click.echo("the broker met a defect")
    raise SystemExit(not (flat and alive and not left and not defect))


if __name__ == "__main__":
    main()
