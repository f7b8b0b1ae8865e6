"""Transactions: their coordinators, the open transactions, and ending one that is forgotten."""

from collections.abc import Awaitable
from typing import Any

from magnetar_broker.base.errors import (
    NamespaceNotFound,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionCoordinatorNotFound,
)
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.admin.messages.backlog_actions import LONG, number_of
from magnetar_broker.server.admin.operations import participants, transactions
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.admin.bodies import MAX_COORDINATORS
from magnetar_proto.names import TopicName

# Coordinators -----------------------------------------------------------------------------


async def coordinators(context: AdminContext, request: Request) -> Response:
    """Return the coordinators, each with the address of the broker that has it."""
    url = serving(context).ownership.service_url
    found = range(await _number(context))
    return json_response([{"id": number, "brokerServiceUrl": url} for number in found])


async def coordinator_stats(context: AdminContext, request: Request) -> Response:
    """Return figures of all coordinators by their ids, or of the one that `coordinatorId` names."""
    asked = request.query.get("coordinatorId")
    if asked is not None:
        partition = await _partition(context, _number_in(asked, "coordinatorId"))
        return json_response(await context.owners.ask(transactions.coordinator_stats, partition))
    found: dict[str, Any] = {}
    for number in range(await _number(context)):
        partition = COORDINATORS.with_partition(number)
        found[str(number)] = await context.owners.ask(transactions.coordinator_stats, partition)
    return json_response(found)


async def coordinator_internal_stats(context: AdminContext, request: Request) -> Response:
    """Return the location of a coordinator's log."""
    partition = await _partition(context, number_of(request, "coordinator", LONG))
    return json_response(
        await context.owners.ask(
            transactions.coordinator_internal_stats, partition, request.flag("metadata")
        )
    )


async def scale(context: AdminContext, request: Request) -> None:
    """Raise the number of coordinators to the number in the body; it cannot be lowered."""
    present, wanted = await _number(context), request.json()
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted <= 0:
        raise Refused(406, "the number of coordinators: expected a whole number above 0")
    if wanted <= present:
        raise Refused(406, f"there are {present} coordinators: expected more than that")
    if wanted > MAX_COORDINATORS:
        raise Refused(406, f"{wanted} coordinators exceed the limit of {MAX_COORDINATORS}")
    await context.directory.creation.grow(COORDINATORS, wanted)


# Transactions ---------------------------------------------------------------------------------


async def slow_transactions(context: AdminContext, request: Request) -> Response:
    """Return the transactions that have been open for a number of milliseconds or more, by id."""
    older_ms = number_of(request, "timeout", LONG)
    asked = request.query.get("coordinatorId")
    numbers = (
        range(await _number(context)) if asked is None else [_number_in(asked, "coordinatorId")]
    )
    found: dict[str, Any] = {}
    for number in numbers:
        partition = await _partition(context, number)
        found |= await context.owners.ask(transactions.slow_transactions, partition, older_ms)
    return json_response(found)


async def transaction_metadata(context: AdminContext, request: Request) -> Response:
    """Return the state of a transaction that has not ended, and its topics and subscriptions."""
    partition, least = await _transaction(context, request)
    found = await context.owners.ask(transactions.transaction, partition, least)
    txn = partition.partition, least
    for topic in found["producedPartitions"]:
        asked = context.owners.ask(participants.in_buffer, TopicName.parse(topic), *txn)
        found["producedPartitions"][topic] = await _unless_gone(asked)
    for topic, of_topic in found["ackedPartitions"].items():
        for name in of_topic:
            asked = context.owners.ask(
                participants.in_pending_acks, TopicName.parse(topic), name, *txn
            )
            of_topic[name] = await _unless_gone(asked)
    return json_response(found)


async def _unless_gone(asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of a topic or subscription; an empty one if that no longer exists."""
    try:
        return await asked
    except (Refused, TopicNotFound, NamespaceNotFound, SubscriptionNotFound):
        return {}


async def abort_transaction(context: AdminContext, request: Request) -> None:
    """Abort an open transaction; it has ended everywhere when this is answered."""
    partition, least = await _transaction(context, request)
    await context.owners.ask(transactions.abort, partition, least)


async def _transaction(context: AdminContext, request: Request) -> tuple[TopicName, int]:
    """Return the partition of a transaction's coordinator, and the transaction's number there."""
    partition = await _partition(context, number_of(request, "most", LONG))
    return partition, number_of(request, "least", LONG)


async def _number(context: AdminContext) -> int:
    """Return the number of coordinators; 503 while transactions are off, as in Pulsar."""
    directory = serving(context)
    if not directory.settings.transaction_coordinator_enabled:
        raise Refused(503, "transactions are off: transactionCoordinatorEnabled=false")
    return await directory.catalogue.partitions(COORDINATORS)


async def _partition(context: AdminContext, number: int) -> TopicName:
    present = await _number(context)
    if not 0 <= number < present:
        raise TransactionCoordinatorNotFound(
            f"there is no coordinator {number}: there are {present}, from 0"
        )
    return COORDINATORS.with_partition(number)


def _number_in(text: str, name: str) -> int:
    try:
        return int(text[:20])
    except ValueError as error:
        raise Refused(404, f"{name} is {text[:40]!r}: expected a whole number") from error
