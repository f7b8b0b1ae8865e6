"""Topics and subscriptions in transactions: their open transactions, and their stored state."""

from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_topic,
    serving,
    subscription_of,
)
from magnetar_broker.server.admin.messages.backlog_actions import LONG, number_of
from magnetar_broker.server.admin.operations import participants as operations
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName


async def buffer_stats(context: AdminContext, request: Request) -> Response:
    """Return the number of a topic's open transactions, and the position up to which it is read."""
    topic, lows = await _topic(context, request), request.flag("lowWaterMarks")
    return json_response(await context.owners.ask(operations.buffer_stats, topic, lows))


async def buffer_internal_stats(context: AdminContext, request: Request) -> Response:
    """Where the state of a topic's transactions is stored."""
    topic, metadata = await _topic(context, request), request.flag("metadata")
    return json_response(
        await context.owners.ask(operations.buffer_internal_stats, topic, metadata)
    )


async def in_buffer(context: AdminContext, request: Request) -> Response:
    """Return the position of an open transaction's first message, or whether it was aborted."""
    topic, txn = await _topic(context, request), _txn(request)
    return json_response(await context.owners.ask(operations.in_buffer, topic, *txn))


async def pending_ack_stats(context: AdminContext, request: Request) -> Response:
    """Return the number of open transactions that have acknowledged messages of a subscription."""
    topic, lows = await _topic(context, request), request.flag("lowWaterMarks")
    name = subscription_of(request)
    return json_response(await context.owners.ask(operations.pending_ack_stats, topic, name, lows))


async def pending_ack_internal_stats(context: AdminContext, request: Request) -> Response:
    """Where the pending acknowledgements of a subscription are stored."""
    topic, metadata = await _topic(context, request), request.flag("metadata")
    name = subscription_of(request)
    return json_response(
        await context.owners.ask(operations.pending_ack_internal_stats, topic, name, metadata)
    )


async def in_pending_acks(context: AdminContext, request: Request) -> Response:
    """Return the acknowledgements of a subscription that an open transaction has made."""
    topic, name, txn = await _topic(context, request), subscription_of(request), _txn(request)
    return json_response(await context.owners.ask(operations.in_pending_acks, topic, name, *txn))


async def position_in_pending_acks(context: AdminContext, request: Request) -> Response:
    """Return whether a message is pending in a transaction (PendingAck) or settled (MarkDelete)."""
    topic, name = await _topic(context, request), subscription_of(request)
    ledger, entry = (number_of(request, each, LONG) for each in ("ledger", "entry"))
    asked = request.query.get("batchIndex", "")
    index = int(asked) if asked.isdecimal() and len(asked) < 8 else None
    if asked and index is None:
        raise Refused(400, f"batchIndex is {asked[:40]!r}: expected a whole number")
    return json_response(
        await context.owners.ask(
            operations.position_in_pending_acks, topic, name, ledger, entry, index
        )
    )


def _txn(request: Request) -> tuple[int, int]:
    return number_of(request, "most", LONG), number_of(request, "least", LONG)


async def _topic(context: AdminContext, request: Request) -> TopicName:
    """Return the topic of the path; 503 while transactions are off, as in Pulsar."""
    directory = serving(context)
    if not directory.settings.transaction_coordinator_enabled:
        raise Refused(503, "transactions are off: transactionCoordinatorEnabled=false")
    topic = await existing_topic(directory, request)
    if topic.partition < 0 and await directory.catalogue.partitions(topic):
        raise Refused(404, f"{topic} is partitioned: name one of its partitions")
    return topic
