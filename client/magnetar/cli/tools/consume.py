"""The commands `magnetar consume` and `magnetar read`."""

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import click

from magnetar.base.errors import OperationTimeout
from magnetar.base.unreadable import DISCARD, FAIL, ON_UNREADABLE
from magnetar.cli.tools.common import number_of, refusing, run
from magnetar.cli.tools.printing import Form, form_of, show
from magnetar.cli.tools.target import Target, target_options
from magnetar.client import Client
from magnetar.consuming.options import INITIAL_POSITIONS, SUBSCRIPTION_TYPES
from magnetar.messages import Message
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_proto.names import TopicName

CHUNK = 1000
"""The number of messages that are received at once."""
WAIT_S = 2.0
DURABLE, NON_DURABLE = "durable", "nondurable"
MESSAGE_ID = re.compile(r"(\d+):(\d+)(?::(-?\d+))?")

Receive = Callable[[int, float | None], Awaitable[list[Message]]]
"""Receives at most this number of messages, with a time limit in seconds for the first one."""


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of both commands."""
    schema = "values are not decoded by their schema: JSON and strings are shown as text; or --hex"
    for option in (
        refusing("-st", "--schema-type", why=f"{schema} for others"),
        refusing("-ekv", "--encryption-key-value", why="messages cannot be decrypted"),
        refusing("-ca", "--crypto-failure-action", why="messages cannot be decrypted"),
        click.option("-mc", "--max_chunked_msg", "max_chunked", type=click.IntRange(1), default=10,
                     show_default=True, help="Chunked messages that may be incomplete at a time; "
                     "of more the oldest is unreadable."),
        click.option("-q", "--queue-size", type=click.IntRange(0), default=1000, show_default=True,
                     help="Messages that may be received ahead; 0: one at a time, on demand."),
        click.option("-r", "--rate", type=click.FloatRange(0), default=0.0,
                     help="Maximum number of messages a second; 0: no limit."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
        click.option("--hex", "as_hex", is_flag=True, help="Show values in hexadecimal."),
        click.option("--hide-content", is_flag=True, help="Count messages without showing them."),
        click.option("--wait", "wait_s", type=click.FloatRange(0, min_open=True),
                     help="Seconds without a message after which to stop.  Default: "
                     f"{WAIT_S:g}; with -n or --follow no limit."),
        click.option("--follow", is_flag=True, help="Wait for more messages until interrupted."),
        click.option("-n", "--num-messages", "--count", "count", type=click.IntRange(0),
                     help="Number of messages after which to stop; 0: the same as --follow."),
        click.option("--create", is_flag=True, help="Create TOPIC if it does not exist, as far as "
                     "the broker allows it; without this a missing topic is an error."),
        target_options,
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("topic")
@_common
@click.option("-s", "--subscription", "--subscription-name", "subscription", metavar="NAME",
              help="The subscription, which is created if it does not exist.  Default: one that "
              "ends with the command.")  # fmt: skip
@click.option("-t", "--type", "--subscription-type", "kind", default="exclusive",
              type=click.Choice(list(SUBSCRIPTION_TYPES), case_sensitive=False),
              show_default=True)  # fmt: skip
@click.option("-p", "--position", "--subscription-position", "position", default="earliest",
              type=click.Choice(list(INITIAL_POSITIONS), case_sensitive=False),
              show_default=True, help="Where a new subscription starts.")  # fmt: skip
@click.option("-m", "--subscription-mode", "mode",
              type=click.Choice((DURABLE, NON_DURABLE), case_sensitive=False),
              help="Whether the subscription stays when the command ends.  Default: durable if it "
              "is named.")  # fmt: skip
@click.option("--regex", is_flag=True, help="TOPIC is a pattern: receive from all topics of its "
              "namespace that match when the command starts.")  # fmt: skip
@click.option("--on-unreadable", type=click.Choice(ON_UNREADABLE), default=FAIL, show_default=True,
              help="What to do with an entry that cannot be decoded: exit with an error, skip it, "
              "or skip it and acknowledge it.")  # fmt: skip
@click.option("-ac", "--auto_ack_chunk_q_full", "ack_oldest_chunked", is_flag=True,
              help="Acknowledge the oldest chunked message when -mc leaves no room for it, instead "
              "of what --on-unreadable says.")  # fmt: skip
@refusing("-rs", "--replicated", is_flag=True, why="there is no replication")
@refusing("-pm", "--pool-messages", is_flag=True, why="it concerns the memory of a Java client")
def consume(
    topic: str,
    broker: Target,
    count: int | None,
    follow: bool,
    wait_s: float | None,
    hide_content: bool,
    as_hex: bool,
    as_json: bool,
    rate: float,
    queue_size: int,
    create: bool,
    subscription: str | None,
    kind: str,
    position: str,
    mode: str | None,
    regex: bool,
    on_unreadable: str,
    max_chunked: int,
    ack_oldest_chunked: bool,
) -> None:
    """Receive, print and acknowledge messages.

    Nothing is left at the broker but what a named subscription has acknowledged.

    Exits with 0, or with 1 if fewer messages than -n came in the time of --wait, or if delivery
    stops at messages that the broker cannot read.
    """
    form = form_of(as_json, as_hex, hide_content)
    limits = _Limits(count, follow, wait_s, rate)
    options = {
        "queue_size": queue_size,
        "on_unreadable": on_unreadable,
        "type": kind.lower(),
        "max_pending_chunked": max_chunked,
        "ack_oldest_chunked": ack_oldest_chunked,
        "create_topic": create,
        "initial_position": position.lower(),
    }
    if _is_durable(mode, subscription):
        name = str(subscription)
    else:
        name = subscription or f"magnetar-consume-{uuid.uuid4().hex[:10]}"
        options["start"] = EARLIEST if position.lower() == "earliest" else LATEST

    async def work() -> None:
        async with broker.connect() as client:
            topics = await _topics(client, topic, regex, create)
            consumer = await client.subscribe_all(topics, name, **options)  # type: ignore[arg-type]
            shown = 0
            async for batch in limits.batches(consumer.receive_batch):
                show(batch, form)
                consumer.ack(batch)
                shown += len(batch)
            limits.report(shown, consumer.unreadable)

    run(work())


def _is_durable(mode: str | None, subscription: str | None) -> bool:
    if mode is not None and mode.lower() == DURABLE and subscription is None:
        raise click.UsageError("a durable subscription stays, so it needs a name: give -s NAME")
    return subscription is not None if mode is None else mode.lower() == DURABLE


async def _topics(client: Client, topic: str, is_pattern: bool, create: bool) -> list[str]:
    """Return the topic, or those that match the pattern; ValueError if no topic matches."""
    if not is_pattern:
        await _check(client, topic, create)
        return [topic]
    topics = await client.topics_matching(topic)
    if not topics:
        raise ValueError(f"no topic matches {topic}")
    return topics


async def _check(client: Client, topic: str, create: bool) -> None:
    """Raise an error if the topic does not exist and is not to be created."""
    name = str(TopicName.parse(topic))
    # promise[always]: reading creates no topic unless that is asked for
    if create or await client.exists(name):
        return
    raise ValueError(
        f"{name} does not exist: create it with --create, or send messages to it first"
    )


@click.command()
@click.argument("topic")
@_common
@click.option("-m", "--start-message-id", "start", default="earliest", show_default=True,
              metavar="earliest|latest|LEDGER:ENTRY[:PARTITION]",
              help="Read what follows this message.")  # fmt: skip
@click.option("-i", "--start-message-id-inclusive", "inclusive", is_flag=True,
              help="Read the message of -m, too.")  # fmt: skip
@refusing("-ac", "--auto_ack_chunk_q_full", is_flag=True,
          why="a reader acknowledges nothing; use --on-unreadable skip")  # fmt: skip
@click.option("--on-unreadable", default=FAIL, show_default=True,
              type=click.Choice([name for name in ON_UNREADABLE if name != DISCARD]),
              help="What to do with an entry that cannot be decoded: exit with an error, or "
              "skip it.")  # fmt: skip
def read(
    topic: str,
    broker: Target,
    count: int | None,
    follow: bool,
    wait_s: float | None,
    hide_content: bool,
    as_hex: bool,
    as_json: bool,
    rate: float,
    queue_size: int,
    create: bool,
    start: str,
    inclusive: bool,
    on_unreadable: str,
    max_chunked: int,
) -> None:
    """Print messages without a subscription: nothing is acknowledged, nothing stays.

    Exits with 0, or with 1 if fewer messages than -n came in the time of --wait, or if delivery
    stops at messages that the broker cannot read.
    """
    first, partition = _position(start)
    form: Form = form_of(as_json, as_hex, hide_content)
    limits = _Limits(count, follow, wait_s, rate)

    async def work() -> None:
        async with broker.connect() as client:
            name = topic if partition < 0 else f"{topic}-partition-{partition}"
            await _check(client, name, create)
            reader = await client.reader(
                name,
                first,
                inclusive=inclusive,
                queue_size=queue_size,
                on_unreadable=on_unreadable,
                max_pending_chunked=max_chunked,
            )
            shown = 0
            async for batch in limits.batches(reader.read_batch):
                show(batch, form)
                shown += len(batch)
            limits.report(shown, reader.unreadable)

    run(work())


def _position(text: str) -> tuple[MessageId, int]:
    """Return the message id in a text, and its partition; -1 without partition."""
    named = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return named, -1
    match = MESSAGE_ID.fullmatch(text)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is not earliest, latest or LEDGER:ENTRY[:PARTITION]",
            param_hint="--start-message-id",
        )
    partition = int(match[3]) if match[3] else -1
    return MessageId(int(match[1]), int(match[2]), -1, partition), partition


class _Limits:
    """The conditions at which a command stops, and its rate."""

    def __init__(self, count: int | None, follow: bool, wait_s: float | None, rate: float) -> None:
        if follow and wait_s is not None:
            raise click.UsageError("give either --follow or --wait")
        self._count = count or None
        endless = follow or count is not None
        self._wait_s = wait_s if wait_s is not None or endless else WAIT_S
        self._rate = rate

    async def batches(self, receive: Receive) -> AsyncIterator[list[Message]]:
        """Yield batches of received messages until the command is to stop."""
        received, started_s = 0, time.monotonic()
        most = max(1, min(CHUNK, round(self._rate / 10))) if self._rate else CHUNK
        while self._count is None or received < self._count:
            room = most if self._count is None else min(most, self._count - received)
            try:
                batch = await receive(room, self._wait_s)
            except OperationTimeout:
                return
            received += len(batch)
            yield batch
            if self._rate:
                await asyncio.sleep(max(0.0, started_s + received / self._rate - time.monotonic()))

    def report(self, shown: int, unreadable: int) -> None:
        """Print the number of messages; exit with 1 if it is less than requested."""
        outcome = number_of(shown, "message", "messages")
        if unreadable:
            outcome += f", {number_of(unreadable, 'unreadable entry', 'unreadable entries')}"
        if self._count is not None and shown < self._count:
            raise click.ClickException(
                f"{outcome} of {self._count}: no more came within {self._wait_s:g} s"
            )
        click.echo(outcome, err=True)
