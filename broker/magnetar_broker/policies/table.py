"""The declarations of all policies."""

from enum import StrEnum
from typing import Any

from magnetar_broker.config import Settings, TopicType
from magnetar_broker.config.domains import SchemaCompatibility, SubscriptionType
from magnetar_broker.policies import values
from magnetar_broker.policies.codecs import (
    LONG,
    ByName,
    Flag,
    OneOf,
    OutOfRange,
    SomeOf,
    WholeNumber,
)
from magnetar_broker.policies.policy import Member, Policy, RestPath, SpecialPath
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


def _limit(
    name: str,
    meaning: str,
    setting: str,
    member: str,
    namespace: RestPath[int],
    topic: RestPath[int] | None,
) -> Policy[int]:
    """Return a policy whose default is one setting, a number; 0 means no limit."""

    def default(settings: Settings) -> int:
        return int(getattr(settings, setting))

    return Policy(
        name=name, codec=WholeNumber(), meaning=meaning, default=default, settings=(setting,),
        namespace=namespace, topic=topic, member=Member(member),
    )  # fmt: skip


# How long messages, subscriptions and topics stay ---------------------------------------------

RETENTION: Policy[Retention] = Policy(
    name="retention",
    codec=values.RETENTION,
    meaning=(
        "How much of what all subscriptions have acknowledged is kept: by age, by size. Time -1 "
        "and size -1 mean no limit, 0 and 0 keep nothing; one of them 0 is refused."
    ),
    default=lambda settings: Retention(
        settings.default_retention_time_in_minutes, settings.default_retention_size_in_mb
    ),
    settings=("default_retention_time_in_minutes", "default_retention_size_in_mb"),
    namespace=RestPath(segment="retention", empty_deletes=True),
    topic=RestPath(segment="retention", empty_deletes=True),
    member=Member("retention_policies"),
)
MESSAGE_TTL = _limit(
    "message_ttl",
    "Seconds after which a message is acknowledged for every subscription; 0 means never.",
    "ttl_duration_default_in_seconds",
    namespace=RestPath(segment="messageTTL"),
    topic=RestPath(segment="messageTTL", parameter="messageTTL"),
    member="message_ttl_in_seconds",
)
SUBSCRIPTION_EXPIRATION = _limit(
    "subscription_expiration",
    "Minutes after which an unused subscription is deleted; 0 means never.",
    "subscription_expiration_time_minutes",
    namespace=RestPath(segment="subscriptionExpirationTime"),
    topic=RestPath(segment="subscriptionExpirationTime", parameter="subscriptionExpirationTime"),
    member="subscription_expiration_time_minutes",
)
INACTIVE_TOPICS: Policy[InactiveTopics] = Policy(
    name="inactive_topics",
    codec=values.INACTIVE_TOPICS,
    meaning=(
        "Whether an unused topic is deleted, and after how many seconds. Mode "
        "`delete_when_no_subscriptions`, or `delete_when_subscriptions_caught_up`."
    ),
    default=lambda settings: InactiveTopics(
        settings.broker_delete_inactive_topics_enabled,
        settings.broker_delete_inactive_topics_mode,
        settings.broker_delete_inactive_topics_max_inactive_duration_seconds
        or settings.broker_delete_inactive_topics_frequency_seconds,
    ),
    settings=(
        "broker_delete_inactive_topics_enabled",
        "broker_delete_inactive_topics_mode",
        "broker_delete_inactive_topics_max_inactive_duration_seconds",
        "broker_delete_inactive_topics_frequency_seconds",
    ),
    namespace=RestPath(segment="inactiveTopicPolicies", empty_deletes=True),
    topic=RestPath(segment="inactiveTopicPolicies", empty_deletes=True),
    member=Member("inactive_topic_policies"),
)
COMPACTION_THRESHOLD: Policy[int] = Policy(
    name="compaction_threshold",
    codec=WholeNumber(0, LONG),
    meaning="Bytes published since the last compaction after which it runs again; 0 means never.",
    default=lambda settings: settings.broker_service_compaction_threshold_in_bytes,
    settings=("broker_service_compaction_threshold_in_bytes",),
    namespace=RestPath(segment="compactionThreshold", verb="PUT"),
    topic=RestPath(segment="compactionThreshold"),
    member=Member("compaction_threshold"),
)

