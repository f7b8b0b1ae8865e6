"""The policies of namespaces, a line each."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker import policies
from magnetar_broker.policies import SchemaCompatibility
from magnetar_broker.server.admin.policies.line import NamespaceLine
from magnetar_broker.server.admin.policies.quotas import check_namespace_retention
from magnetar_broker.server.admin.site import Handler
from magnetar_broker.server.http.table import Route

LINES: tuple[NamespaceLine[Any], ...] = (
    NamespaceLine(
        segment="retention",
        policy=policies.RETENTION,
        empty_unsays=True,
        check=check_namespace_retention,
    ),
    NamespaceLine(segment="messageTTL", policy=policies.MESSAGE_TTL),
    NamespaceLine(segment="subscriptionExpirationTime", policy=policies.SUBSCRIPTION_EXPIRATION),
    NamespaceLine(
        segment="inactiveTopicPolicies", policy=policies.INACTIVE_TOPICS, empty_unsays=True
    ),
    NamespaceLine(segment="compactionThreshold", policy=policies.COMPACTION_THRESHOLD, verb="PUT"),
    NamespaceLine(
        segment="autoTopicCreation", policy=policies.AUTO_TOPIC_CREATION, empty_unsays=True
    ),
    NamespaceLine(
        segment="autoSubscriptionCreation",
        policy=policies.AUTO_SUBSCRIPTION_CREATION,
        empty_unsays=True,
    ),
    NamespaceLine(segment="publishRate", policy=policies.PUBLISH_RATE, empty_unsays=True),
    NamespaceLine(segment="dispatchRate", policy=policies.DISPATCH_RATE, empty_unsays=True),
    NamespaceLine(
        segment="subscriptionDispatchRate",
        policy=policies.SUBSCRIPTION_DISPATCH_RATE,
        empty_unsays=True,
    ),
    NamespaceLine(segment="subscribeRate", policy=policies.SUBSCRIBE_RATE, empty_unsays=True),
    NamespaceLine(segment="maxProducersPerTopic", policy=policies.MAX_PRODUCERS),
    NamespaceLine(segment="maxConsumersPerTopic", policy=policies.MAX_CONSUMERS),
    NamespaceLine(
        segment="maxConsumersPerSubscription", policy=policies.MAX_CONSUMERS_PER_SUBSCRIPTION
    ),
    NamespaceLine(segment="maxSubscriptionsPerTopic", policy=policies.MAX_SUBSCRIPTIONS),
    NamespaceLine(segment="maxTopicsPerNamespace", policy=policies.MAX_TOPICS, unset=0),
    NamespaceLine(
        segment="maxUnackedMessagesPerConsumer", policy=policies.MAX_UNACKED_PER_CONSUMER
    ),
    NamespaceLine(
        segment="maxUnackedMessagesPerSubscription", policy=policies.MAX_UNACKED_PER_SUBSCRIPTION
    ),
    NamespaceLine(
        segment="subscriptionTypesEnabled", policy=policies.SUBSCRIPTION_TYPES, unset=frozenset()
    ),
    NamespaceLine(
        segment="schemaCompatibilityStrategy",
        policy=policies.SCHEMA_COMPATIBILITY,
        verb="PUT",
        unset=SchemaCompatibility.UNDEFINED,
        empty_unsays=True,
        removable=False,
    ),
    NamespaceLine(
        segment="isAllowAutoUpdateSchema",
        policy=policies.SCHEMA_AUTO_UPDATE,
        unset=True,
        removable=False,
    ),
    NamespaceLine(
        segment="schemaValidationEnforced",
        policy=policies.SCHEMA_VALIDATION_ENFORCED,
        unset=False,
        removable=False,
    ),
    NamespaceLine(
        segment="encryptionRequired",
        policy=policies.ENCRYPTION_REQUIRED,
        unset=False,
        removable=False,
    ),
    NamespaceLine(segment="deduplication", policy=policies.DEDUPLICATION),
    NamespaceLine(
        segment="deduplicationSnapshotInterval",
        policy=policies.DEDUPLICATION_SNAPSHOT_INTERVAL,
        empty_unsays=True,
        removable=False,
    ),
    NamespaceLine(segment="delayedDelivery", policy=policies.DELAYED_DELIVERY, empty_unsays=True),
)


def routes() -> Iterator[Route[Handler]]:
    """What is answered."""
    for line in LINES:
        yield from line.routes()
