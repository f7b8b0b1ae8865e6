"""The command `magnetar produce`."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain, islice, repeat
from pathlib import Path

import click

from magnetar.cli.tools.common import (
    named_value,
    number_of,
    refusing,
    run,
)
from magnetar.cli.tools.schema_text import schema_from_text
from magnetar.cli.tools.stdin import stdin_lines
from magnetar.cli.tools.target import Target, target_options
from magnetar.messages import Outgoing
from magnetar.producing.batching import BATCHED, COMPRESSIONS
from magnetar.schema.base import Encoded

CHUNK = 1000
"""The number of messages that are sent at once."""


@click.command()
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[MESSAGES]...")
@target_options
@click.option("-m", "--messages", "listed", multiple=True, metavar="TEXT,...",
              help="Messages to send, separated by commas (see -s); repeatable.")  # fmt: skip
@click.option("-s", "--separator", default=",", show_default=True,
              help="What separates the messages of -m; '' for no separation.")  # fmt: skip
@click.option("-f", "--files", multiple=True, metavar="FILE,...",
              help="Files to send, each as one message; repeatable.")  # fmt: skip
@click.option("-n", "--num-produce", "times", type=click.IntRange(1), default=1,
              show_default=True, help="How often to send the messages given.")  # fmt: skip
@click.option("-k", "--key", help="Key of every message.")
@click.option("-p", "--property", "--properties", "properties", multiple=True,
              metavar="NAME=VALUE,...", help="Property of every message; repeatable.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), help="Number of messages to generate and send.")
@click.option("--size", type=click.IntRange(0), default=100, show_default=True,
              help="Size of a generated message, in bytes.")  # fmt: skip
@click.option("-r", "--rate", type=click.FloatRange(0), default=0.0,
              help="Maximum number of messages a second; 0: no limit.")  # fmt: skip
@click.option("--compression", type=click.Choice(list(COMPRESSIONS), case_sensitive=False),
              default="none", show_default=True)  # fmt: skip
@click.option("-db", "--disable-batching", is_flag=True, help="Store each message by itself.")
@click.option("-c", "--chunking", is_flag=True,
              help="Divide messages that are too large for an entry; implies -db.")  # fmt: skip
@click.option("-vs", "--value-schema", default="bytes", show_default=True, metavar="SCHEMA",
              help="Schema of the values: bytes, string, json:DEFINITION.")  # fmt: skip
@refusing("-ks", "--key-schema", why="key/value schemas cannot be encoded; use -k for the key")
@refusing("-kvet", "--key-value-encoding-type", why="key/value schemas cannot be encoded")
@refusing("-kvk", "--key-value-key", why="key/value schemas cannot be encoded; use -k for the key")
@refusing("-kvkf", "--key-value-key-file", why="key/value schemas cannot be encoded")
@refusing("-dr", "--disable-replication", is_flag=True, why="there is no replication")
@refusing("-ekn", "--encryption-key-name", why="messages cannot be encrypted")
@refusing("-ekv", "--encryption-key-value", why="messages cannot be encrypted")
def produce(
    topic: str,
    values: tuple[str, ...],
    broker: Target,
    listed: tuple[str, ...],
    separator: str,
    files: tuple[str, ...],
    times: int,
    key: str | None,
    properties: tuple[str, ...],
    count: int | None,
    size: int,
    rate: float,
    compression: str,
    disable_batching: bool,
    chunking: bool,
    value_schema: str,
) -> None:
    """Send messages: MESSAGES, those of -m and -f, with --count generated ones, or else the
    lines of standard input.

    Exits with 0 when the broker has stored all of them.
    """
    given = [
        *(value.encode() for value in values),
        *(text.encode() for text in _divided(listed, separator)),
        *_contents(files),
    ]
    if given and count is not None:
        raise click.UsageError("give either messages or --count")
    if times > 1 and not given:
        raise click.UsageError("-n repeats messages: give some, with -m or -f")
    described = dict(named_value(text, "--property") for text in _divided(properties, ","))
    schema = _schema(value_schema)

    def describe(chunk: Iterable[bytes]) -> list[bytes | Outgoing]:
        if key is None and not described:
            return list(chunk)
        return [Outgoing(value, key=key, properties=described) for value in chunk]

    async def work() -> None:
        started_s = time.monotonic()
        sent = 0
        # Ten chunks per second keep the rate; without a rate chunks have the maximum size.
        size_of_chunk = max(1, min(CHUNK, round(rate / 10))) if rate else CHUNK
        async with broker.connect() as client:
            producer = await client.producer(
                topic,
                compression=compression.lower(),
                batching=None if disable_batching or chunking else BATCHED,
                chunking=chunking,
                schema=schema,
            )
            async for chunk in _chunks(_values(given, times, count, size), size_of_chunk):
                await producer.send_batch(describe(chunk))
                sent += len(chunk)
                if rate:
                    await asyncio.sleep(max(0.0, started_s + sent / rate - time.monotonic()))
        elapsed_s = time.monotonic() - started_s
        click.echo(
            f"{number_of(sent, 'message', 'messages')} stored in {elapsed_s:.2f} s", err=True
        )

    run(work())


def _divided(texts: Iterable[str], separator: str) -> list[str]:
    return [part for text in texts for part in (text.split(separator) if separator else [text])]


def _contents(files: tuple[str, ...]) -> Iterator[bytes]:
    for name in _divided(files, ","):
        try:
            yield Path(name).read_bytes()
        except OSError as error:
            raise click.BadParameter(f"{name}: {error.strerror}", param_hint="--files") from error


def _schema(text: str) -> Encoded | None:
    try:
        return schema_from_text(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--value-schema") from error


def _values(given: list[bytes], times: int, count: int | None, size: int) -> Iterator[bytes] | None:
    """Return the messages to send; None for the lines of standard input."""
    if count is not None:
        return (b"%0*d" % (size, index) if size else b"" for index in range(count))
    return chain.from_iterable(repeat(given, times)) if given else None


async def _chunks(values: Iterator[bytes] | None, size: int) -> AsyncIterator[list[bytes]]:
    if values is not None:
        while chunk := list(islice(values, size)):
            yield chunk
        return
    async for lines in stdin_lines():
        for first in range(0, len(lines), size):
            yield lines[first : first + size]
