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
    """A topic, or with `partitions` one of so many partitions."""
    path = topic_path(topic) if partitions is None else f"{topic_path(topic)}/partitions"
    return Request("PUT", path, partitions, result=nothing)


def partitions(topic: str) -> Request[int]:
    """How many partitions it has; 0: it is not partitioned."""
    return Request("GET", f"{topic_path(topic)}/partitions", result=_partition_count)


def grow(topic: str, partitions: int) -> Request[None]:
    """Give it so many partitions, which must be more than it has."""
    return Request("POST", f"{topic_path(topic)}/partitions", partitions, result=nothing)


def delete(topic: str, *, partitioned: bool = False, force: bool = False) -> Request[None]:
    """Delete it; with `force` also if it is in use."""
    path = f"{topic_path(topic)}/partitions" if partitioned else topic_path(topic)
    return Request("DELETE", path, query=forced(force), result=nothing)


def subscriptions_backlog(topic: str) -> Request[Figures]:
    """What its subscriptions have not acknowledged."""
    return Request("GET", f"{topic_path(topic)}/backlog", result=dict)


def stats(topic: str) -> Request[Figures]:
    """Its figures (docs/statistics.md); of a partitioned topic ask for those of a partition."""
    return Request("GET", f"{topic_path(topic)}/stats", result=dict)


def partitioned_stats(topic: str, *, each: bool = False) -> Request[Figures]:
    """The figures of all partitions together, and with `each` those of every one."""
    query = {"perPartition": str(each).lower()}
    return Request("GET", f"{topic_path(topic)}/partitioned-stats", query={**query}, result=dict)


def internal_stats(topic: str) -> Request[Figures]:
    """Its segments and cursors."""
    return Request("GET", f"{topic_path(topic)}/internalStats", result=dict)


def owner(topic: str) -> Request[Figures]:
    """The broker that serves it, by its addresses."""
    name = topic_path(topic).removeprefix("/admin/v2/")
    return Request("GET", f"/lookup/v2/topic/{name}", result=dict)


def bundle(topic: str) -> Request[str]:
    """The bundle of its namespace that it belongs to, such as 0x00000000_0x40000000."""
    name = topic_path(topic).removeprefix("/admin/v2/")
    return Request("GET", f"/lookup/v2/topic/{name}/bundle", result=str)


def properties(topic: str) -> Request[dict[str, str]]:
    """What was written down about it."""
    return Request("GET", f"{topic_path(topic)}/properties", result=dict)


def set_properties(topic: str, properties: dict[str, str]) -> Request[None]:
    """Add properties, or change them."""
    return Request("PUT", f"{topic_path(topic)}/properties", properties, result=nothing)


def remove_property(topic: str, name: str) -> Request[None]:
    """Remove one property."""
    path = f"{topic_path(topic)}/properties"
    return Request("DELETE", path, query={"key": name}, result=nothing)


def explain_policies(topic: str) -> Request[dict[str, Figures]]:
    """Every policy in effect, with its value, and where this is set."""
    return Request("GET", f"{topic_path(topic)}/policies/explain", result=dict)


def remove_policies(topic: str) -> Request[None]:
    """Remove all of its policies: those of its namespace are in effect."""
    return Request("DELETE", f"{topic_path(topic)}/policies", result=nothing)


def explain_retention(topic: str) -> Request[Figures]:
    """Why what is stored is still there."""
    return Request("GET", f"{topic_path(topic)}/explainRetention", result=dict)


def damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """The entries that the broker cannot read, and those that were set aside.

    With `scan` all that is stored is read, else it is what is known.
    """
    return Request("GET", f"{topic_path(topic)}/damaged", query=_scan(scan), result=dict)


def skip_damaged(topic: str, *, scan: bool = False) -> Request[Figures]:
    """Set them aside for all subscriptions and readers; names them."""
    return Request("POST", f"{topic_path(topic)}/skipDamaged", query=_scan(scan), result=dict)


def _scan(scan: bool) -> Query:
    return {"scan": "true"} if scan else {}


def expire(topic: str, older_than_s: int) -> Request[None]:
    """Acknowledge for all subscriptions what was published so long ago."""
    path = f"{topic_path(topic)}/all_subscription/expireMessages/{older_than_s}"
    return Request("POST", path, result=nothing)


def trim(topic: str) -> Request[None]:
    """Delete now what nothing keeps."""
    return Request("POST", f"{topic_path(topic)}/trim", result=nothing)


def truncate(topic: str) -> Request[None]:
    """Acknowledge everything for all subscriptions, and delete it."""
    return Request("DELETE", f"{topic_path(topic)}/truncate", result=nothing)


def create_missed_partitions(topic: str) -> Request[None]:
    """Create those of its partitions that do not exist."""
    return Request("POST", f"{topic_path(topic)}/createMissedPartitions", result=nothing)


def terminate(topic: str) -> Request[MessageId]:
    """Let nothing more be published; the id of the last message."""
    return Request("POST", f"{topic_path(topic)}/terminate", result=message_id_of)


def unload(topic: str) -> Request[None]:
    """Close it; it is opened again when it is used."""
    return Request("PUT", f"{topic_path(topic)}/unload", result=nothing)


def compact(topic: str) -> Request[None]:
    """Begin a compaction."""
    return Request("PUT", f"{topic_path(topic)}/compaction", result=nothing)


def compaction(topic: str) -> Request[Figures]:
    """How the last compaction has gone: `status`, and `lastError` if it has failed."""
    return Request("GET", f"{topic_path(topic)}/compaction", result=dict)


def _partition_count(found: Any) -> int:
    return int(found["partitions"])
