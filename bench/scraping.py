"""Benchmark of scrapes of the metrics: how long they take, and what they cost who publishes.

`python -m bench.scraping PORT` is the client, in a process of its own.  It prints a line when it is
under way, scrapes until SIGTERM, and then prints the seconds and the bytes of each page.
"""

import asyncio
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http.client import HTTPConnection

import click

from bench.beside import beside
from bench.connection import LoadError, connected, look_up, open_producer
from bench.frames import Shape
from bench.many_topics import CONNECTIONS, OPENING_SECONDS, publish_one
from bench.scenarios import Trial, even_load
from bench.servers import Magnetar
from bench.usage import Measures
from magnetar_proto import PulsarApi_pb2 as pb

PAUSE_SECONDS = 1.0
"""Between two scrapes: Prometheus waits longer, so its share of the time is less."""
BUSY_TOPICS = 1000
"""How many of the topics get a message each second or so."""
TIMEOUT_SECONDS = 60.0
Scrape = tuple[float, int]
"""Seconds and bytes."""


def scrapes(
    trial: Trial, shape: Shape, entries: int, per_second: int, topics: int, workers: int = 1
) -> Measures:
    """An even load, first without and then with scrapes, while so many other topics are loaded.

    Each of these has a producer, and a subscription with a consumer and a backlog.  Some get
    messages all the time.
    """
    server = trial.server
    assert isinstance(server, Magnetar)
    server.configure({"magnetarWorkers": str(workers)})
    server.restart()
    load = trial.load(shape, entries, write_entries=1)
    count = max(50, int(topics * trial.scale))
    busy = max(50, int(BUSY_TOPICS * trial.scale))

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            await _open(trial, stack, [f"{trial.topic}-{number}" for number in range(count)])
            await stack.enter_async_context(beside("topics", server.port, trial.topic, busy))
            owner = None
            if workers > 1:
                asking = await stack.enter_async_context(connected(server.port))
                owner = await look_up(asking, trial.topic)
            connect = partial(connected, server.port, owner)
            quiet = await even_load(trial, load, per_second, connect)
            async with _scraping(server.http_port) as made:
                measures = await even_load(trial, load, per_second, connect)
        seconds = [taken for taken, _ in made]
        return measures | {
            "quiet_p99_ms": quiet["p99_ms"],
            "of_quiet": measures["p99_ms"] / quiet["p99_ms"],
            "scrape_ms": statistics.median(seconds) * 1000,
            "slowest_scrape_ms": max(seconds) * 1000,
            "scrape_cpu_ms": (
                (measures["cpu_us"] - quiet["cpu_us"]) * load.entries / 1000 / len(made)
            ),
            "page_mb": max(size for _, size in made) / 1e6,
        }

    return trial.run(work, stall_seconds=OPENING_SECONDS)


async def _open(trial: Trial, stack: AsyncExitStack, names: list[str]) -> None:
    """A producer and a subscription on each topic, and a message that is not acknowledged."""

    async def some(number: int) -> None:
        connection = await stack.enter_async_context(connected(trial.server.port))
        for producer_id, name in enumerate(names[number::CONNECTIONS], 1):
            await open_producer(connection, name, producer_id)
            await connection.call(
                pb.CommandSubscribe(
                    topic=name,
                    subscription="bench",
                    subType=pb.CommandSubscribe.Shared,
                    consumer_id=producer_id,
                    request_id=connection.request_id(),
                    initialPosition=pb.CommandSubscribe.Earliest,
                )
            )
            await publish_one(connection, producer_id)

    await asyncio.gather(*map(some, range(CONNECTIONS)))


@asynccontextmanager
async def _scraping(port: int) -> AsyncIterator[list[Scrape]]:
    """Have another process scrape meanwhile; what it made is known afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.scraping", str(port)), stdout=asyncio.subprocess.PIPE
    )
    made: list[Scrape] = []
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise LoadError("the scrapes did not begin")
        yield made
    finally:
        if process.returncode is None:
            process.terminate()
        printed = await process.stdout.read()
        await process.wait()
    made += [(seconds, size) for seconds, size in json.loads(printed or b"[]")]
    if not made:
        raise LoadError("no page was made")


def scrape(port: int) -> Scrape:
    """One page; LoadError if there was none."""
    web = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        began = time.perf_counter()
        web.request("GET", "/metrics/")
        answer = web.getresponse()
        size = 0
        while piece := answer.read(1 << 20):
            size += len(piece)
        if answer.status != 200:
            raise LoadError(f"a scrape was answered with {answer.status}")
        return time.perf_counter() - began, size
    finally:
        web.close()


@click.command()
@click.argument("port", type=int)
def main(port: int) -> None:
    """Scrape until SIGTERM."""
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    made = [scrape(port)]
    print("under way", flush=True)
    while not end.wait(PAUSE_SECONDS):
        made.append(scrape(port))
    print(json.dumps(made))


if __name__ == "__main__":
    main()
