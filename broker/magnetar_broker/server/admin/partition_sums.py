"""The statistics of a partitioned topic: the sums of its partitions' statistics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from magnetar_broker.base.formats import iso, ratio

Json = dict[str, Any]
OWN: Final = frozenset(("ownerBroker", "deduplicationStatus", "topicEpoch"))
"""Fields that only a partition has."""
LATEST: Final = frozenset(
    (
        "lastPublishTimeStamp",
        "lastOffloadSuccessTimeStamp",
        "lastOffloadFailureTimeStamp",
        "lastOffloadLedgerId",
        "oldestBacklogMessageAgeSeconds",
        "backlogQuotaLimitSize",
        "backlogQuotaLimitTime",
        "lastExpireTimestamp",
        "lastConsumedFlowTimestamp",
        "lastConsumedTimestamp",
        "lastAckedTimestamp",
        "lastMarkDeleteAdvancedTimestamp",
        "lastCompactionSucceedTimestamp",
        "lastCompactionFailedTimestamp",
        "lastCompactionDurationTimeInMills",
        "avgMessagesPerEntry",
    )
)
"""Fields whose joined value is the largest of the partitions' values."""
EARLIEST: Final = frozenset(
    (
        "topicCreationTimeStamp",
        "earliestMsgPublishTimeInBacklogs",
        "earliestMsgPublishTimeInBacklog",
        "firstMessagesSentTimestamp",
        "firstConsumedFlowTimestamp",
    )
)
"""Fields whose joined value is the smallest value above 0; without one, the largest."""
OF_PARTITION: Final = frozenset(
    (
        "accessMode",
        "producerName",
        "address",
        "connectedSince",
        "clientVersion",
        "metadata",
        "drainingHashes",
        "keyHashRangeArrays",
        "activeConsumerName",
        "keySharedMode",
        "subscriptionProperties",
    )
)
"""Fields of clients and subscriptions that differ from one partition to the next."""
KEPT: Final = frozenset(("activeConsumerName", "keySharedMode", "subscriptionProperties"))
"""Fields of a subscription, among these, that the value of one partition stands for."""


def joined_stats(partitions: Sequence[Json]) -> Json:
    """Return the topic's statistics, from those of at least one partition."""
    found = {
        name: _joined(name, [one[name] for one in partitions if name in one])
        for name in _names(partitions)
        if name not in OWN | {"oldestBacklogMessageSubscriptionName"}
    }
    found["averageMsgSize"] = ratio(found["msgThroughputIn"], found["msgRateIn"])
    oldest = max(partitions, key=lambda one: one["oldestBacklogMessageAgeSeconds"])
    found["oldestBacklogMessageAgeSeconds"] = max(oldest["oldestBacklogMessageAgeSeconds"], 0)
    if "oldestBacklogMessageSubscriptionName" in oldest:
        name = oldest["oldestBacklogMessageSubscriptionName"]
        found["oldestBacklogMessageSubscriptionName"] = name
    return found


def _names(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the fields of all objects, each once."""
    return list(dict.fromkeys(name for one in objects for name in one))


def _joined(name: str, values: list[Any]) -> Any:
    if name in ("publishers", "consumers"):
        return _clients(name, values)
    if name == "subscriptions":
        return {
            each: _subscription([one[each] for one in values if each in one])
            for each in _names(values)
        }
    return _value(name, values)


def _subscription(parts: list[Json]) -> Json:
    """Return the statistics of one subscription, from all partitions that have it."""
    kept = [name for name in _names(parts) if name not in OF_PARTITION or name in KEPT]
    return {name: _joined(name, [one[name] for one in parts if name in one]) for name in kept}


def _clients(kind: str, partitions: list[list[Json]]) -> list[Json]:
    """Join clients of the partitions in their order: a client usually has one in each of them."""
    return [
        _client(kind, [client for client in same if client is not None])
        for same in zip_longest(*partitions)
    ]


def _client(kind: str, parts: list[Json]) -> Json:
    kept = [name for name in _names(parts) if name not in OF_PARTITION]
    found = {name: _value(name, [one[name] for one in parts if name in one]) for name in kept}
    if kind == "publishers":
        found["producerId"] = 0
        found["averageMsgSize"] = ratio(found["msgThroughputIn"], found["msgRateIn"])
    else:
        found["lastAckedTime"] = iso(found["lastAckedTimestamp"])
        found["lastConsumedTime"] = iso(found["lastConsumedTimestamp"])
    return found


def _value(name: str, values: list[Any]) -> Any:
    """Return one value for the values of all partitions."""
    first = values[0]
    if isinstance(first, dict):
        return {
            key: _value(key, [one[key] for one in values if key in one]) for key in _names(values)
        }
    if isinstance(first, bool):
        return _any(values)
    if isinstance(first, int | float):
        return _rule(name)(values)
    return first


def _any(values: list[bool]) -> bool:
    return any(values)


def _rule(name: str) -> Callable[[list[Any]], Any]:
    if name in LATEST:  # promise: times of partitions are not added up
        return max
    if name in EARLIEST:
        return _earliest
    return _size if name == "backlogSize" else sum


def _earliest(values: list[int]) -> int:
    return min((value for value in values if value > 0), default=max(values))


def _size(values: list[int]) -> int:
    """Return the sum of sizes of backlogs; -1 where they were not asked for."""
    return -1 if -1 in values else sum(values)
