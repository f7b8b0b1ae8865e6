"""`python -m bench.beside LOAD`: load beside a measurement, in a process of its own.

It prints a line when it is under way, goes on until SIGTERM, and then prints how many messages it
sent or received.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click
import uvloop

from bench.connection import LoadError, connected, open_consumer
from bench.consuming import Receiver
from bench.frames import Shape, encode_load
from bench.publishing import PacedPublisher, open_all

SIZE = 100
PER_SECOND = 1000
STALLED_SECONDS = 2.0
"""A reader that gets nothing for so long does not catch up."""
LONGEST_SECONDS = 120
"""A measurement beside which something else goes on is over by then."""


@dataclass
class Beside:
    """What was done beside a measurement, known when it has ended."""

    messages: int = 0
    """Entries, if they are batches."""
    seconds: float = 0.0
    """How much of the measurement's time it took, where that is not all of it."""


@asynccontextmanager
async def beside(
    load: str, port: int, topic: str, count: int, batch: int = 1
) -> AsyncIterator[Beside]:
    """Have another process load a server meanwhile; LoadError if it ended early or did nothing.

    `count` is the number of topics, or of the backlog's entries of `batch` messages each.
    """
    options = ["--port", str(port), "--topic", topic]
    options += ["--count", str(count), "--batch", str(batch)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.beside", load, *options), stdout=asyncio.subprocess.PIPE
    )
    done = Beside()
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise LoadError(f"the load beside, {load}, did not begin")
        yield done
        if process.returncode is not None:
            raise LoadError(f"the load beside, {load}, ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.terminate()
        printed = await process.stdout.read()
        await process.wait()
    done.messages = int(printed or 0)
    if not done.messages:
        raise LoadError(f"the load beside, {load}, did nothing")


async def publish_to_topics(
    port: int, topic: str, count: int, batch: int, end: asyncio.Event
) -> int:
    """An even load over so many topics in turn."""
    shape = Shape(SIZE, batch=batch, topics=count)
    load = encode_load(shape, PER_SECOND * LONGEST_SECONDS, write_entries=1)
    async with connected(port) as connection:
        await open_all(connection, topic, shape)
        publisher = PacedPublisher(connection, load, PER_SECOND)
        publishing = asyncio.ensure_future(publisher.publish())
        print("under way", flush=True)
        ending = asyncio.ensure_future(end.wait())
        await asyncio.wait({publishing, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if publishing.done():
            await publishing  # which may have failed
        publishing.cancel()
        return len(publisher.sent_at)


async def read_backlog(port: int, topic: str, count: int, batch: int, end: asyncio.Event) -> int:
    """All entries of a topic, in subscriptions one after the other; LoadError if one stalled."""
    received = number = 0
    while not end.is_set():
        number += 1
        async with connected(port) as connection:
            await open_consumer(connection, topic, f"again-{number}")
            receiver, began = Receiver(connection, batch), time.perf_counter()
            if number == 1:
                print("under way", flush=True)
            reading = asyncio.ensure_future(receiver.receive(count, LONGEST_SECONDS))
            ending = asyncio.ensure_future(end.wait())
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if reading.done():
                await reading  # it may have failed
            reading.cancel()
            received += receiver.entries
            last, _ = receiver.arrivals[-1] if receiver.arrivals else (began, 0)
            if time.perf_counter() - last > STALLED_SECONDS:
                raise LoadError(f"the reader of {topic} got {receiver.entries} entries, then none")
    return received


LOADS = {"topics": publish_to_topics, "backlog": read_backlog}


@click.command()
@click.argument("load", type=click.Choice(list(LOADS)))
@click.option("--port", type=int, required=True)
@click.option("--topic", required=True)
@click.option("--count", type=int, required=True, help="Topics, or entries of the backlog.")
@click.option("--batch", type=int, required=True, help="Messages of an entry.")
def main(load: str, port: int, topic: str, count: int, batch: int) -> None:
    """Load a server until SIGTERM."""

    async def run() -> int:
        end = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
        return await LOADS[load](port, topic, count, batch, end)

    print(uvloop.run(run()))


if __name__ == "__main__":
    main()
