"""The commands `magnetar produce` and `magnetar consume`."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any

import click

from magnetar.batching import COMPRESSIONS
from magnetar.client import INITIAL_POSITIONS, SUBSCRIPTION_TYPES, connect
from magnetar.consumer import Consumer
from magnetar.errors import MagnetarError, OperationTimeout
from magnetar.messages import Message, Outgoing
from magnetar.partition_consumer import FAIL, ON_UNREADABLE
from magnetar_proto.errors import InvalidTopicName

DEFAULT_URL = "pulsar://localhost:6650"
CHUNK = 1000
"""Messages that are sent, or received, at once."""
STDIN_BYTES = 64 * 1024

_url = click.option(
    "--url", default=DEFAULT_URL, envvar="MAGNETAR_URL", show_default=True, help="Service URL."
)
_timeout = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=10.0,
    show_default=True, help="Time limit of a request to the broker, in seconds.",
)  # fmt: skip


@click.command()
@click.argument("topic")
@click.argument("messages", nargs=-1)
@_url
@_timeout
@click.option("--key", help="Key of every message.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Property of every message; repeatable.",
)
@click.option("--count", type=click.IntRange(1), help="Number of messages to generate and send.")
@click.option(
    "--size",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Size of a generated message, in bytes.",
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), help="Maximum number of messages a second."
)
@click.option("--compression", type=click.Choice(list(COMPRESSIONS)), default="none")
def produce(
    topic: str,
    messages: tuple[str, ...],
    url: str,
    timeout_s: float,
    key: str | None,
    properties: tuple[str, ...],
    count: int | None,
    size: int,
    rate: float | None,
    compression: str,
) -> None:
    """Send MESSAGES, or with --count generated ones, or else the lines of standard input.

    Exits when the broker has stored all of them.
    """
    if messages and count is not None:
        raise click.UsageError("give either messages or --count")
    described = dict(_property(text) for text in properties)

    def describe(values: Iterable[bytes]) -> list[bytes | Outgoing]:
        return [Outgoing(value, key=key, properties=described) for value in values]

    async def run() -> None:
        started_s = time.monotonic()
        sent = 0
        # Ten chunks a second keep the rate; without one, chunks are as large as they may be.
        size_of_chunk = CHUNK if rate is None else max(1, min(CHUNK, round(rate / 10)))
        async with connect(url, operation_timeout_s=timeout_s) as client:
            producer = await client.producer(topic, compression=compression)
            async for values in _chunks(_values(messages, count, size), size_of_chunk):
                await producer.send_batch(describe(values))
                sent += len(values)
                if rate is not None:
                    await asyncio.sleep(max(0.0, started_s + sent / rate - time.monotonic()))
        elapsed_s = time.monotonic() - started_s
        click.echo(
            f"{_number_of(sent, 'message', 'messages')} stored in {elapsed_s:.2f} s", err=True
        )

    _run(run())


def _values(messages: tuple[str, ...], count: int | None, size: int) -> Iterator[bytes] | None:
    """The messages to send; None for the lines of standard input."""
    if count is not None:
        return (b"%0*d" % (size, index) if size else b"" for index in range(count))
    return (message.encode() for message in messages) if messages else None


async def _chunks(values: Iterator[bytes] | None, size: int) -> AsyncIterator[list[bytes]]:
    if values is not None:
        while chunk := list(islice(values, size)):
            yield chunk
        return
    async for lines in _stdin_lines():
        for first in range(0, len(lines), size):
            yield lines[first : first + size]


async def _stdin_lines() -> AsyncIterator[list[bytes]]:
    """The lines of standard input as they come, without their ends."""
    rest = b""
    while data := await _read_stdin():
        *lines, rest = (rest + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


async def _read_stdin() -> bytes:
    """What can be read, without blocking the loop; b"" at the end."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return os.read(descriptor, STDIN_BYTES)  # a regular file: it is never waited for
    try:
        await ready.wait()
        return os.read(descriptor, STDIN_BYTES)
    finally:
        loop.remove_reader(descriptor)


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


@click.command()
@click.argument("topic")
@_url
@_timeout
@click.option("--subscription", default="magnetar-consume", show_default=True)
@click.option("--type", "kind", type=click.Choice(list(SUBSCRIPTION_TYPES)), default="exclusive")
@click.option("--position", type=click.Choice(list(INITIAL_POSITIONS)), default="earliest",
              show_default=True, help="Where a new subscription starts.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), help="Number of messages after which to stop.")
@click.option("--follow", is_flag=True, help="Wait for more messages until interrupted.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0, min_open=True), default=2.0, show_default=True,
    help="Without --follow: seconds without a message after which to stop.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--on-unreadable", type=click.Choice(ON_UNREADABLE), default=FAIL, show_default=True,
              help="What to do with an entry that cannot be decoded: exit with an error, skip it, "
              "or skip it and acknowledge it.")  # fmt: skip
def consume(
    topic: str,
    url: str,
    timeout_s: float,
    subscription: str,
    kind: str,
    position: str,
    count: int | None,
    follow: bool,
    wait_s: float,
    as_json: bool,
    on_unreadable: str,
) -> None:
    """Receive, print and acknowledge messages."""
    form = _json_line if as_json else _text_line

    async def run() -> None:
        async with connect(url, operation_timeout_s=timeout_s) as client:
            consumer = await client.subscribe(
                topic,
                subscription,
                type=kind,
                initial_position=position,
                on_unreadable=on_unreadable,
            )
            shown = 0
            async for batch in _batches(consumer, count, None if follow else wait_s):
                for message in batch:
                    click.echo(form(message))
                consumer.ack(batch)
                shown += len(batch)
            outcome = _number_of(shown, "message", "messages")
            if consumer.unreadable:
                outcome += ", "
                outcome += _number_of(consumer.unreadable, "unreadable entry", "unreadable entries")
            click.echo(outcome, err=True)

    _run(run())


async def _batches(
    consumer: Consumer, count: int | None, wait_s: float | None
) -> AsyncIterator[list[Message]]:
    left = count
    while left is None or left > 0:
        try:
            batch = await consumer.receive_batch(
                CHUNK if left is None else min(left, CHUNK), wait_s
            )
        except OperationTimeout:
            return
        if left is not None:
            left -= len(batch)
        yield batch


def _number_of(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _text_line(message: Message) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(message.publish_time_ms / 1000))
    key = f" key={message.key!r}" if message.key is not None else ""
    properties = "".join(f" {name}={text}" for name, text in message.properties.items())
    identity = f"{message.id.ledger}:{message.id.entry}"
    if message.batch_index >= 0:
        identity += f":{message.batch_index}"
    return f"{moment} {identity:<14}{key}{properties} {message.value.decode(errors='replace')}"


def _json_line(message: Message) -> str:
    try:
        value = {"value": message.value.decode()}
    except UnicodeDecodeError:
        value = {"value_hex": message.value.hex()}
    key = message.key
    return json.dumps(
        {
            **value,
            "key": key.hex() if isinstance(key, bytes) else key,
            "properties": message.properties,
            "topic": message.topic,
            "ledger": message.id.ledger,
            "entry": message.id.entry,
            "batch_index": message.batch_index,
            "publish_time_ms": message.publish_time_ms,
            "event_time_ms": message.event_time_ms,
            "producer": message.producer_name,
            "redelivery_count": message.redelivery_count,
        },
        ensure_ascii=False,
    )


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run it; an error becomes one line on standard error instead of a traceback."""
    try:
        asyncio.run(work)
    except (MagnetarError, InvalidTopicName, ValueError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None
