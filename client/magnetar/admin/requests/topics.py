"""Requests about topics, named in full or as in `magnetar.Client`."""

from typing import Any

from magnetar.admin.requests.request import Request, forced, nothing, topic_path
from magnetar_proto.ids import MessageId

Stats = dict[str, Any]
"""Figures by their names in the REST API (docs/statistics.md)."""


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


def stats(topic: str) -> Request[Stats]:
    """Its figures; of a partitioned topic ask for those of a partition."""
    return Request("GET", f"{topic_path(topic)}/stats", result=dict)


def terminate(topic: str) -> Request[MessageId]:
    """Let nothing more be published; the id of the last message."""
    return Request("POST", f"{topic_path(topic)}/terminate", result=_message_id)


def unload(topic: str) -> Request[None]:
    """Close it; it is opened again when it is used."""
    return Request("PUT", f"{topic_path(topic)}/unload", result=nothing)


def compact(topic: str) -> Request[None]:
    """Begin a compaction."""
    return Request("PUT", f"{topic_path(topic)}/compaction", result=nothing)


def _partition_count(found: Any) -> int:
    return int(found["partitions"])


def _message_id(found: Any) -> MessageId:
    return MessageId(
        int(found["ledgerId"]), int(found["entryId"]), partition=found.get("partitionIndex", -1)
    )
