"""Every policy: its name in the metadata store, its form, and what the settings say."""

from magnetar_broker.config import Settings, TopicType
from magnetar_broker.config.domains import SchemaCompatibility, SubscriptionType
from magnetar_broker.lifetime.retention import Retention
from magnetar_broker.policies import values
from magnetar_broker.policies.forms import LONG, ByName, Flag, OneOf, SomeOf, Whole
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.values import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    PublishRate,
    SubscribeRate,
)


def _limit(name: str, meaning: str, setting: str, of_topic: bool = True) -> Policy[int]:
    """A number of things that one setting gives, too; 0 is no limit."""

    def default(settings: Settings) -> int:
        return int(getattr(settings, setting))

    return Policy(name, Whole(), meaning, default, (setting,), of_topic=of_topic)


# How long messages, subscriptions and topics stay ---------------------------------------------

RETENTION: Policy[Retention] = Policy(
    "retention",
    values.RETENTION,
    "How much of what all subscriptions have acknowledged is kept: by age, by size. Time -1 and "
    "size -1 are no limit, 0 and 0 keep nothing; one of them 0 is refused.",
    lambda settings: Retention(
        settings.default_retention_time_in_minutes, settings.default_retention_size_in_mb
    ),
    ("default_retention_time_in_minutes", "default_retention_size_in_mb"),
)
MESSAGE_TTL = _limit(
    "message_ttl",
    "Seconds after which a message is acknowledged for every subscription; 0 is never.",
    "ttl_duration_default_in_seconds",
)
SUBSCRIPTION_EXPIRATION = _limit(
    "subscription_expiration",
    "Minutes after which a subscription that nobody uses is deleted; 0 is never.",
    "subscription_expiration_time_minutes",
)
INACTIVE_TOPICS: Policy[InactiveTopics] = Policy(
    "inactive_topics",
    values.INACTIVE_TOPICS,
    "Whether a topic that nobody uses is deleted, and after how many seconds. Mode "
    "`delete_when_no_subscriptions`, or `delete_when_subscriptions_caught_up`.",
    lambda settings: InactiveTopics(
        settings.broker_delete_inactive_topics_enabled,
        settings.broker_delete_inactive_topics_mode,
        settings.broker_delete_inactive_topics_max_inactive_duration_seconds
        or settings.broker_delete_inactive_topics_frequency_seconds,
    ),
    (
        "broker_delete_inactive_topics_enabled",
        "broker_delete_inactive_topics_mode",
        "broker_delete_inactive_topics_max_inactive_duration_seconds",
        "broker_delete_inactive_topics_frequency_seconds",
    ),
)
COMPACTION_THRESHOLD: Policy[int] = Policy(
    "compaction_threshold",
    Whole(0, LONG),
    "Bytes published since the last compaction that begin another one; 0 is never by itself.",
    lambda settings: settings.broker_service_compaction_threshold_in_bytes,
    ("broker_service_compaction_threshold_in_bytes",),
)

# How much may wait ----------------------------------------------------------------------------


def _quota_bytes(settings: Settings) -> int:
    gigabytes = settings.backlog_quota_default_limit_gb
    return int(gigabytes * 2**30) if gigabytes > 0 else settings.backlog_quota_default_limit_bytes


