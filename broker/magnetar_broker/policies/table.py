"""The policies that have an effect, each with its type and its default.

Their names, levels and settings are declared in `magnetar_proto.admin.policies`.
"""

from enum import StrEnum
from typing import Any

from magnetar_broker.config import Settings, TopicType, offload_places
from magnetar_broker.config.domains import SchemaCompatibility, SubscriptionType
from magnetar_broker.policies import offload_values, values
from magnetar_broker.policies.codecs import (
    ANY_LONG,
    LONG,
    ByName,
    Flag,
    OneOf,
    OutOfRange,
    SomeOf,
    WholeNumber,
)
from magnetar_broker.policies.policy import Part, Policy, policy
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.values import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    PublishRate,
    SubscribeRate,
)
from magnetar_broker.policies.without_effect import WITHOUT_EFFECT


class SubscriptionAuthMode(StrEnum):
    NONE = "None"
    PREFIX = "Prefix"


# How long messages, subscriptions and topics stay ---------------------------------------------

RETENTION = policy("retention", values.RETENTION, Retention)
MESSAGE_TTL = policy("message_ttl", WholeNumber())
SUBSCRIPTION_EXPIRATION = policy("subscription_expiration", WholeNumber())
INACTIVE_TOPICS = policy(
    "inactive_topics",
    values.INACTIVE_TOPICS,
    lambda enabled, mode, seconds, frequency_seconds: InactiveTopics(
        enabled, mode, seconds or frequency_seconds
    ),
)
COMPACTION_THRESHOLD = policy("compaction_threshold", WholeNumber(0, LONG))

# Backlog ----------------------------------------------------------------------------


def _quota_bytes(settings: Settings) -> int:
    gigabytes = settings.backlog_quota_default_limit_gb
    return int(gigabytes * 2**30) if gigabytes > 0 else settings.backlog_quota_default_limit_bytes


# Not by `policy`: the default of each shows the limit of the other, too.
BACKLOG_QUOTA_SIZE = Policy(
    "backlog_quota_size",
    values.QUOTA_SIZE,
    lambda settings: BacklogQuota(
        _quota_bytes(settings),
        settings.backlog_quota_default_retention_policy,
        settings.backlog_quota_default_limit_second,
    ),
)
BACKLOG_QUOTA_AGE = Policy(
    "backlog_quota_age",
    values.QUOTA_AGE,
    lambda settings: BacklogQuota(
        settings.backlog_quota_default_limit_second,
        settings.backlog_quota_default_retention_policy,
        _quota_bytes(settings),
    ),
)

# Automatic creation ------------------------------------------------------------------

AUTO_TOPIC_CREATION: Policy[AutoTopicCreation] = policy(
    "auto_topic_creation",
    values.AUTO_TOPIC_CREATION,
    lambda allowed, kind, partitions: AutoTopicCreation(
        allowed, kind is TopicType.PARTITIONED, partitions
    ),
)
AUTO_SUBSCRIPTION_CREATION: Policy[bool] = policy(
    "auto_subscription_creation", values.AUTO_SUBSCRIPTION_CREATION
)

# Rates ----------------------------------------------------------------


def _per_second(messages: int, bytes_: int, relative_to_publish: bool) -> DispatchRate:
    return DispatchRate(messages, bytes_, 1, relative_to_publish)


PUBLISH_RATE = policy("publish_rate", values.PUBLISH_RATE, PublishRate)
DISPATCH_RATE = policy("dispatch_rate", values.DISPATCH_RATE, _per_second)
SUBSCRIPTION_DISPATCH_RATE = policy("subscription_dispatch_rate", values.DISPATCH_RATE, _per_second)
SUBSCRIPTION_DISPATCH_RATES: Policy[dict[str, DispatchRate]] = policy(
    "subscription_dispatch_rates", ByName(values.DISPATCH_RATE), dict, unset={}
)
"""The rate by the name of the subscription; it precedes SUBSCRIPTION_DISPATCH_RATE."""
SUBSCRIBE_RATE = policy("subscribe_rate", values.SUBSCRIBE_RATE, SubscribeRate)

# Numbers; 0 means no limit ---------------------------------------------------------


def _check_message_size(settings: Settings, size: int) -> None:
    if size > settings.max_message_size:
        raise OutOfRange(
            f"{size} bytes exceed maxMessageSize, the limit of all messages: "
            f"expected 0 to {settings.max_message_size}"
        )


MAX_PRODUCERS = policy("max_producers", WholeNumber())
MAX_CONSUMERS = policy("max_consumers", WholeNumber())
MAX_CONSUMERS_PER_SUBSCRIPTION = policy("max_consumers_per_subscription", WholeNumber())
MAX_SUBSCRIPTIONS = policy("max_subscriptions", WholeNumber())
MAX_UNACKED_PER_CONSUMER = policy("max_unacked_per_consumer", WholeNumber())
MAX_UNACKED_PER_SUBSCRIPTION = policy("max_unacked_per_subscription", WholeNumber())
MAX_TOPICS = policy("max_topics", WholeNumber())
MAX_MESSAGE_SIZE = policy("max_message_size", WholeNumber(), lambda: 0, check=_check_message_size)
SUBSCRIPTION_TYPES: Policy[frozenset[SubscriptionType]] = policy(
    "subscription_types", SomeOf(SubscriptionType), unset=frozenset()
)

# Authorization, schemas and encryption --------------------------------------------------------

SUBSCRIPTION_AUTH_MODE = policy(
    "subscription_auth_mode",
    OneOf(SubscriptionAuthMode),
    lambda: SubscriptionAuthMode.NONE,
    takes_effect=lambda settings: settings.authorization_enabled,
    unset=SubscriptionAuthMode.NONE,
)
SCHEMA_COMPATIBILITY: Policy[SchemaCompatibility] = policy(
    "schema_compatibility", OneOf(SchemaCompatibility), unset=SchemaCompatibility.UNDEFINED
)
SCHEMA_AUTO_UPDATE = policy("schema_auto_update", Flag())
SCHEMA_VALIDATION_ENFORCED = policy("schema_validation_enforced", Flag())
ENCRYPTION_REQUIRED = policy("encryption_required", Flag(), unset=False)

# Deduplication and delays ---------------------------------------------------------------------

DEDUPLICATION = policy("deduplication", Flag())
DEDUPLICATION_SNAPSHOT_INTERVAL = policy("deduplication_snapshot_interval", WholeNumber())
DELAYED_DELIVERY = policy("delayed_delivery", values.DELAYED_DELIVERY, DelayedDelivery)

# Tiered storage -------------------------------------------------------------------------------

OFFLOAD: Policy[dict[str, Any]] = Policy(
    "offload",
    offload_values.CODEC,
    offload_places.members_in,
    check=offload_values.check_offload,
    merge=offload_values.merged,
    warning=offload_values.warning,
)
OFFLOAD_THRESHOLD = policy(
    "offload_threshold", ANY_LONG, part=Part(OFFLOAD, offload_values.SIZE_THRESHOLD)
)
OFFLOAD_THRESHOLD_SECONDS = policy(
    "offload_threshold_seconds", ANY_LONG, part=Part(OFFLOAD, offload_values.TIME_THRESHOLD)
)
OFFLOAD_DELETION_LAG = policy(
    "offload_deletion_lag", ANY_LONG, part=Part(OFFLOAD, offload_values.DELETION_LAG)
)

TABLE: dict[str, Policy[Any]] = {
    one.name: one for one in list(globals().values()) if isinstance(one, Policy)
} | WITHOUT_EFFECT
"""Every policy by its name."""
