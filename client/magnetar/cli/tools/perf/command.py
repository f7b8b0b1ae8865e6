"""The commands `magnetar perf produce` and `magnetar perf consume`."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import click

from magnetar.admin.settings import DEFAULT_URL as DEFAULT_ADMIN_URL
from magnetar.cli.tools.common import INTERRUPTED, refusing, run
from magnetar.cli.tools.perf.admin import SECONDS, durability_of, have_partitions
from magnetar.cli.tools.perf.consuming import Consuming
from magnetar.cli.tools.perf.measuring import Measuring
from magnetar.cli.tools.perf.producing import Load, Producing
from magnetar.cli.tools.target import Target, target_options
from magnetar.client import Client
from magnetar.consuming.options import INITIAL_POSITIONS, SUBSCRIPTION_TYPES
from magnetar.producing.batching import COMPRESSIONS, BatchLimits
from magnetar.producing.partition_producer import PartitionProducer

PENDING = 50_000


class Work(Protocol):
    """The work of a run, until it is cancelled or complete."""

    async def run(self) -> None: ...
    async def settle(self) -> None: ...


@click.group()
def perf() -> None:
    """Put load on a broker, and measure what it answers with."""


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of both commands."""
    for option in (
        refusing("-c", "--max-connections", why="a client has one connection to each broker"),
        refusing("-ioThreads", "--num-io-threads", why="a client has one thread"),
        refusing("-txn", "--txn-enable", is_flag=True, why="there are no transactions"),
        click.option("--histogram-file", metavar="FILE",
                     help="Write a log of the latencies, for the tools of HdrHistogram."),
        click.option("-i", "--stats-interval-seconds", "--interval", "interval_s", default=10.0,
                     type=click.FloatRange(0, min_open=True), show_default=True,
                     help="Seconds between two lines."),
        click.option("-time", "--test-duration", "duration_s", default=0.0,
                     type=click.FloatRange(0), help="Seconds to run; 0: no limit."),
        click.option("-m", "--num-messages", "messages", default=0, type=click.IntRange(0),
                     help="Messages after which to stop, of all together; 0: no limit."),
        click.option("-t", "--num-topic", "--num-topics", "topics", default=1,
                     type=click.IntRange(1), show_default=True,
                     help="Number of topics; of several, TOPIC is the beginning of the names."),
        click.option("--admin-url", envvar="MAGNETAR_ADMIN_URL", metavar="URL",
                     help=f"URL of the broker's HTTP port, which is asked for the durability of "
                     f"receipts; default {DEFAULT_ADMIN_URL}, or webServiceUrl of client.conf."),
        target_options,
    ):  # fmt: skip
        command = option(command)
    return command


@perf.command()
@click.argument("topic")
@_common
@click.option("-r", "--rate", default=100.0, type=click.FloatRange(0), show_default=True,
              help="Messages a second of all producers; 0: as fast as receipts come.")  # fmt: skip
@click.option("-s", "--size", default=1024, type=click.IntRange(0), show_default=True,
              help="Bytes of a message.")  # fmt: skip
@click.option("-n", "--num-producers", "producers", default=1, type=click.IntRange(1),
              show_default=True, help="Producers of each topic.")  # fmt: skip
@click.option("-o", "--max-outstanding", "outstanding", default=PENDING, type=click.IntRange(1),
              show_default=True, help="Messages without receipt, of each producer.")  # fmt: skip
@click.option("-np", "--partitions", type=click.IntRange(1), help="Create topics with that many.")
@click.option("-z", "--compression", default="none", show_default=True,
              type=click.Choice(list(COMPRESSIONS), case_sensitive=False))  # fmt: skip
@click.option("-f", "--payload-file", metavar="FILE", help="What to send as each message.")
@click.option("-b", "--batch-time-window", "delay_ms", default=1.0, type=click.FloatRange(0),
              show_default=True, help="Milliseconds that a message waits for others.")  # fmt: skip
@click.option("-bm", "--batch-max-messages", "batch", default=1000, type=click.IntRange(1),
              show_default=True, help="Messages of a batch at most.")  # fmt: skip
@click.option("-bb", "--batch-max-bytes", "batch_bytes", default=128 * 1024,
              type=click.IntRange(1), show_default=True, help="Its bytes at most.")  # fmt: skip