BACKLOG_QUOTA_SIZE: Policy[BacklogQuota] = Policy(
    "backlog_quota_size",
    values.QUOTA_SIZE,
    "Bytes that may wait for the slowest subscription (`limitSize`), and what happens at the "
    "limit (`policy`); below 0 there is none.",
    lambda settings: BacklogQuota(
        _quota_bytes(settings),
        settings.backlog_quota_default_retention_policy,
        settings.backlog_quota_default_limit_second,
    ),
    (
        "backlog_quota_default_limit_gb",
        "backlog_quota_default_limit_bytes",
        "backlog_quota_default_retention_policy",
    ),
)
BACKLOG_QUOTA_AGE: Policy[BacklogQuota] = Policy(
    "backlog_quota_age",
    values.QUOTA_AGE,
    "The same for the age of the oldest message that waits, in seconds (`limitTime`); 0 or less "
    "is none.",
    lambda settings: BacklogQuota(
        settings.backlog_quota_default_limit_second,
        settings.backlog_quota_default_retention_policy,
        _quota_bytes(settings),
    ),
    ("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
)

# What is created by using it ------------------------------------------------------------------

AUTO_TOPIC_CREATION: Policy[AutoTopicCreation] = Policy(
    "auto_topic_creation",
    values.AUTO_TOPIC_CREATION,
    "Whether using a topic creates it, and with how many partitions.",
    lambda settings: AutoTopicCreation(
        settings.allow_auto_topic_creation,
        settings.allow_auto_topic_creation_type is TopicType.PARTITIONED,
        settings.default_num_partitions,
    ),
    ("allow_auto_topic_creation", "allow_auto_topic_creation_type", "default_num_partitions"),
    of_topic=False,
)
AUTO_SUBSCRIPTION_CREATION: Policy[bool] = Policy(
    "auto_subscription_creation",
    values.AUTO_SUBSCRIPTION_CREATION,
    "Whether subscribing creates the subscription.",
    lambda settings: settings.allow_auto_subscription_creation,
    ("allow_auto_subscription_creation",),
)

# How fast messages come and go ----------------------------------------------------------------

PUBLISH_RATE: Policy[PublishRate] = Policy(
    "publish_rate",
    values.PUBLISH_RATE,
    "Messages and bytes that may be published to a topic in a second; 0 or less is no limit.",
    lambda settings: PublishRate(
        settings.max_publish_rate_per_topic_in_messages,
        settings.max_publish_rate_per_topic_in_bytes,
    ),
    ("max_publish_rate_per_topic_in_messages", "max_publish_rate_per_topic_in_bytes"),
)
DISPATCH_RATE: Policy[DispatchRate] = Policy(
    "dispatch_rate",
    values.DISPATCH_RATE,
    "Messages and bytes that a topic may deliver in a period of so many seconds; 0 or less is no "
    "limit. `relativeToPublishRate`: on top of what is being published.",
    lambda settings: DispatchRate(
        settings.dispatch_throttling_rate_per_topic_in_msg,
        settings.dispatch_throttling_rate_per_topic_in_byte,
        1,
        settings.dispatch_throttling_rate_relative_to_publish_rate,
    ),
    (
        "dispatch_throttling_rate_per_topic_in_msg",
        "dispatch_throttling_rate_per_topic_in_byte",
        "dispatch_throttling_rate_relative_to_publish_rate",
    ),
)
SUBSCRIPTION_DISPATCH_RATE: Policy[DispatchRate] = Policy(
    "subscription_dispatch_rate",
    values.DISPATCH_RATE,
    "The same for each subscription.",
    lambda settings: DispatchRate(
        settings.dispatch_throttling_rate_per_subscription_in_msg,
        settings.dispatch_throttling_rate_per_subscription_in_byte,
        1,
        settings.dispatch_throttling_rate_relative_to_publish_rate,
    ),
    (
        "dispatch_throttling_rate_per_subscription_in_msg",
        "dispatch_throttling_rate_per_subscription_in_byte",
        "dispatch_throttling_rate_relative_to_publish_rate",
    ),
)
SUBSCRIPTION_DISPATCH_RATES: Policy[dict[str, DispatchRate]] = Policy(
    "subscription_dispatch_rates",
    ByName(values.DISPATCH_RATE),
    "The same for one subscription by its name, before what holds for each.",
    lambda settings: {},
    unsaid={},
    of_namespace=False,
)
"""By the name of the subscription, before SUBSCRIPTION_DISPATCH_RATE."""
SUBSCRIBE_RATE: Policy[SubscribeRate] = Policy(
    "subscribe_rate",
    values.SUBSCRIBE_RATE,
    "How often one consumer may subscribe in a period; 0 or less is no limit.",
    lambda settings: SubscribeRate(
        settings.subscribe_throttling_rate_per_consumer,
        settings.subscribe_rate_period_per_consumer_in_second,
    ),
    ("subscribe_throttling_rate_per_consumer", "subscribe_rate_period_per_consumer_in_second"),
)

# How many there may be; 0 is no limit ---------------------------------------------------------

MAX_PRODUCERS = _limit(
    "max_producers", "Producers of a topic; 0 is no limit.", "max_producers_per_topic"
)
MAX_CONSUMERS = _limit(
    "max_consumers", "Consumers of a topic; 0 is no limit.", "max_consumers_per_topic"
)
MAX_CONSUMERS_PER_SUBSCRIPTION = _limit(
    "max_consumers_per_subscription",
    "Consumers of a subscription; 0 is no limit.",
    "max_consumers_per_subscription",
)
MAX_SUBSCRIPTIONS = _limit(
    "max_subscriptions", "Subscriptions of a topic; 0 is no limit.", "max_subscriptions_per_topic"
)
MAX_UNACKED_PER_CONSUMER = _limit(
    "max_unacked_per_consumer",
    "Messages that a consumer may have and not acknowledge; 0 is no limit.",
    "max_unacked_messages_per_consumer",
)
MAX_UNACKED_PER_SUBSCRIPTION = _limit(
    "max_unacked_per_subscription",
    "The same for all consumers of a subscription together; 0 is no limit.",
    "max_unacked_messages_per_subscription",
)
MAX_TOPICS = _limit(
    "max_topics",
    "Topics in a namespace, partitions one by one; 0 is no limit.",
    "max_topics_per_namespace",
    of_topic=False,
)
MAX_MESSAGE_SIZE: Policy[int] = Policy(
    "max_message_size",
    Whole(),
    "Bytes of a message; 0 is no limit but the broker's `maxMessageSize`, which it may not exceed.",
    lambda settings: 0,
    of_namespace=False,
)
"""Bytes; the broker's maxMessageSize bounds every frame besides."""
SUBSCRIPTION_TYPES: Policy[frozenset[SubscriptionType]] = Policy(
    "subscription_types",
    SomeOf(SubscriptionType),
    "The types that subscriptions may have; an empty list says nothing.",
    lambda settings: settings.subscription_types_enabled,
    ("subscription_types_enabled",),
    unsaid=frozenset(),
)

# What messages may look like ------------------------------------------------------------------

SCHEMA_COMPATIBILITY: Policy[SchemaCompatibility] = Policy(
    "schema_compatibility",
    OneOf(SchemaCompatibility),
    "Which changes of a topic's schema are allowed; `UNDEFINED` says nothing.",
    lambda settings: settings.schema_compatibility_strategy,
    ("schema_compatibility_strategy",),
    unsaid=SchemaCompatibility.UNDEFINED,
)
SCHEMA_AUTO_UPDATE: Policy[bool] = Policy(
    "schema_auto_update",
    Flag(),
    "Whether a producer may add a version of its topic's schema.",
    lambda settings: settings.is_allow_auto_update_schema_enabled,
    ("is_allow_auto_update_schema_enabled",),
    of_topic=False,
)
SCHEMA_VALIDATION_ENFORCED: Policy[bool] = Policy(
    "schema_validation_enforced",
    Flag(),
    "Whether producers without a schema are refused where the topic has one.",
    lambda settings: settings.is_schema_validation_enforced,
    ("is_schema_validation_enforced",),
)
ENCRYPTION_REQUIRED: Policy[bool] = Policy(
    "encryption_required",
    Flag(),
    "Whether producers must encrypt; `false` says nothing.",
    lambda settings: settings.encryption_require_on_producer,
    ("encryption_require_on_producer",),
    unsaid=False,
    of_topic=False,
)

# How messages are treated ---------------------------------------------------------------------

DEDUPLICATION: Policy[bool] = Policy(
    "deduplication",
    Flag(),
    "Whether messages that a producer sends again are dropped.",
    lambda settings: settings.broker_deduplication_enabled,
    ("broker_deduplication_enabled",),
)
DEDUPLICATION_SNAPSHOT_INTERVAL = _limit(
    "deduplication_snapshot_interval",
    "Seconds after which a topic stores what deduplication remembers; 0 is never by time.",
    "broker_deduplication_snapshot_interval_seconds",
)
DELAYED_DELIVERY: Policy[DelayedDelivery] = Policy(
    "delayed_delivery",
    values.DELAYED_DELIVERY,
    "Whether messages wait for the time they bring, how exactly (`tickTime`, ms), and the "
    "longest delay (ms, 0 is no limit).",
    lambda settings: DelayedDelivery(
        settings.delayed_delivery_enabled,
        settings.delayed_delivery_tick_time_millis,
        settings.delayed_delivery_max_delay_in_millis,
    ),
    (
        "delayed_delivery_enabled",
        "delayed_delivery_tick_time_millis",
        "delayed_delivery_max_delay_in_millis",
    ),
)

TABLE: dict[str, Policy[object]] = {
    policy.name: policy for policy in list(globals().values()) if isinstance(policy, Policy)
}
"""Every policy by its name."""
