"""All operations by name, as one process requests them from another."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from magnetar_broker.server.admin.operations import (
    damage,
    loading,
    messages,
    participants,
    reading,
    replaying,
    searching,
    statistics,
    subscriptions,
    topics,
    transactions,
)

Operation = Callable[..., Awaitable[Any]]


def name_of(operation: Operation) -> str:
    """Return the name of an operation: its module and its own name."""
    return f"{operation.__module__.rpartition('.')[2]}.{operation.__name__}"


def _by_name(*operations: Operation) -> Mapping[str, Operation]:
    return {name_of(operation): operation for operation in operations}


OF_TOPIC: Final = _by_name(
    loading.load,
    loading.require_subscription,
    damage.subscriptions,
    damage.damaged,
    damage.set_aside,
    damage.skip,
    messages.skip,
    messages.skip_everything,
    messages.expirable,
    messages.expire,
    messages.expire_to_message,
    messages.reset_to_time,
    messages.reset_to_message,
    messages.truncate_topic,
    messages.trim,
    messages.explain,
    reading.entry_at,
    reading.peek,
    reading.examine,
    reading.last_id,
    reading.id_since,
    reading.id_of_index,
    reading.bytes_behind,
    reading.analyze,
    reading.backlogs,
    statistics.stats,
    statistics.internal,
    statistics.info,
    statistics.why,
    statistics.draining,
    statistics.key_hash,
    searching.search,
    replaying.store,
    subscriptions.names_of,
    subscriptions.consumers_of,
    subscriptions.durable,
    subscriptions.has,
    subscriptions.create,
    subscriptions.delete,
    subscriptions.properties,
    subscriptions.set_properties,
    topics.start_compaction,
    topics.compaction_status,
    topics.terminate,
    topics.properties,
    topics.add_properties,
    topics.remove_property,
    transactions.coordinator_stats,
    transactions.coordinator_internal_stats,
    transactions.slow_transactions,
    transactions.transaction,
    transactions.abort,
    participants.buffer_stats,
    participants.buffer_internal_stats,
    participants.in_buffer,
    participants.pending_ack_stats,
    participants.pending_ack_internal_stats,
    participants.in_pending_acks,
    participants.position_in_pending_acks,
)
OF_PROCESS: Final = _by_name(
    damage.known, messages.check_quotas, statistics.loaded_names, statistics.brief, statistics.load
)
