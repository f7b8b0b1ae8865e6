"""Statistics of topics and subscriptions in transactions, in the process that serves them."""

from typing import Any

from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import loaded, subscription_of
from magnetar_broker.statistics import transaction_stats as transactions
from magnetar_proto.names import TopicName

Json = dict[str, Any]


async def buffer_stats(broker: Broker, name: TopicName, lows: bool) -> Json:
    """Return statistics of a topic's transactions."""
    return transactions.buffer_stats(await loaded(broker, name), lows)


async def buffer_internal_stats(broker: Broker, name: TopicName, metadata: bool) -> Json:
    """Return the place that stores the state of a topic's transactions."""
    return transactions.buffer_internal_stats(await loaded(broker, name), metadata)


async def in_buffer(broker: Broker, name: TopicName, most: int, least: int) -> Json:
    """Return the state of a transaction in a topic."""
    return transactions.in_buffer(await loaded(broker, name), TxnId(most, least))


async def pending_ack_stats(broker: Broker, name: TopicName, subscription: str, lows: bool) -> Json:
    """Return statistics of a subscription's transactions."""
    return transactions.pending_ack_stats(await subscription_of(broker, name, subscription), lows)


async def pending_ack_internal_stats(
    broker: Broker, name: TopicName, subscription: str, metadata: bool
) -> Json:
    """Return statistics of the log that stores a subscription's pending acknowledgements."""
    await subscription_of(broker, name, subscription)
    return transactions.pending_ack_internal_stats(await loaded(broker, name), metadata)


async def in_pending_acks(
    broker: Broker, name: TopicName, subscription: str, most: int, least: int
) -> Json:
    """Return the acknowledgements of a subscription that a transaction has made."""
    one = await subscription_of(broker, name, subscription)
    return transactions.in_pending_acks(one, TxnId(most, least))


async def position_in_pending_acks(
    broker: Broker, name: TopicName, subscription: str, ledger: int, entry: int, index: int | None
) -> Json:
    """Return whether a message is pending in a transaction, or acknowledged."""
    one = await subscription_of(broker, name, subscription)
    return transactions.position_in_pending_acks(one, ledger, entry, index)
