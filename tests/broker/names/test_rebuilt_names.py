"""Rebuilding tenants, namespaces and partitions from the names of topics."""

import json

from magnetar_broker.base.metadata_keys import (
    STARTS,
    namespace_key,
    namespace_policies_key,
    partitions_key,
    topic_key,
)
from magnetar_broker.names.rebuilt_names import KEEPING, recovered_key, values_by_names
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import INACTIVE_TOPICS, RETENTION
from magnetar_proto.names import TopicName


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://{name}")


def made(*names: str, known: dict[str, bytes] | None = None) -> dict[str, bytes]:
    return values_by_names([topic_key(topic(name)) for name in names], 3, known or {})


def partitions(values: dict[str, bytes], name: str) -> object:
    return json.loads(values[partitions_key(topic(name))])


def test_namespaces_keep_everything_until_their_policies_are_set() -> None:
    values = made("a/b/c", "a/b/d é", "pulsar/system/health")
    assert values[namespace_key("a/b")] == values[namespace_key("pulsar/system")] == b"{}"
    key = namespace_policies_key("a/b")
    stored = StoredPolicies(key, json.loads(values[key]), None)
    assert {policy: stored.get(policy) for policy in KEEPING} == KEEPING
    retention, inactive = stored.get(RETENTION), stored.get(INACTIVE_TOPICS)
    assert inactive is not None and not inactive.delete
    assert retention == Retention(-1, -1)
    assert namespace_policies_key("pulsar/system") not in values


def test_the_largest_partition_tells_how_many_there_are() -> None:
    values = made("a/b/c-partition-4", "a/b/c-partition-0", "a/b/d", "a/b/e-partition-99999999")
    assert partitions(values, "a/b/c") == {"partitions": 5}
    assert partitions_key(topic("a/b/d")) not in values
    assert partitions_key(topic("a/b/e")) not in values, "it would have a hundred million"


def test_what_older_metadata_says_stays() -> None:
    parted, policies = partitions_key(topic("a/b/c")), namespace_policies_key("a/b")
    known = {
        namespace_key("a/b"): b'{"properties": {"x": "y"}}',
        policies: b'{"message_ttl": 5}',
        parted: b'{"partitions": 8, "properties": {"x": "y"}}',
        STARTS: b'{"count": 70000}',
    }
    values = made("a/b/c-partition-4", known=known)
    assert namespace_key("a/b") not in values and policies not in values
    assert json.loads(values[parted]) == {"partitions": 8, "properties": {"x": "y"}}
    assert json.loads(values[STARTS])["count"] > 70000


def test_names_of_producers_are_new_whatever_the_starts_have_counted() -> None:
    """Every start may have begun some hundred processes, each with a number of its own."""
    assert json.loads(made("a/b/c")[STARTS])["count"] >= 4 * 1000
    known = {STARTS: b'{"count": 70000}'}
    assert json.loads(made("a/b/c", known=known)[STARTS])["count"] >= 70000 + 4 * 1000


def test_ledgers_without_a_name_are_topics() -> None:
    assert recovered_key(17) == topic_key(topic("recovered/default/segment-17"))
