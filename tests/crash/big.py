"""How long a start takes after a kill when there is much data, and whether all of it is there.

`python -m crash.big --gigabytes 10`, from the tests directory.  Fills topics, kills the broker
while it publishes, and measures from the start of the process.
"""

import asyncio
import itertools
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

import click
import psutil
import uvloop

from crash.raw_load import subscribe
from crash.wire import Gone, Wire, dial
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.deliveries import decode_message, encode_flow
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import Frame
from magnetar_proto.sends import encode_send
from running_broker import RunningBroker

SHAPES = {"batches": (100, 1024), "large": (1, 64 << 10)}
"""Messages of an entry, bytes of each."""
RING = 64
"""Different entries; they are sent over and over in this order."""
WINDOW_BYTES = 16 << 20
LOAD_SECONDS = 3.0
"""How long publishing continues, once there is enough, before the kill."""
PERMITS = 5000
MARK_SECONDS = 2.0
HEALTH = "/admin/v2/brokers/health"


class Filler:
    """Publishes the ring over one connection."""

    def __init__(self, topic: str, frames: list[bytes], window: int) -> None:
        self.topic = topic
        self.sent = self.answered = 0
        self._frames = frames
        self._window = window

    async def work(self, port: int) -> None:
        """Until the broker is killed."""
        wire = self._wire = await dial(port)
        await wire.ask(subscribe(self.topic, "audit", pb.CommandSubscribe.Shared))
        await wire.ask(pb.CommandProducer(topic=self.topic, producer_id=1, request_id=0))
        wire.on_receipt = self._receipt
        wire.on_writable = self._fill
        self._fill()
        await asyncio.wait((wire.gone,))

    def _fill(self) -> None:
        while self._wire.writable and self.sent < self.answered + self._window:
            self._wire.write(self._frames[self.sent % RING])
            self.sent += 1

    def _receipt(self, *_: int) -> None:
        self.answered += 1
        self._fill()


class Counter:
    """Reads a topic to its end and counts; entries must be whole and in order."""

    def __init__(self) -> None:
        self.entries = 0
        self.problems: list[str] = []
        self.first_at = 0.0

    async def read(self, port: int, topic: str) -> None:
        wire = await dial(port)
        self._done = asyncio.get_running_loop().create_future()
        wire.on_messages = lambda frames: self._take(wire, frames)
        await wire.ask(subscribe(topic, "count", pb.CommandSubscribe.Exclusive, durable=False))
        last = await wire.ask(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))
        self._last = last.last_message_id.ledgerId, last.last_message_id.entryId
        wire.write(encode_flow(1, PERMITS))
        await asyncio.wait((self._done, wire.gone), return_when=asyncio.FIRST_COMPLETED)
        if not self._done.done():
            self.problems.append(f"{topic} could not be read beyond {self.entries}: {wire.why}")
        wire.end("done")

    def _take(self, wire: Wire, frames: list[Frame]) -> None:
        self.first_at = self.first_at or time.monotonic()
        permits = 0
        for _, _, _, _, entry in frames:
            metadata, _ = parse_metadata(entry)
            if metadata.sequence_id != self.entries % RING:
                self.problems.append(f"entry {self.entries} is {metadata.sequence_id} of {RING}")
            if not verify_checksum(entry, 0, len(entry)):
                self.problems.append(f"entry {self.entries} is damaged")
            self.entries += 1
            permits += metadata.num_messages_in_batch or 1
        wire.write(encode_flow(1, permits))
        header = decode_message(*frames[-1][1:4])
        if (header.ledger, header.entry) >= self._last and not self._done.done():
            self._done.set_result(None)