# Backlog ----------------------------------------------------------------------------


def _quota_bytes(settings: Settings) -> int:
    gigabytes = settings.backlog_quota_default_limit_gb
    return int(gigabytes * 2**30) if gigabytes > 0 else settings.backlog_quota_default_limit_bytes


def _quota_path(subject: str, kind: str) -> SpecialPath:
    one = f"`{subject}/backlogQuota?backlogQuotaType={kind}`"
    return SpecialPath(f"GET `{subject}/backlogQuotaMap`, POST, DELETE {one}")


BACKLOG_QUOTA_SIZE: Policy[BacklogQuota] = Policy(
    name="backlog_quota_size",
    codec=values.QUOTA_SIZE,
    meaning=(
        "Largest backlog of the slowest subscription in bytes (`limitSize`), and what happens "
        "at the limit (`policy`); below 0 means no quota."
    ),
    default=lambda settings: BacklogQuota(
        _quota_bytes(settings),
        settings.backlog_quota_default_retention_policy,
        settings.backlog_quota_default_limit_second,
    ),
    settings=(
        "backlog_quota_default_limit_gb",
        "backlog_quota_default_limit_bytes",
        "backlog_quota_default_retention_policy",
    ),
    namespace=_quota_path("{ns}", "destination_storage"),
    topic=_quota_path("{topic}", "destination_storage"),
)
BACKLOG_QUOTA_AGE: Policy[BacklogQuota] = Policy(
    name="backlog_quota_age",
    codec=values.QUOTA_AGE,
    meaning=(
        "Largest age of the oldest unacknowledged message in seconds (`limitTime`), and what "
        "happens at the limit (`policy`); 0 or less means no quota."
    ),
    default=lambda settings: BacklogQuota(
        settings.backlog_quota_default_limit_second,
        settings.backlog_quota_default_retention_policy,
        _quota_bytes(settings),
    ),
    settings=("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
    namespace=_quota_path("{ns}", "message_age"),
    topic=_quota_path("{topic}", "message_age"),
)

# Automatic creation ------------------------------------------------------------------

AUTO_TOPIC_CREATION: Policy[AutoTopicCreation] = Policy(
    name="auto_topic_creation",
    codec=values.AUTO_TOPIC_CREATION,
    meaning="Whether using a topic creates it, and with how many partitions.",
    default=lambda settings: AutoTopicCreation(
        settings.allow_auto_topic_creation,
        settings.allow_auto_topic_creation_type is TopicType.PARTITIONED,
        settings.default_num_partitions,
    ),
    settings=(
        "allow_auto_topic_creation",
        "allow_auto_topic_creation_type",
        "default_num_partitions",
    ),
    namespace=RestPath(segment="autoTopicCreation", empty_deletes=True),
    member=Member("autoTopicCreationOverride"),
)
AUTO_SUBSCRIPTION_CREATION: Policy[bool] = Policy(
    name="auto_subscription_creation",
    codec=values.AUTO_SUBSCRIPTION_CREATION,
    meaning="Whether subscribing creates the subscription.",
    default=lambda settings: settings.allow_auto_subscription_creation,
    settings=("allow_auto_subscription_creation",),
    namespace=RestPath(segment="autoSubscriptionCreation", empty_deletes=True),
    topic=RestPath(segment="autoSubscriptionCreation", empty_deletes=True),
    member=Member("autoSubscriptionCreationOverride"),
)

# Rates ----------------------------------------------------------------

PUBLISH_RATE: Policy[PublishRate] = Policy(
    name="publish_rate",
    codec=values.PUBLISH_RATE,
    meaning="Maximum number of messages and bytes published to a topic per second; 0 or less "
    "means no limit.",
    default=lambda settings: PublishRate(
        settings.max_publish_rate_per_topic_in_messages,
        settings.max_publish_rate_per_topic_in_bytes,
    ),
    settings=("max_publish_rate_per_topic_in_messages", "max_publish_rate_per_topic_in_bytes"),
    namespace=RestPath(segment="publishRate", empty_deletes=True),
    topic=RestPath(segment="publishRate", unset_status=204, empty_deletes=True),
    member=Member("publishMaxMessageRate", by_cluster=True),
)
DISPATCH_RATE: Policy[DispatchRate] = Policy(
    name="dispatch_rate",
    codec=values.DISPATCH_RATE,
    meaning=(
        "Maximum number of messages and bytes that a topic delivers per period "
        "(`ratePeriodInSecond`); 0 or less means no limit. With `relativeToPublishRate` the "
        "current rate of publishing is added."
    ),
    default=lambda settings: DispatchRate(
        settings.dispatch_throttling_rate_per_topic_in_msg,
        settings.dispatch_throttling_rate_per_topic_in_byte,
        1,
        settings.dispatch_throttling_rate_relative_to_publish_rate,
    ),
    settings=(
        "dispatch_throttling_rate_per_topic_in_msg",
        "dispatch_throttling_rate_per_topic_in_byte",
        "dispatch_throttling_rate_relative_to_publish_rate",
    ),
    namespace=RestPath(segment="dispatchRate", empty_deletes=True),
    topic=RestPath(segment="dispatchRate", empty_deletes=True),
    member=Member("topicDispatchRate", by_cluster=True),
)
SUBSCRIPTION_DISPATCH_RATE: Policy[DispatchRate] = Policy(
    name="subscription_dispatch_rate",
    codec=values.DISPATCH_RATE,
    meaning=(
        "Maximum number of messages and bytes that each subscription of a topic delivers in a "
        "period; members as in `dispatch_rate`."
    ),
    default=lambda settings: DispatchRate(
        settings.dispatch_throttling_rate_per_subscription_in_msg,
        settings.dispatch_throttling_rate_per_subscription_in_byte,
        1,
        settings.dispatch_throttling_rate_relative_to_publish_rate,
    ),
    settings=(
        "dispatch_throttling_rate_per_subscription_in_msg",
        "dispatch_throttling_rate_per_subscription_in_byte",
        "dispatch_throttling_rate_relative_to_publish_rate",
    ),
    namespace=RestPath(segment="subscriptionDispatchRate", empty_deletes=True),
    topic=RestPath(segment="subscriptionDispatchRate", empty_deletes=True),
    member=Member("subscriptionDispatchRate", by_cluster=True),
)
SUBSCRIPTION_DISPATCH_RATES: Policy[dict[str, DispatchRate]] = Policy(
    name="subscription_dispatch_rates",
    codec=ByName(values.DISPATCH_RATE),
    meaning=(
        "Dispatch rate of one subscription, by its name; takes precedence over "
        "`subscription_dispatch_rate`."
    ),
    default=lambda settings: {},
    unset={},
    topic=SpecialPath("`{topic}/{subscription}/dispatchRate`"),
)
"""The rate by the name of the subscription; it precedes SUBSCRIPTION_DISPATCH_RATE."""
SUBSCRIBE_RATE: Policy[SubscribeRate] = Policy(
    name="subscribe_rate",
    codec=values.SUBSCRIBE_RATE,
    meaning="How often one consumer can subscribe in a period; 0 or less means no limit.",
    default=lambda settings: SubscribeRate(
        settings.subscribe_throttling_rate_per_consumer,
        settings.subscribe_rate_period_per_consumer_in_second,
    ),
    settings=(
        "subscribe_throttling_rate_per_consumer",
        "subscribe_rate_period_per_consumer_in_second",
    ),
    namespace=RestPath(segment="subscribeRate", empty_deletes=True),
    topic=RestPath(segment="subscribeRate", empty_deletes=True),
    member=Member("clusterSubscribeRate", by_cluster=True),
)

# Numbers; 0 means no limit ---------------------------------------------------------

MAX_PRODUCERS = _limit(
    "max_producers",
    "Maximum number of producers of a topic; 0 means no limit.",
    "max_producers_per_topic",
    namespace=RestPath(segment="maxProducersPerTopic"),
    topic=RestPath(segment="maxProducers"),
    member="max_producers_per_topic",
)
MAX_CONSUMERS = _limit(
    "max_consumers",
    "Maximum number of consumers of a topic; 0 means no limit.",
    "max_consumers_per_topic",
    namespace=RestPath(segment="maxConsumersPerTopic"),
    topic=RestPath(segment="maxConsumers"),
    member="max_consumers_per_topic",
)
MAX_CONSUMERS_PER_SUBSCRIPTION = _limit(
    "max_consumers_per_subscription",
    "Maximum number of consumers of a subscription; 0 means no limit.",
    "max_consumers_per_subscription",
    namespace=RestPath(segment="maxConsumersPerSubscription"),
    topic=RestPath(segment="maxConsumersPerSubscription", unset_status=204),
    member="max_consumers_per_subscription",
)
MAX_SUBSCRIPTIONS = _limit(
    "max_subscriptions",
    "Maximum number of subscriptions of a topic; 0 means no limit.",
    "max_subscriptions_per_topic",
    namespace=RestPath(segment="maxSubscriptionsPerTopic"),
    topic=RestPath(segment="maxSubscriptionsPerTopic", unset_status=204),
    member="max_subscriptions_per_topic",
)
MAX_UNACKED_PER_CONSUMER = _limit(
    "max_unacked_per_consumer",
    "Maximum number of unacknowledged messages of a consumer; 0 means no limit.",
    "max_unacked_messages_per_consumer",
    namespace=RestPath(segment="maxUnackedMessagesPerConsumer"),
    topic=RestPath(segment="maxUnackedMessagesOnConsumer", empty_deletes=True),
    member="max_unacked_messages_per_consumer",
)
MAX_UNACKED_PER_SUBSCRIPTION = _limit(
    "max_unacked_per_subscription",
    "Maximum number of unacknowledged messages of all consumers of a subscription; 0 means no "
    "limit.",
    "max_unacked_messages_per_subscription",
    namespace=RestPath(segment="maxUnackedMessagesPerSubscription"),
    topic=RestPath(segment="maxUnackedMessagesOnSubscription", empty_deletes=True),
    member="max_unacked_messages_per_subscription",
)
MAX_TOPICS = _limit(
    "max_topics",
    "Maximum number of topics of a namespace, each partition counted; 0 means no limit.",
    "max_topics_per_namespace",
    namespace=RestPath(segment="maxTopicsPerNamespace", when_unset=0),
    topic=None,
    member="max_topics_per_namespace",
)


def _check_message_size(settings: Settings, size: int) -> None:
    if size > settings.max_message_size:
        raise OutOfRange(
            f"{size} bytes exceed maxMessageSize, the limit of all messages: "
            f"expected 0 to {settings.max_message_size}"
        )


MAX_MESSAGE_SIZE: Policy[int] = Policy(
    name="max_message_size",
    codec=WholeNumber(),
    meaning="Largest message in bytes, at most the setting `maxMessageSize`; 0 is that setting.",
    default=lambda settings: 0,
    topic=RestPath(segment="maxMessageSize", unset_status=204, refused=401),
    check=_check_message_size,
)
SUBSCRIPTION_TYPES: Policy[frozenset[SubscriptionType]] = Policy(
    name="subscription_types",
    codec=SomeOf(SubscriptionType),
    meaning="The allowed types of subscriptions; an empty list is the same as unset.",
    default=lambda settings: settings.subscription_types_enabled,
    settings=("subscription_types_enabled",),
    unset=frozenset(),
    namespace=RestPath(segment="subscriptionTypesEnabled", when_unset=frozenset()),
    topic=RestPath(segment="subscriptionTypesEnabled", when_unset=frozenset()),
    member=Member("subscription_types_enabled", when_unset=[]),
)

# Authorization --------------------------------------------------------------------------

SUBSCRIPTION_AUTH_MODE: Policy[SubscriptionAuthMode] = Policy(
    name="subscription_auth_mode",
    codec=OneOf(SubscriptionAuthMode),
    meaning=(
        "Whether the names of subscriptions must begin with the role of their consumers, if "
        "`authorizationEnabled` is set."
    ),
    default=lambda settings: SubscriptionAuthMode.NONE,
    no_effect="authorizationEnabled is false: everyone who can connect may do everything",
    takes_effect=lambda settings: settings.authorization_enabled,
    unset=SubscriptionAuthMode.NONE,
    namespace=RestPath(
        segment="subscriptionAuthMode",
        when_unset=SubscriptionAuthMode.NONE,
        empty_deletes=True,
        removable=False,
    ),
    member=Member("subscription_auth_mode", when_unset="None"),
)

# Schemas and encryption ------------------------------------------------------------------

SCHEMA_COMPATIBILITY: Policy[SchemaCompatibility] = Policy(
    name="schema_compatibility",
    codec=OneOf(SchemaCompatibility),
    meaning="Which changes of a topic's schema are allowed; `UNDEFINED` is the same as unset.",
    default=lambda settings: settings.schema_compatibility_strategy,
    settings=("schema_compatibility_strategy",),
    unset=SchemaCompatibility.UNDEFINED,
    namespace=RestPath(
        segment="schemaCompatibilityStrategy",
        verb="PUT",
        when_unset=SchemaCompatibility.UNDEFINED,
        empty_deletes=True,
        removable=False,
    ),
    topic=RestPath(segment="schemaCompatibilityStrategy", verb="PUT", empty_deletes=True),
    member=Member("schema_compatibility_strategy", when_unset="UNDEFINED"),
)
SCHEMA_AUTO_UPDATE: Policy[bool] = Policy(
    name="schema_auto_update",
    codec=Flag(),
    meaning="Whether a producer can add a version to its topic's schema.",
    default=lambda settings: settings.is_allow_auto_update_schema_enabled,
    settings=("is_allow_auto_update_schema_enabled",),
    namespace=RestPath(segment="isAllowAutoUpdateSchema", when_unset=True, removable=False),
    member=Member("is_allow_auto_update_schema", when_unset=True),
)
SCHEMA_VALIDATION_ENFORCED: Policy[bool] = Policy(
    name="schema_validation_enforced",
    codec=Flag(),
    meaning="Whether producers without a schema are refused if the topic has one.",
    default=lambda settings: settings.is_schema_validation_enforced,
    settings=("is_schema_validation_enforced",),
    namespace=RestPath(segment="schemaValidationEnforced", when_unset=False, removable=False),
    topic=RestPath(segment="schemaValidationEnforced", when_unset=False, removable=False),
    member=Member("schema_validation_enforced", when_unset=False),
)
ENCRYPTION_REQUIRED: Policy[bool] = Policy(
    name="encryption_required",
    codec=Flag(),
    meaning="Whether producers must encrypt; `false` is the same as unset.",
    default=lambda settings: settings.encryption_require_on_producer,
    settings=("encryption_require_on_producer",),
    unset=False,
    namespace=RestPath(segment="encryptionRequired", when_unset=False, removable=False),
    member=Member("encryption_required", when_unset=False),
)

# Deduplication and delays ---------------------------------------------------------------------

DEDUPLICATION: Policy[bool] = Policy(
    name="deduplication",
    codec=Flag(),
    meaning="Whether repeated messages of a producer are dropped.",
    default=lambda settings: settings.broker_deduplication_enabled,
    settings=("broker_deduplication_enabled",),
    namespace=RestPath(segment="deduplication"),
    topic=RestPath(segment="deduplicationEnabled", empty_deletes=True),
    member=Member("deduplicationEnabled"),
)
DEDUPLICATION_SNAPSHOT_INTERVAL = _limit(
    "deduplication_snapshot_interval",
    "Seconds between snapshots of the deduplication state; 0 means none by time.",
    "broker_deduplication_snapshot_interval_seconds",
    namespace=RestPath(
        segment="deduplicationSnapshotInterval", empty_deletes=True, removable=False
    ),
    topic=RestPath(segment="deduplicationSnapshotInterval", empty_deletes=True),
    member="deduplicationSnapshotIntervalSeconds",
)
DELAYED_DELIVERY: Policy[DelayedDelivery] = Policy(
    name="delayed_delivery",
    codec=values.DELAYED_DELIVERY,
    meaning=(
        "Whether delayed delivery is enabled, its precision (`tickTime`, ms), and the longest "
        "delay (ms, 0 means no limit)."
    ),
    default=lambda settings: DelayedDelivery(
        settings.delayed_delivery_enabled,
        settings.delayed_delivery_tick_time_millis,
        settings.delayed_delivery_max_delay_in_millis,
    ),
    settings=(
        "delayed_delivery_enabled",
        "delayed_delivery_tick_time_millis",
        "delayed_delivery_max_delay_in_millis",
    ),
    namespace=RestPath(segment="delayedDelivery", empty_deletes=True),
    topic=RestPath(segment="delayedDelivery", empty_deletes=True),
    member=Member("delayed_delivery_policies"),
)

TABLE: dict[str, Policy[Any]] = {
    policy.name: policy for policy in list(globals().values()) if isinstance(policy, Policy)
} | WITHOUT_EFFECT
"""Every policy by its name."""
