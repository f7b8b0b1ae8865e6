"""Requests about topics, named in full or as in `magnetar.Client`."""

from typing import Any

from magnetar.admin.requests.request import (
    Figures,
    Query,
    Request,
    forced,
    message_id_of,
    nothing,
    topic_path,
)
from magnetar_proto.ids import MessageId


def create(topic: str, *, partitions: int | None = None) -> Request[None]:
    """Create a topic, or with `partitions` a partitioned topic."""
    path = topic_path(topic) if partitions is None else f"{topic_path(topic)}/partitions"
    return Request("PUT", path, partitions, result=nothing)


def partitions(topic: str) -> Request[int]:
    """Get the number of partitions; 0 if the topic is not partitioned."""
    return Request("GET", f"{topic_path(topic)}/partitions", result=_partition_count)


def grow(topic: str, partitions: int) -> Request[None]:
    """Increase the number of partitions of a topic to `partitions`."""
    return Request("POST", f"{topic_path(topic)}/partitions", partitions, result=nothing)


def delete(topic: str, *, partitioned: bool = False, force: bool = False) -> Request[None]:
    """Delete a topic, with `force` even if it is in use."""
    path = f"{topic_path(topic)}/partitions" if partitioned else topic_path(topic)
    return Request("DELETE", path, query=forced(force), result=nothing)


def subscriptions_backlog(topic: str) -> Request[Figures]:
    """Get the backlog of each subscription."""
    return Request("GET", f"{topic_path(topic)}/backlog", result=dict)


def stats(topic: str) -> Request[Figures]:
    """Get the statistics of a topic or of one partition (docs/statistics.md)."""
    return Request("GET", f"{topic_path(topic)}/stats", result=dict)


def partitioned_stats(topic: str, *, each: bool = False) -> Request[Figures]:
    """Get the statistics of all partitions together, with `each` also of every single one."""
    query = {"perPartition": str(each).lower()}
    return Request("GET", f"{topic_path(topic)}/partitioned-stats", query={**query}, result=dict)


def internal_stats(topic: str) -> Request[Figures]:
    """Get the segments and cursors of a topic."""
    return Request("GET", f"{topic_path(topic)}/internalStats", result=dict)


def owner(topic: str) -> Request[Figures]:
    """Get the addresses of the broker that serves a topic."""
    name = topic_path(topic).removeprefix("/admin/v2/")
    return Request("GET", f"/lookup/v2/topic/{name}", result=dict)


def bundle(topic: str) -> Request[str]:
    """Get the bundle that a topic belongs to, such as 0x00000000_0x40000000."""
    name = topic_path(topic).removeprefix("/admin/v2/")
    return Request("GET", f"/lookup/v2/topic/{name}/bundle", result=str)


def properties(topic: str) -> Request[dict[str, str]]:
    """Get the properties of a topic."""
    return Request("GET", f"{topic_path(topic)}/properties", result=dict)


def set_properties(topic: str, properties: dict[str, str]) -> Request[None]:
    """Add properties, or change their values."""
    return Request("PUT", f"{topic_path(topic)}/properties", properties, result=nothing)


def remove_property(topic: str, name: str) -> Request[None]:
    """Remove one property of a topic."""
    path = f"{topic_path(topic)}/properties"
    return Request("DELETE", path, query={"key": name}, result=nothing)


def explain_policies(topic: str) -> Request[dict[str, Figures]]:
    """Get every policy in effect, with its value and the level that sets it."""
    return Request("GET", f"{topic_path(topic)}/policies/explain", result=dict)


def remove_policies(topic: str) -> Request[None]:
    """Remove all policies of a topic: from now on those of its namespace apply."""
    return Request("DELETE", f"{topic_path(topic)}/policies", result=nothing)


def explain_retention(topic: str) -> Request[Figures]:
    """Get the reasons why the stored messages of a topic are kept."""
    return Request("GET", f"{topic_path(topic)}/explainRetention", result=dict)


def damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """Get the entries that the broker cannot read, and those that were set aside.

    With `scan` the broker reads all stored entries; without, it reports those known already.
    """
    return Request("GET", f"{topic_path(topic)}/damaged", query=_scan(scan), result=dict)


def skip_damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """Set damaged entries aside for all subscriptions and readers, and get their positions."""
    return Request("POST", f"{topic_path(topic)}/skipDamaged", query=_scan(scan), result=dict)


def _scan(scan: bool) -> Query:
    return {"scan": "true"} if scan else {}


def expire(topic: str, older_than_s: int) -> Request[None]:
    """Acknowledge messages older than `older_than_s` in all subscriptions."""
    path = f"{topic_path(topic)}/all_subscription/expireMessages/{older_than_s}"
    return Request("POST", path, result=nothing)


def trim(topic: str) -> Request[None]:
    """Delete all messages that nothing retains, now."""
    return Request("POST", f"{topic_path(topic)}/trim", result=nothing)


def truncate(topic: str) -> Request[None]:
    """Acknowledge and delete all messages of a topic."""
    return Request("DELETE", f"{topic_path(topic)}/truncate", result=nothing)


def create_missed_partitions(topic: str) -> Request[None]:
    """Create the partitions that do not exist."""
    return Request("POST", f"{topic_path(topic)}/createMissedPartitions", result=nothing)


def terminate(topic: str) -> Request[MessageId]:
    """Refuse further publishing to a topic, and return the id of its last message."""
    return Request("POST", f"{topic_path(topic)}/terminate", result=message_id_of)


def unload(topic: str) -> Request[None]:
    """Close a topic; it is opened again when it is used."""
    return Request("PUT", f"{topic_path(topic)}/unload", result=nothing)


def compact(topic: str) -> Request[None]:
    """Start a compaction of a topic."""
    return Request("PUT", f"{topic_path(topic)}/compaction", result=nothing)


def compaction(topic: str) -> Request[Figures]:
    """Get the outcome of the last compaction: `status`, and `lastError` if it failed."""
    return Request("GET", f"{topic_path(topic)}/compaction", result=dict)


def _partition_count(found: Any) -> int:
    return int(found["partitions"])
