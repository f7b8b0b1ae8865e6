"""Benchmark of publishers beside scrapes of the metrics, beside an attack, or beside a process that
only uses a processor, which shows how much of the effect of the others is due to that.

`python -m bench.beside KIND PORT` is the other process, until it is ended.
"""

import asyncio
import subprocess
import sys
import time
import urllib.request
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from statistics import quantiles

from bench.connection import Command, Connection, connected, open_producer
from bench.frames import Shape, encode_load
from bench.many_topics import CONNECTIONS
from bench.publishing import PacedPublisher, open_each
from bench.scenarios import Trial
from bench.usage import Measures, cpu_seconds
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

PER_SECOND, BUSY_PER_SECOND, BUSY_TOPICS = 400, 1000, 1000
"""The rate of the publisher that is measured, and that of another one, over many topics."""
SCRAPE_SECONDS = 0.7
SILENT_PER_SECOND, LOOKUPS_PER_SECOND, TURNS_PER_SECOND = 200, 1000, 50
BEGIN_SECONDS = 3.0
"""The time in which scrapes and attacks get under way."""
Times = tuple[float, float, float]
"""The median and the 99th percentile of the times until receipts, and the server's CPU seconds."""


def beside(kind: str, trial: Trial, shape: Shape, topics: int) -> Measures:
    """Measure the time until receipts, first alone, with this many topics loaded."""
    names = [f"{trial.topic}-{number}" for number in range(trial.scaled(topics))]
    port = trial.server.http_port if kind == "scrapes" else trial.server.port

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            connect = partial(connected, trial.server.port)
            for at in range(CONNECTIONS):
                await open_each(await stack.enter_async_context(connect()), names[at::CONNECTIONS])
            busy = await stack.enter_async_context(connect())
            await open_each(busy, [f"{trial.topic}-busy-{n}" for n in range(BUSY_TOPICS)])
            load = encode_load(replace(shape, topics=BUSY_TOPICS), int(trial.seconds * 4e3), 1)
            other = asyncio.ensure_future(PacedPublisher(busy, load, BUSY_PER_SECOND).publish())
            stack.callback(other.cancel)
            alone = await _receipts(trial, await stack.enter_async_context(connect()), shape)
            command = (sys.executable, "-m", "bench.beside", kind, str(port))
            stack.callback(subprocess.Popen(command).kill)
            await asyncio.sleep(BEGIN_SECONDS)
            then = await _receipts(trial, await stack.enter_async_context(connect()), shape)
        return {"alone_p99_ms": alone[1], "p50_ms": then[0], "p99_ms": then[1],
                "of_alone": then[1] / alone[1], "more_cpu": then[2] / alone[2]}  # fmt: skip

    return trial.run(work)


async def _receipts(trial: Trial, connection: Connection, shape: Shape) -> Times:
    load, at = encode_load(shape, int(trial.seconds * PER_SECOND), 1), list[float]()
    publisher = PacedPublisher(connection, load, PER_SECOND)
    count = connection.on_receipts

    def received(number: int, last: Command) -> None:
        at.extend([time.perf_counter()] * number)
        count(number, last)

    connection.on_receipts = received
    await open_producer(connection, f"{trial.topic}-measured")
    used = cpu_seconds(trial.server.pid)
    await publisher.publish()
    used = cpu_seconds(trial.server.pid) - used
    cuts = quantiles([(b - a) * 1e3 for a, b in zip(publisher.sent_at, at, strict=True)], n=100)
    return cuts[49], cuts[98], used


def scrape(port: int) -> None:
    """Scrape the metrics again and again."""
    while True:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics/").read()
        time.sleep(SCRAPE_SECONDS)


async def attack(port: int) -> None:
    """Open connections that send nothing, and ask on one that reads no answers."""
    ask = encode(pb.CommandLookupTopic(topic="persistent://public/default/t", request_id=1))
    (_, asking), kept = await asyncio.open_connection("127.0.0.1", port), []
    asking.write(encode(pb.CommandConnect(client_version="attack", protocol_version=19)))
    while True:
        asking.write(ask * (LOOKUPS_PER_SECOND // TURNS_PER_SECOND))
        for _ in range(SILENT_PER_SECOND // TURNS_PER_SECOND):
            with suppress(OSError):
                kept.append(await asyncio.open_connection("127.0.0.1", port))
        kept = [one for one in kept if not one[1].is_closing()]
        await asyncio.sleep(1 / TURNS_PER_SECOND)


if __name__ == "__main__":
    if sys.argv[1] == "scrapes":
        scrape(int(sys.argv[2]))
    elif sys.argv[1] == "attack":
        asyncio.run(attack(int(sys.argv[2])))
    while True:  # "spin"
        pass
