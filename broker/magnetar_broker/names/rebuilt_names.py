"""Rebuilds metadata other than the records of logs, as far as topic names determine it."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from magnetar_broker.base.metadata_keys import (
    STARTS,
    TOPICS,
    namespace_key,
    namespace_policies_key,
    partitions_key,
    topic_key,
    topic_of_names,
)
from magnetar_broker.config.domains import InactiveMode
from magnetar_broker.policies.policy import PolicyValues
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import INACTIVE_TOPICS, RETENTION
from magnetar_broker.policies.values import InactiveTopics
from magnetar_proto.names import SYSTEM_NAMESPACE, TopicName
from magnetar_storage.interfaces import SegmentId

RECOVERED_NAMESPACE = "recovered/default"
"""The namespace of recovered messages whose topic is unknown."""
KEEPING: PolicyValues = {
    RETENTION: Retention(-1, -1),
    INACTIVE_TOPICS: InactiveTopics(False, InactiveMode.NO_SUBSCRIPTIONS, 60),
}
"""Policies that keep everything until an administrator sets the policies that were lost."""
STARTS_EACH = 1000
"""The number of processes that each start is assumed to have begun: more than any has."""
MOST_PARTITIONS = 10_000
"""The limit of partition numbers: a topic with a larger one counts as not partitioned."""


def recovered_key(segment: SegmentId) -> str:
    """Return the key of the log of recovered messages whose topic is unknown."""
    tenant, namespace = RECOVERED_NAMESPACE.split("/")
    return topic_key(TopicName("persistent", tenant, namespace, f"segment-{segment}"))


def values_by_names(keys: Iterable[str], starts: int, known: dict[str, bytes]) -> dict[str, bytes]:
    """Return the records of namespaces, policies, partitioned topics and starts for keys of logs.

    `known` values, of older metadata, are kept, except numbers of partitions that grow.
    """
    topics = [topic_of_names(key.removeprefix(TOPICS)) for key in keys]
    made: dict[str, bytes] = {}
    for namespace in {topic.namespace_name for topic in topics}:
        key = namespace_key(namespace)
        if key in known:
            continue
        made[key] = _json({})
        if namespace != SYSTEM_NAMESPACE:
            made[namespace_policies_key(namespace)] = _json(
                {policy.name: policy.codec.encode(value) for policy, value in KEEPING.items()}
            )
    for topic, partitions in _partitions(topics).items():
        key = partitions_key(topic)
        fields = json.loads(known.get(key, b"{}"))
        made[key] = _json(fields | {"partitions": max(partitions, fields.get("partitions", 0))})
    count = json.loads(known.get(STARTS, b"{}")).get("count", 0)
    made[STARTS] = _json({"count": max(count, starts) + STARTS_EACH * (starts + 1)})
    return made


def _partitions(topics: Iterable[TopicName]) -> Counter[TopicName]:
    """Return the least number of partitions that each partitioned topic has."""
    found: Counter[TopicName] = Counter()
    for topic in topics:
        if 0 <= topic.partition < MOST_PARTITIONS:
            found[topic.base] = max(found[topic.base], topic.partition + 1)
    return found


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