def encode_ring(messages: int, size: int) -> list[bytes]:
    """SEND frames that contain their place in the ring."""
    payload = bytes(range(256)) * (size // 256)
    if messages > 1:
        payload = encode_batch([(pb.SingleMessageMetadata(), payload)] * messages)
    frames = []
    for number in range(RING):
        metadata = pb.MessageMetadata(producer_name="big", sequence_id=number, publish_time=1)
        if messages > 1:
            metadata.num_messages_in_batch = messages
        frames.append(encode_send(1, number, messages, metadata.SerializeToString(), payload))
    return frames


async def fill(broker: RunningBroker, fillers: list[Filler], size: int, wanted: int) -> float:
    """Publish so many bytes and then some, kill the broker; bytes a second until it was enough."""
    began = time.monotonic()
    tasks = [asyncio.create_task(filler.work(broker.port)) for filler in fillers]
    with click.progressbar(length=wanted, label="filling") as bar:
        done = 0
        while done < wanted:
            await asyncio.wait(tasks, timeout=0.5)
            for task in tasks:
                if task.done():
                    task.result()
                    raise Gone("the broker ended a connection")
            now = size * sum(filler.answered for filler in fillers)
            bar.update(min(now, wanted) - min(done, wanted))
            done = now
    rate = done / (time.monotonic() - began)
    await asyncio.wait(tasks, timeout=LOAD_SECONDS)
    broker.kill()
    await asyncio.gather(*tasks)
    return rate


async def compare(broker: RunningBroker, fillers: list[Filler]) -> tuple[float, list[str]]:
    """When the first message came, and what is wrong with the topics."""
    problems = []
    first_at = 0.0
    for filler in fillers:
        counter = Counter()
        await counter.read(broker.port, filler.topic)
        first_at = first_at or counter.first_at
        problems += counter.problems[:10]
        if not filler.answered <= counter.entries <= filler.sent:
            problems.append(
                f"{filler.topic} has {counter.entries} entries; "
                f"{filler.answered} were confirmed and {filler.sent} sent"
            )
    return first_at, problems


@click.command()
@click.option("--gigabytes", default=10.0, show_default=True)
@click.option("--entries", type=click.Choice(list(SHAPES)), default="batches", show_default=True)
@click.option("--topics", default=1, show_default=True)
def main(gigabytes: float, entries: str, topics: int) -> None:
    """Fill a broker, kill it under load, and measure the next start."""
    directory = Path(tempfile.mkdtemp(prefix="magnetar-big-"))
    broker = RunningBroker(directory / "data").start()
    try:
        problems = run(broker, gigabytes, SHAPES[entries], topics)
    finally:
        broker.kill()
        shutil.rmtree(directory)
    raise SystemExit(bool(problems))


def run(broker: RunningBroker, gigabytes: float, shape: tuple[int, int], topics: int) -> list[str]:
    """All of it; what is wrong."""
    frames = encode_ring(*shape)
    window = max(4, WINDOW_BYTES // topics // len(frames[0]))
    fillers = [
        Filler(f"persistent://public/default/big-{number}", frames, window)
        for number in range(topics)
    ]
    rate = uvloop.run(fill(broker, fillers, len(frames[0]), int(gigabytes * 1e9)))
    began = time.monotonic()
    broker.start()
    with urllib.request.urlopen(broker.http_url + HEALTH) as answer:
        answer.read()
    healthy = time.monotonic() - began
    process = psutil.Process(broker.pid)
    cpu, memory = process.cpu_times(), process.memory_info().rss
    first_at, problems = uvloop.run(compare(broker, fillers))
    if healthy > MARK_SECONDS:
        problems.append(f"healthy after {healthy:.2f} s: wanted are {MARK_SECONDS} s")
    entries = sum(filler.answered for filler in fillers)
    for line in itertools.chain(
        [
            f"{entries:,} entries confirmed, {entries * len(frames[0]) / 1e9:.1f} GB "
            f"in {topics} topics, {rate / 1e6:.0f} MB/s",
            f"healthy after      {healthy:6.2f} s  (CPU {cpu.user + cpu.system:.2f} s, "
            f"{memory >> 20} MiB)",
            f"first delivery at  {first_at - began:6.2f} s",
        ],
        problems or ["all is there, in order"],
    ):
        click.echo(line)
    return problems


if __name__ == "__main__":
    main()
