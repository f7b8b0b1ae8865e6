"""Requests about transactions; a transaction's id is that of `magnetar.Transaction.id`."""

from magnetar.admin.requests.request import (
    Figures,
    Request,
    ask,
    given,
    nothing,
)

TransactionId = tuple[int, int]
"""The most and the least significant bits of a transaction's id."""


def coordinators() -> Request[list[Figures]]:
    """List the coordinators, each with its address."""
    return ask("transactions.coordinators", result=list)


def coordinator_stats() -> Request[dict[str, Figures]]:
    """Get the statistics of the coordinators, by their numbers."""
    return ask("transactions.coordinator_stats", result=dict)


def slow(open_for_ms: int) -> Request[dict[str, Figures]]:
    """Get the transactions that have been open for `open_for_ms` or longer, by their ids."""
    return ask("transactions.slow_transactions", open_for_ms, result=dict)


def get(txn_id: TransactionId) -> Request[Figures]:
    """Get an open transaction, with its topics and subscriptions."""
    return ask("transactions.transaction_metadata", *txn_id, result=dict)


def abort(txn_id: TransactionId) -> Request[None]:
    """Abort an open transaction."""
    return ask("transactions.abort_transaction", *txn_id, result=nothing)


def of_topic(topic: str) -> Request[Figures]:
    """Get the transactions of a topic, or of one partition."""
    return ask("participants.buffer_stats", topic, result=dict)


def in_topic(topic: str, txn_id: TransactionId) -> Request[Figures]:
    """Get the state of a transaction in a topic."""
    return ask("participants.in_buffer", topic, *txn_id, result=dict)


def of_subscription(topic: str, subscription: str) -> Request[Figures]:
    """Get the transactions that have acknowledged messages of a subscription."""
    return ask("participants.pending_ack_stats", topic, subscription, result=dict)


def in_subscription(topic: str, subscription: str, txn_id: TransactionId) -> Request[Figures]:
    """Get the acknowledgements of a transaction in a subscription."""
    return ask("participants.in_pending_acks", topic, subscription, *txn_id, result=dict)


def of_entry(
    topic: str, subscription: str, ledger: int, entry: int, batch_index: int | None = None
) -> Request[Figures]:
    """Get whether an entry, or a message of a batch, is acknowledged in an open transaction."""
    query = given(batchIndex=batch_index)
    return ask(
        "participants.position_in_pending_acks",
        topic,
        subscription,
        ledger,
        entry,
        query=query,
        result=dict,
    )


def add_coordinators(count: int) -> Request[None]:
    """Increase the number of coordinators to `count`."""
    return ask("transactions.scale", body=count, result=nothing)
