"""Statistics of transactions in topics and subscriptions, in the form of Pulsar's."""

from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.statistics.internal import internal_stats
from magnetar_broker.statistics.shapes import Json, position
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.topic import Topic


def buffer_stats(topic: Topic, lows: bool) -> Json:
    """Return the statistics of a topic's transactions; `lows` adds low watermarks."""
    buffer, log = topic.transactions, topic.log
    found = {
        "state": "Ready" if buffer.on else "NoSnapshot",
        "maxReadPosition": position(*log.position(log.visible_end - 1)),
        "lastSnapshotTimestamps": buffer.written_ms,
        "snapshotType": "Single",
        "ongoingTxnSize": len(buffer.open),
        "totalAbortedTransactions": buffer.ended.count(Outcome.ABORT),
        "recoverStartTime": buffer.recovered_ms[0],
        "recoverEndTime": buffer.recovered_ms[1],
        "hiddenEntries": log.hidden.covered(),
    }
    return found | ({"lowWaterMarks": _texts(buffer.ended.lows)} if lows else {})


def in_buffer(topic: Topic, txn: TxnId) -> Json:
    """Return the state of a transaction in a topic."""
    one = topic.transactions.open.get(txn)
    return {
        "startPosition": None if one is None else position(*topic.log.position(one.first)),
        "aborted": topic.transactions.ended.outcome(txn) is Outcome.ABORT,
    }


def pending_ack_stats(one: Subscription, lows: bool) -> Json:
    """Return the statistics of a subscription's transactions; `lows` adds low watermarks."""
    acks, recovered_ms = one.acks.transactional, one.topic.traffic.created_ms
    found = {
        "state": "None" if acks is None else "Ready",
        "ongoingTxnSize": 0 if acks is None else len(acks.open),
        "recoverStartTime": recovered_ms,
        "recoverEndTime": recovered_ms,
    }
    return found | (
        {"lowWaterMarks": {} if acks is None else _texts(acks.ended.lows)} if lows else {}
    )


def in_pending_acks(one: Subscription, txn: TxnId) -> Json:
    """Return the acknowledgements of a subscription that a transaction has made."""
    found = None if one.acks.transactional is None else one.acks.transactional.open.get(txn)
    up_to = None if found is None else found.up_to
    return {
        "cumulativeAckPosition": (
            None if up_to is None else position(*one.topic.log.position(up_to[0]))
        ),
        "individualAckEntries": 0 if found is None else sum(1 for _ in found.each()),
    }


def position_in_pending_acks(one: Subscription, ledger: int, entry: int, index: int | None) -> Json:
    """Return whether a message, or one index of a batch, is pending or acknowledged."""
    offset, acks = one.topic.log.offset_of(ledger, entry), one.acks.transactional
    if offset is not None and one.is_acked(offset, index):
        return {"state": "MarkDelete"}
    is_pending = offset is not None and acks is not None and acks.is_pending(offset, index)
    return {"state": "PendingAck" if is_pending else "NotInPendingAck"}


def buffer_internal_stats(topic: Topic, metadata: bool) -> Json:
    """Return the place that stores a topic's transactions: beside its cursors."""
    return {
        "snapshotType": "Single",
        "singleSnapshotSystemTopicInternalStats": _stored(topic, metadata),
    }


def pending_ack_internal_stats(one: Topic, metadata: bool) -> Json:
    """Return the place that stores pending acknowledgements: beside their topic's cursors."""
    return {"pendingAckLogStats": _stored(one, metadata)}


def _stored(topic: Topic, metadata: bool) -> Json:
    name = topic.name
    return {
        "managedLedgerName": f"{name.namespace_name}/{name.domain}/{name.encoded_local}",
        "managedLedgerInternalStats": internal_stats(topic, metadata),
    }


def _texts(lows: dict[int, int]) -> Json:
    return {str(most): least for most, least in lows.items()}
