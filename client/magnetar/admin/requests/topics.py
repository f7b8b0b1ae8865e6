"""Requests about topics, named in full or as in `magnetar.Client`."""

from typing import Any

from magnetar.admin.requests.request import (
    Figures,
    Query,
    Request,
    ask,
    forced,
    message_id_body,
    message_id_of,
    nothing,
)
from magnetar_proto.ids import MessageId


def create(topic: str, *, partitions: int | None = None) -> Request[None]:
    """Create a topic, or with `partitions` a partitioned topic."""
    name = "topics.create" if partitions is None else "topics.create_partitioned"
    return ask(name, topic, body=partitions, result=nothing)


def partitions(topic: str) -> Request[int]:
    """Get the number of partitions; 0 if the topic is not partitioned."""
    return ask("topics.partitions", topic, result=_partition_count)


def grow(topic: str, partitions: int) -> Request[None]:
    """Increase the number of partitions of a topic to `partitions`."""
    return ask("topics.grow", topic, body=partitions, result=nothing)


def delete(topic: str, *, partitioned: bool = False, force: bool = False) -> Request[None]:
    """Delete a topic, with `force` even if it is in use."""
    name = "topics.delete_partitioned" if partitioned else "topics.delete"
    return ask(name, topic, query=forced(force), result=nothing)


def subscriptions_backlog(topic: str) -> Request[Figures]:
    """Get the backlog of each subscription."""
    return ask("messages.reading.backlogs", topic, result=dict)


def stats(topic: str) -> Request[Figures]:
    """Get the statistics of a topic or of one partition (docs/statistics.md)."""
    return ask("statistics.stats", topic, result=dict)


def partitioned_stats(topic: str, *, each: bool = False) -> Request[Figures]:
    """Get the statistics of all partitions together, with `each` also of every single one."""
    query = {"perPartition": str(each).lower()}
    return ask("statistics.partitioned_stats", topic, query={**query}, result=dict)


def internal_stats(topic: str) -> Request[Figures]:
    """Get the segments and cursors of a topic."""
    return ask("statistics.internal", topic, result=dict)


def owner(topic: str) -> Request[Figures]:
    """Get the addresses of the broker that serves a topic."""
    return ask("lookups.lookup", topic, result=dict)


def bundle(topic: str) -> Request[str]:
    """Get the bundle that a topic belongs to, such as 0x00000000_0x40000000."""
    return ask("lookups.bundle", topic, result=str)


def properties(topic: str) -> Request[dict[str, str]]:
    """Get the properties of a topic."""
    return ask("topic_properties.properties", topic, result=dict)


def set_properties(topic: str, properties: dict[str, str]) -> Request[None]:
    """Add properties, or change their values."""
    return ask("topic_properties.add_properties", topic, body=properties, result=nothing)


def remove_property(topic: str, name: str) -> Request[None]:
    """Remove one property of a topic."""
    return ask("topic_properties.remove_property", topic, query={"key": name}, result=nothing)


def explain_policies(topic: str) -> Request[dict[str, Figures]]:
    """Get every policy in effect, with its value and the level that sets it."""
    return ask("policies.explain.of_topic", topic, result=dict)


def remove_policies(topic: str) -> Request[None]:
    """Remove all policies of a topic: from now on those of its namespace apply."""
    return ask("policies.regular.delete_all", topic, result=nothing)


def explain_retention(topic: str) -> Request[Figures]:
    """Get the reasons why the stored messages of a topic are kept."""
    return ask("messages.backlog_actions.explain", topic, result=dict)


def damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """Get the entries that the broker cannot read, and those that were set aside.

    With `scan` the broker reads all stored entries; without, it reports those known already.
    """
    return ask("messages.damage.damaged", topic, query=_scan(scan), result=dict)


def skip_damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """Set damaged entries aside for all subscriptions and readers, and get their positions."""
    return ask("messages.damage.skip", topic, query=_scan(scan), result=dict)


def _scan(scan: bool) -> Query:
    return {"scan": "true"} if scan else {}


def expire(topic: str, older_than_s: int) -> Request[None]:
    """Acknowledge messages older than `older_than_s` in all subscriptions."""
    return ask("messages.backlog_actions.expire_for_all", topic, older_than_s, result=nothing)


def trim(topic: str) -> Request[None]:
    """Delete all messages that nothing retains, now."""
    return ask("messages.backlog_actions.trim", topic, result=nothing)


def truncate(topic: str) -> Request[None]:
    """Acknowledge and delete all messages of a topic."""
    return ask("messages.backlog_actions.truncate_topic", topic, result=nothing)


def create_missed_partitions(topic: str) -> Request[None]:
    """Create the partitions that do not exist."""
    return ask("topics.create_missed_partitions", topic, result=nothing)


def terminate(topic: str) -> Request[MessageId]:
    """Refuse further publishing to a topic, and return the id of its last message."""
    return ask("termination.terminate", topic, result=message_id_of)


def unload(topic: str) -> Request[None]:
    """Close a topic; it is opened again when it is used."""
    return ask("topics.unload", topic, result=nothing)


def compact(topic: str) -> Request[None]:
    """Start a compaction of a topic."""
    return ask("compaction.compact", topic, result=nothing)


def compaction(topic: str) -> Request[Figures]:
    """Get the outcome of the last compaction: `status`, and `lastError` if it failed."""
    return ask("compaction.status", topic, result=dict)


def offload(topic: str, before: MessageId) -> Request[None]:
    """Start to offload the closed ledgers before a message."""
    body = message_id_body(before)
    return ask("offloading.offload", topic, body=body, result=nothing)


def offloading(topic: str) -> Request[Figures]:
    """Get the outcome of the last `offload`: `status`, and `lastError` if it failed."""
    return ask("offloading.status", topic, result=dict)


def _partition_count(found: Any) -> int:
    return int(found["partitions"])
