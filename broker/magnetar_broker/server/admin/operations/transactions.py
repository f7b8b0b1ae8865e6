"""Coordinators of transactions, in the process that serves the partition of each."""

from typing import Any

from magnetar_broker.base.transaction_ids import Outcome
from magnetar_broker.broker import Broker
from magnetar_broker.statistics.internal import internal_stats
from magnetar_broker.transactions.coordinator import Coordinator
from magnetar_broker.transactions.records import Status
from magnetar_broker.transactions.state import Transaction
from magnetar_proto.names import TopicName

Json = dict[str, Any]


async def coordinator_stats(broker: Broker, partition: TopicName) -> Json:
    """Return the number of a coordinator's transactions, and the time of its load."""
    coordinator = await _coordinator(broker, partition)
    state = coordinator.state
    return {
        "state": "Ready",
        "leastSigBits": state.next - 1,
        "lowWaterMark": state.low_watermark,
        "ongoingTxnSize": len(state.transactions),
        "recoverStartTime": coordinator.recovered_ms,
        "recoverEndTime": coordinator.recovered_ms,
    }


async def coordinator_internal_stats(broker: Broker, partition: TopicName, metadata: bool) -> Json:
    """Return the place of a coordinator's log: beside the cursors of its partition."""
    topic = (await _coordinator(broker, partition)).topic
    name = f"{partition.namespace_name}/{partition.domain}/{partition.encoded_local}"
    return {
        "transactionLogStats": {
            "managedLedgerName": name,
            "managedLedgerInternalStats": internal_stats(topic, metadata),
        }
    }


async def slow_transactions(broker: Broker, partition: TopicName, older_ms: int) -> Json:
    """Return the open transactions of a coordinator that were begun at least `older_ms` ago."""
    coordinator = await _coordinator(broker, partition)
    until_ms = broker.engine.clock.now_ms() - older_ms
    return {
        _id_of(coordinator, one): _shown(coordinator, one)
        for one in coordinator.state.transactions.values()
        if one.opened_ms <= until_ms and one.status is Status.OPEN
    }


async def transaction(broker: Broker, partition: TopicName, least: int) -> Json:
    """Return a transaction that has not ended; raises `TransactionNotFound`."""
    coordinator = await _coordinator(broker, partition)
    return _shown(coordinator, coordinator.state.one(least))


async def abort(broker: Broker, partition: TopicName, least: int) -> None:
    """Abort a transaction; it has ended everywhere on return."""
    await (await _coordinator(broker, partition)).end(least, Outcome.ABORT)


async def _coordinator(broker: Broker, partition: TopicName) -> Coordinator:
    return await broker.coordinators.of(partition.partition)


def _id_of(coordinator: Coordinator, one: Transaction) -> str:
    return f"({coordinator.number},{one.least})"


def _shown(coordinator: Coordinator, one: Transaction) -> Json:
    produced: Json = {}
    acked: dict[str, Json] = {}
    for part in one.parts:
        if part.subscription is None:
            produced[part.topic] = {}
        else:
            acked.setdefault(part.topic, {})[part.subscription] = {}
    return {
        "txnId": _id_of(coordinator, one),
        "status": one.status.name,
        "openTimestamp": one.opened_ms,
        "timeoutAt": one.ttl_ms,
        "producedPartitions": produced,
        "ackedPartitions": acked,
        "owner": one.owner or None,
    }
