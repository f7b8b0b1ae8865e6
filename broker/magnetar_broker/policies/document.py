"""All policies of a namespace as one JSON object, as clients read and write them."""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar_broker.policies import table
from magnetar_broker.policies.policy import Policy, Said
from magnetar_broker.policies.resolver import Policies

MEMBERS: dict[str, Policy[Any]] = {
    "retention_policies": table.RETENTION,
    "message_ttl_in_seconds": table.MESSAGE_TTL,
    "subscription_expiration_time_minutes": table.SUBSCRIPTION_EXPIRATION,
    "inactive_topic_policies": table.INACTIVE_TOPICS,
    "compaction_threshold": table.COMPACTION_THRESHOLD,
    "autoTopicCreationOverride": table.AUTO_TOPIC_CREATION,
    "autoSubscriptionCreationOverride": table.AUTO_SUBSCRIPTION_CREATION,
    "max_producers_per_topic": table.MAX_PRODUCERS,
    "max_consumers_per_topic": table.MAX_CONSUMERS,
    "max_consumers_per_subscription": table.MAX_CONSUMERS_PER_SUBSCRIPTION,
    "max_subscriptions_per_topic": table.MAX_SUBSCRIPTIONS,
    "max_topics_per_namespace": table.MAX_TOPICS,
    "max_unacked_messages_per_consumer": table.MAX_UNACKED_PER_CONSUMER,
    "max_unacked_messages_per_subscription": table.MAX_UNACKED_PER_SUBSCRIPTION,
    "subscription_types_enabled": table.SUBSCRIPTION_TYPES,
    "schema_compatibility_strategy": table.SCHEMA_COMPATIBILITY,
    "is_allow_auto_update_schema": table.SCHEMA_AUTO_UPDATE,
    "schema_validation_enforced": table.SCHEMA_VALIDATION_ENFORCED,
    "encryption_required": table.ENCRYPTION_REQUIRED,
    "deduplicationEnabled": table.DEDUPLICATION,
    "deduplicationSnapshotIntervalSeconds": table.DEDUPLICATION_SNAPSHOT_INTERVAL,
    "delayed_delivery_policies": table.DELAYED_DELIVERY,
}
BY_CLUSTER: dict[str, Policy[Any]] = {
    "topicDispatchRate": table.DISPATCH_RATE,
    "subscriptionDispatchRate": table.SUBSCRIPTION_DISPATCH_RATE,
    "clusterSubscribeRate": table.SUBSCRIBE_RATE,
    "publishMaxMessageRate": table.PUBLISH_RATE,
}
"""Members that hold an object with the value under the name of the cluster."""
QUOTAS = "backlog_quota_map"
QUOTA_TYPES: dict[str, Policy[Any]] = {
    "destination_storage": table.BACKLOG_QUOTA_SIZE,
    "message_age": table.BACKLOG_QUOTA_AGE,
}
WHEN_SILENT: dict[str, Any] = {
    "subscription_types_enabled": [],
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "schema_validation_enforced": False,
    "encryption_required": False,
}
"""What members hold that are there although the namespace says nothing; clients write it, too."""


async def policies_json(policies: Policies, namespace: str, cluster: str) -> dict[str, Any]:
    """What a namespace says; members that are about something else are not there."""
    document: dict[str, Any] = {QUOTAS: {}, **WHEN_SILENT}
    for member, policy in MEMBERS.items():
        value = await policies.said(policy, namespace)
        if value is not None:
            document[member] = policy.form.encode(value)
    for member, policy in BY_CLUSTER.items():
        value = await policies.said(policy, namespace)
        document[member] = {} if value is None else {cluster: policy.form.encode(value)}
    for kind, policy in QUOTA_TYPES.items():
        value = await policies.said(policy, namespace)
        if value is not None:
            document[QUOTAS][kind] = quota_json(policy, value)
    return document


def quota_json(policy: Policy[Any], value: Any) -> dict[str, Any]:
    """A backlog quota, with the name that its size had in former days."""
    written = policy.form.encode(value)
    return {"limit": written["limitSize"], **written}


def said_in_policies_json(document: Mapping[str, Any], cluster: str) -> Said:
    """What such an object says, to have a new namespace say it; other members are passed over.

    ValueError (`OutOfRange`) names the member that cannot be so.
    """
    said: dict[Policy[Any], Any] = {}
    for member, policy, value in _members(document, cluster):
        try:
            said[policy] = policy.form.decode(value)
        except ValueError as error:
            raise type(error)(f"{member}: {error}") from error
    return said


def _members(document: Mapping[str, Any], cluster: str) -> Iterator[tuple[str, Policy[Any], Any]]:
    """The values that are there, by the names of their members."""
    for member, policy in MEMBERS.items():
        value = document.get(member)
        if value is not None and value != WHEN_SILENT.get(member):
            yield member, policy, value
    for member, policy in BY_CLUSTER.items():
        value = _object(document, member).get(cluster)
        if value is not None:
            yield f"{member}.{cluster}", policy, value
    for kind, policy in QUOTA_TYPES.items():
        value = _object(document, QUOTAS).get(kind)
        if value is not None:
            yield f"{QUOTAS}.{kind}", policy, value


def _object(document: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = document.get(member)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{member}: expected an object")
    return value
