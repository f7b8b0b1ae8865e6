"""Requests about transactions; a transaction's id is that of `magnetar.Transaction.id`."""

from magnetar.admin.requests.request import (
    Figures,
    Request,
    given,
    nothing,
    quoted,
    topic_name,
)

_PATH = "/admin/v3/transactions"
TransactionId = tuple[int, int]
"""The most and the least significant bits of a transaction's id."""


def coordinators() -> Request[list[Figures]]:
    """List the coordinators, each with its address."""
    return Request("GET", f"{_PATH}/coordinators", result=list)


def coordinator_stats() -> Request[dict[str, Figures]]:
    """Get the statistics of the coordinators, by their numbers."""
    return Request("GET", f"{_PATH}/coordinatorStats", result=dict)


def slow(open_for_ms: int) -> Request[dict[str, Figures]]:
    """Get the transactions that have been open for `open_for_ms` or longer, by their ids."""
    return Request("GET", f"{_PATH}/slowTransactions/{open_for_ms}", result=dict)


def get(txn_id: TransactionId) -> Request[Figures]:
    """Get an open transaction, with its topics and subscriptions."""
    return Request("GET", f"{_PATH}/transactionMetadata/{_id(txn_id)}", result=dict)


def abort(txn_id: TransactionId) -> Request[None]:
    """Abort an open transaction."""
    return Request("POST", f"{_PATH}/abortTransaction/{_id(txn_id)}", result=nothing)


def of_topic(topic: str) -> Request[Figures]:
    """Get the transactions of a topic, or of one partition."""
    return Request("GET", f"{_PATH}/transactionBufferStats/{topic_name(topic)}", result=dict)


def in_topic(topic: str, txn_id: TransactionId) -> Request[Figures]:
    """Get the state of a transaction in a topic."""
    path = f"{_PATH}/transactionInBufferStats/{topic_name(topic)}/{_id(txn_id)}"
    return Request("GET", path, result=dict)


def of_subscription(topic: str, subscription: str) -> Request[Figures]:
    """Get the transactions that have acknowledged messages of a subscription."""
    path = f"{_PATH}/pendingAckStats/{topic_name(topic)}/{quoted(subscription)}"
    return Request("GET", path, result=dict)


def in_subscription(topic: str, subscription: str, txn_id: TransactionId) -> Request[Figures]:
    """Get the acknowledgements of a transaction in a subscription."""
    path = f"{_PATH}/transactionInPendingAckStats/{topic_name(topic)}/{quoted(subscription)}"
    return Request("GET", f"{path}/{_id(txn_id)}", result=dict)


def of_entry(
    topic: str, subscription: str, ledger: int, entry: int, batch_index: int | None = None
) -> Request[Figures]:
    """Get whether an entry, or a message of a batch, is acknowledged in an open transaction."""
    path = f"{_PATH}/positionStatsInPendingAck/{topic_name(topic)}/{quoted(subscription)}"
    query = given(batchIndex=batch_index)
    return Request("GET", f"{path}/{ledger}/{entry}", query=query, result=dict)


def add_coordinators(count: int) -> Request[None]:
    """Increase the number of coordinators to `count`."""
    return Request("POST", f"{_PATH}/transactionCoordinator/replicas", count, result=nothing)


def _id(txn_id: TransactionId) -> str:
    most, least = txn_id
    return f"{most}/{least}"