@click.option("-db", "--disable-batching", is_flag=True, help="Store each message by itself.")
def produce(
    topic: str,
    broker: Target,
    admin_url: str | None,
    topics: int,
    messages: int,
    duration_s: float,
    interval_s: float,
    histogram_file: str | None,
    rate: float,
    size: int,
    producers: int,
    outstanding: int,
    partitions: int | None,
    compression: str,
    payload_file: str | None,
    delay_ms: float,
    batch: int,
    batch_bytes: int,
    disable_batching: bool,
) -> None:
    """Publish to TOPIC at a rate, and measure how long receipts take.

    With a rate, latencies count from the time at which a message was due.
    """
    payload = _payload(payload_file, size)
    count = 1 if disable_batching else max(1, min(batch, batch_bytes // max(1, len(payload))))
    names = _names(topic, topics)
    admin = broker.admin(admin_url, SECONDS)
    header = {
        "broker": broker.url,
        "durability": durability_of(admin),
        "topics": topics,
        "producers": topics * producers,
        "rate": rate,
        "size": len(payload),
        "batch": count,
        "compression": compression.lower(),
    }
    measuring = Measuring("produced", header, interval_s, histogram_file)

    async def opened(client: Client) -> Work:
        if partitions is not None:
            for name in names:
                await asyncio.to_thread(have_partitions, admin, name, partitions)
        options: dict[str, Any] = {
            "compression": compression.lower(),
            "batching": BatchLimits(count, 1 << 30, delay_ms),
            "max_pending_messages": max(outstanding, count),
            "max_pending_bytes": 256 << 20,
        }
        made: list[PartitionProducer] = []
        for name in names:
            for _ in range(producers):
                made += (await client.producer(name, **options)).partitions
        return Producing(made, Load(payload, rate, messages, count, delay_ms / 1000), measuring)

    _measure(broker, duration_s, measuring, opened)


@perf.command()
@click.argument("topic")
@_common
@click.option("-r", "--rate", default=0.0, type=click.FloatRange(0),
              help="Messages a second of all consumers; 0: no limit.")  # fmt: skip
@click.option("-n", "--num-consumers", "consumers", default=1, type=click.IntRange(1),
              show_default=True, help="Consumers of each subscription.")  # fmt: skip
@click.option("-ns", "--num-subscriptions", "subscriptions", default=1, type=click.IntRange(1),
              show_default=True, help="Subscriptions of each topic.")  # fmt: skip
@click.option("-ss", "--subscriptions", "subscription", default="sub", show_default=True,
              help="Name of the subscription; of several its beginning.")  # fmt: skip
@click.option("-st", "--subscription-type", "kind", default="exclusive", show_default=True,
              type=click.Choice(list(SUBSCRIPTION_TYPES), case_sensitive=False))  # fmt: skip
@click.option("-sp", "--subscription-position", "position", default="latest", show_default=True,
              type=click.Choice(list(INITIAL_POSITIONS), case_sensitive=False),
              help="Where a new subscription starts.")  # fmt: skip
@click.option("-q", "--receiver-queue-size", "queue", default=1000, type=click.IntRange(1),
              show_default=True, help="Messages that a consumer may be sent ahead.")  # fmt: skip
def consume(
    topic: str,
    broker: Target,
    admin_url: str | None,
    topics: int,
    messages: int,
    duration_s: float,
    interval_s: float,
    histogram_file: str | None,
    rate: float,
    consumers: int,
    subscriptions: int,
    subscription: str,
    kind: str,
    position: str,
    queue: int,
) -> None:
    """Receive from TOPIC and acknowledge, and measure how old messages are when they come.

    That is the time since they were published, in milliseconds, by the clocks of both machines.
    """
    names = _names(topic, topics)
    admin = broker.admin(admin_url, SECONDS)
    header = {
        "broker": broker.url,
        "durability": durability_of(admin),
        "topics": topics,
        "consumers": topics * subscriptions * consumers,
        "type": kind.lower(),
    }
    measuring = Measuring("consumed", header, interval_s, histogram_file)

    async def opened(client: Client) -> Work:
        made = [
            await client.entry_consumer(
                name, text, type=kind.lower(), initial_position=position.lower(), queue_size=queue
            )
            for name in names
            for text in _names(subscription, subscriptions)
            for _ in range(consumers)
        ]
        return Consuming(made, rate, messages, measuring)

    _measure(broker, duration_s, measuring, opened)


def _measure(
    broker: Target,
    duration_s: float,
    measuring: Measuring,
    opened: Callable[[Client], Any],
) -> None:
    """Run until the work is complete, the time is over or the user interrupts; then sum up."""
    interrupted = False

    async def work() -> None:
        nonlocal interrupted
        async with broker.connect() as client:
            what: Work = await opened(client)
            measuring.begin()
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
            running, stopping = asyncio.create_task(what.run()), asyncio.create_task(stop.wait())
            showing = asyncio.create_task(measuring.show())
            await asyncio.wait(
                (running, stopping, showing),
                timeout=duration_s or None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            interrupted = stop.is_set()
            for task in (running, stopping, showing):
                task.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await running
                await what.settle()
            finally:
                await asyncio.gather(stopping, showing, return_exceptions=True)
                measuring.end()

    run(work())
    if measuring.errors:
        raise click.ClickException(
            f"{measuring.errors} messages failed; the first one: {measuring.first_error}"
        )
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _payload(file: str | None, size: int) -> bytes:
    """Return the content of the file, or random bytes, which cannot be compressed."""
    if file is None:
        return os.urandom(size)
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.BadParameter(
            f"{file}: {error.strerror}", param_hint="--payload-file"
        ) from error


def _names(text: str, count: int) -> list[str]:
    return [text] if count == 1 else [f"{text}-{number}" for number in range(count)]
