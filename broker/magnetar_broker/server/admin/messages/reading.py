"""Single messages, and positions of messages, of topics that are not partitioned."""

from magnetar_broker.server.admin.context import AdminContext, subscription_of
from magnetar_broker.server.admin.messages.backlog_actions import (
    INT,
    LONG,
    number_of,
    topic_with_messages,
)
from magnetar_broker.server.admin.messages.positions import message_position_of
from magnetar_broker.server.admin.operations import reading
from magnetar_broker.server.admin.operations.shown_message import shown
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response

# Messages ----------------------------------------------------------------------------------


async def peek(context: AdminContext, request: Request) -> Response:
    """Return the message at a position, from 1, in a backlog; it is not consumed."""
    position = number_of(request, "position", INT)
    if position < 1:
        raise Refused(412, f"position is {position}: expected 1 or more")
    topic = await topic_with_messages(context, request, "peek messages")
    async with context.reading:
        name = subscription_of(request)
        return shown(*await context.owners.ask(reading.peek, topic, name, position))


async def by_id(context: AdminContext, request: Request) -> Response:
    """Return the message at a position, which is a ledger and an entry."""
    ledger, entry = number_of(request, "ledger", LONG), number_of(request, "entry", LONG)
    topic = await topic_with_messages(context, request, "get messages")
    async with context.reading:
        return shown(*await context.owners.ask(reading.entry_at, topic, ledger, entry))


async def examine(context: AdminContext, request: Request) -> Response:
    """Return the message at `messagePosition`, counted from 1 at the earliest or latest message."""
    start = request.query.get("initialPosition") or "latest"
    if start not in ("earliest", "latest"):
        raise Refused(412, f"initialPosition is {start!r}: expected earliest or latest")
    position = max(_in_query(request, "messagePosition", 1), 1)
    topic = await topic_with_messages(context, request, "examine messages")
    async with context.reading:
        found = await context.owners.ask(reading.examine, topic, start == "latest", position)
        return shown(*found)


def _in_query(request: Request, name: str, default: int) -> int:
    """Return a number of the query, or `default` if it is missing.

    404 if it is not a number, as for any path without a route.
    """
    text = request.query.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError as error:
        raise Refused(404, f"{name} is {text!r}: expected a whole number") from error
    if not -(1 << LONG) <= number < 1 << LONG:
        raise Refused(404, f"{name} is {number}: expected less than 2^{LONG}")
    return number


# Positions ---------------------------------------------------------------------------------


async def last_id(context: AdminContext, request: Request) -> Response:
    """Return the id of the last message; ledger and entry are -1 if the topic is empty."""
    topic = await topic_with_messages(context, request, "ask for the last message", refused=404)
    ledger, entry, index, partition = await context.owners.ask(reading.last_id, topic)
    return _id_json(ledger, entry, partition, index)


async def id_since(context: AdminContext, request: Request) -> Response:
    """Return the id of the first message since a time, or else the place after the last message."""
    timestamp_ms = number_of(request, "timestamp", LONG)
    topic = await topic_with_messages(context, request, "ask for a message by time")
    ledger, entry = await context.owners.ask(reading.id_since, topic, timestamp_ms)
    return _id_json(ledger, entry, topic.partition)


async def id_of_index(context: AdminContext, request: Request) -> Response:
    """Return the id of the entry with a message; `index` counts messages since the topic exists."""
    index = _in_query(request, "index", 0)
    topic = await topic_with_messages(context, request, "ask for a message by index")
    ledger, entry = await context.owners.ask(reading.id_of_index, topic, index)
    return _id_json(ledger, entry, topic.partition)


def _id_json(ledger: int, entry: int, partition: int, index: int = -1) -> Response:
    return json_response(
        {
            "ledgerId": ledger,
            "entryId": entry,
            "partitionIndex": partition,
            "batchIndex": index,
            "batchSize": 0,
        }
    )


# Backlogs ----------------------------------------------------------------------------------


async def backlog_size(context: AdminContext, request: Request) -> Response:
    """Return the number of bytes after the message that the body names."""
    topic = await topic_with_messages(context, request, "ask for the size of a backlog")
    (ledger, entry, _, _), _ = message_position_of(request)
    return json_response(await context.owners.ask(reading.bytes_behind, topic, ledger, entry))


async def analyze(context: AdminContext, request: Request) -> Response:
    """Return the number of entries and messages in a backlog, or since the message in the body."""
    topic = await topic_with_messages(context, request, "analyze the backlog")
    start = message_position_of(request).message if request.body.strip() else None
    name = subscription_of(request)
    return json_response(await context.owners.ask(reading.analyze, topic, name, start))


async def backlogs(context: AdminContext, request: Request) -> Response:
    """Return the size of a topic, and the backlogs of its durable subscriptions."""
    topic = await topic_with_messages(context, request, "ask for backlogs")
    return json_response(await context.owners.ask(reading.backlogs, topic))
