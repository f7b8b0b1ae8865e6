"""What holds for topics unless their namespace, or they themselves, say otherwise."""

from typing import Annotated

from magnetar_broker.config.domains import (
    COUNT,
    FLAG,
    InactiveMode,
    QuotaAction,
    SchemaCompatibility,
)
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choice, Integer, Key, Number

LONG = 2**63 - 1


@section
class Expiry:
    """Messages, subscriptions and topics that nobody wants any more."""

    ttl_duration_default_in_seconds: Annotated[
        int,
        Key(
            "ttlDurationDefaultInSeconds",
            COUNT,
            "A message that is older is acknowledged for every subscription; 0 is never.",
            unit="s",
        ),
    ] = 0
    message_expiry_check_interval_in_minutes: Annotated[
        int,
        Key(
            "messageExpiryCheckIntervalInMinutes",
            Integer(1),
            "How often such messages are looked for.",
            unit="min",
        ),
    ] = 5
    subscription_expiration_time_minutes: Annotated[
        int,
        Key(
            "subscriptionExpirationTimeMinutes",
            COUNT,
            "A subscription that nobody has used for so long is deleted; 0 is never.",
            unit="min",
        ),
    ] = 0
    subscription_expiry_check_interval_in_minutes: Annotated[
        int,
        Key(
            "subscriptionExpiryCheckIntervalInMinutes",
            Integer(1),
            "How often such subscriptions are looked for.",
            unit="min",
        ),
    ] = 5
    broker_delete_inactive_topics_enabled: Annotated[
        bool, Key("brokerDeleteInactiveTopicsEnabled", FLAG, "Delete topics that nobody uses.")
    ] = True
    broker_delete_inactive_topics_mode: Annotated[
        InactiveMode,
        Key(
            "brokerDeleteInactiveTopicsMode",
            Choice(InactiveMode),
            "Which topics without clients those are: without subscriptions, or also those whose "
            "subscriptions have consumed everything.",
        ),
    ] = InactiveMode.NO_SUBSCRIPTIONS
    broker_delete_inactive_topics_frequency_seconds: Annotated[
        int,
        Key(
            "brokerDeleteInactiveTopicsFrequencySeconds",
            Integer(1),
            "How often they are looked for.",
            unit="s",
        ),
    ] = 60
    broker_delete_inactive_topics_max_inactive_duration_seconds: Annotated[
        int | None,
        Key(
            "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
            Integer(1),
            "How long a topic must have been unused; blank is "
            "brokerDeleteInactiveTopicsFrequencySeconds.",
            unit="s",
        ),
    ] = None


@section
class Quotas:
    """How much may wait for consumers."""

    backlog_quota_default_limit_bytes: Annotated[
        int,
        Key(
            "backlogQuotaDefaultLimitBytes",
            Integer(-1, LONG),
            "The backlog of a topic's slowest subscription; -1 is no limit.",
            unit="bytes",
        ),
    ] = -1
    backlog_quota_default_limit_gb: Annotated[
        float,
        Key(
            "backlogQuotaDefaultLimitGB",
            Number(-1, 2**33),
            "The same in GB; above 0 it wins.",
            unit="GB",
        ),
    ] = -1.0
    backlog_quota_default_limit_second: Annotated[
        int,
        Key(
            "backlogQuotaDefaultLimitSecond",
            Integer(-1),
            "The age of a topic's oldest message that somebody waits for; -1 and 0 are no limit.",
            unit="s",
        ),
    ] = -1
    backlog_quota_default_retention_policy: Annotated[
        QuotaAction,
        Key(
            "backlogQuotaDefaultRetentionPolicy",
            Choice(QuotaAction),
            "What happens then: producers wait, or get an error, or messages are passed over.",
        ),
    ] = QuotaAction.PRODUCER_REQUEST_HOLD
    backlog_quota_check_enabled: Annotated[
        bool, Key("backlogQuotaCheckEnabled", FLAG, "Whether quotas are kept to at all.")
    ] = True
    backlog_quota_check_interval_in_seconds: Annotated[
        int,
        Key(
            "backlogQuotaCheckIntervalInSeconds",
            Integer(1),
            "How often topics are looked at; a producer that comes is, too.",
            unit="s",
        ),
    ] = 60
    precise_time_based_backlog_quota_check: Annotated[
        bool,
        Key(
            "preciseTimeBasedBacklogQuotaCheck",
            FLAG,
            "Whether a message's age counts from when it was published, else from when the ledger "
            "with it rolled over.",
        ),
    ] = False


@section
class Rates:
    """How fast messages come and go; 0 or less is no limit."""

    max_publish_rate_per_topic_in_messages: Annotated[
        int,
        Key(
            "maxPublishRatePerTopicInMessages",
            Integer(-1),
            "Messages published to a topic in a second.",
        ),
    ] = 0
    max_publish_rate_per_topic_in_bytes: Annotated[
        int,
        Key(
            "maxPublishRatePerTopicInBytes",
            Integer(-1, LONG),
            "The same in bytes.",
            unit="bytes",
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerTopicInMsg",
            Integer(-1),
            "Messages delivered from a topic in a second.",
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerTopicInByte",
            Integer(-1, LONG),
            "The same in bytes.",
            unit="bytes",
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerSubscriptionInMsg",
            Integer(-1),
            "Messages delivered to a subscription in a second.",
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerSubscriptionInByte",
            Integer(-1, LONG),
            "The same in bytes.",
            unit="bytes",
        ),
    ] = 0
    dispatch_throttling_rate_relative_to_publish_rate: Annotated[
        bool,
        Key(
            "dispatchThrottlingRateRelativeToPublishRate",
            FLAG,
            "The limits of delivery come on top of the rate at which the topic is published to.",
        ),
    ] = False
    dispatch_throttling_on_batch_message_enabled: Annotated[
        bool,
        Key(
            "dispatchThrottlingOnBatchMessageEnabled",
            FLAG,
            "For limits of delivery a batch counts as one message.",
        ),
    ] = False
    dispatch_throttling_on_non_backlog_consumer_enabled: Annotated[
        bool,
        Key(
            "dispatchThrottlingOnNonBacklogConsumerEnabled",
            FLAG,
            "Limits of delivery hold for subscriptions that are caught up, too.",
        ),
    ] = True
    broker_publisher_throttling_max_message_rate: Annotated[
        int,
        Key(
            "brokerPublisherThrottlingMaxMessageRate",
            Integer(-1),
            "Messages that may be published to all topics together.",
            unit="messages/s",
        ),
    ] = 0
    broker_publisher_throttling_max_byte_rate: Annotated[
        int,
        Key(
            "brokerPublisherThrottlingMaxByteRate",
            Integer(-1),
            "The same in bytes.",
            unit="bytes/s",
        ),
    ] = 0
    dispatch_throttling_rate_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRateInMsg",
            Integer(-1),
            "Messages that may be delivered from all topics together.",
            unit="messages/s",
        ),
    ] = 0
    dispatch_throttling_rate_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRateInByte",
            Integer(-1),
            "The same in bytes.",
            unit="bytes/s",
        ),
    ] = 0
    subscribe_throttling_rate_per_consumer: Annotated[
        int,
        Key(
            "subscribeThrottlingRatePerConsumer",
            Integer(-1),
            "How often a consumer may subscribe in a period.",
        ),
    ] = 0
    subscribe_rate_period_per_consumer_in_second: Annotated[
        int,
        Key("subscribeRatePeriodPerConsumerInSecond", Integer(1), "That period.", unit="s"),
    ] = 30


@section
class Schemas:
    """What messages may look like."""

    schema_compatibility_strategy: Annotated[
        SchemaCompatibility,
        Key(
            "schemaCompatibilityStrategy",
            Choice(SchemaCompatibility),
            "Which changes of a topic's schema are allowed.",
        ),
    ] = SchemaCompatibility.FULL
    is_schema_validation_enforced: Annotated[
        bool,
        Key(
            "isSchemaValidationEnforced",
            FLAG,
            "Refuse producers without a schema on topics that have one.",
        ),
    ] = False
    is_allow_auto_update_schema_enabled: Annotated[
        bool,
        Key(
            "isAllowAutoUpdateSchemaEnabled",
            FLAG,
            "A producer may add a version of its topic's schema.",
        ),
    ] = True
    system_topic_schema_compatibility_strategy: Annotated[
        SchemaCompatibility,
        Key(
            "systemTopicSchemaCompatibilityStrategy",
            Choice(SchemaCompatibility),
            "The same for topics in which brokers keep their own state.",
        ),
    ] = SchemaCompatibility.ALWAYS_COMPATIBLE
    magnetar_max_schema_size_in_bytes: Annotated[
        int,
        Key(
            "magnetarMaxSchemaSizeInBytes",
            Integer(1, 4 << 20),
            "Of one schema with its properties; a larger one is refused.",
        ),
    ] = 256 << 10
    magnetar_max_schema_versions: Annotated[
        int,
        Key("magnetarMaxSchemaVersions", Integer(1), "Versions of one topic's schema."),
    ] = 1000


@section
class Compaction:
    """Keeping the last message of each key."""

    broker_service_compaction_threshold_in_bytes: Annotated[
        int,
        Key(
            "brokerServiceCompactionThresholdInBytes",
            Integer(0, LONG),
            "A topic is compacted when so much has been published since; 0 is never by itself.",
            unit="bytes",
        ),
    ] = 0
    broker_service_compaction_monitor_interval_in_seconds: Annotated[
        int,
        Key(
            "brokerServiceCompactionMonitorIntervalInSeconds",
            COUNT,
            "How often it is looked whether a topic is to be compacted; 0 is never.",
            unit="s",
        ),
    ] = 60
    topic_compaction_retain_null_key: Annotated[
        bool,
        Key(
            "topicCompactionRetainNullKey",
            FLAG,
            "Compaction keeps messages without key, instead of dropping them.",
        ),
    ] = False
    magnetar_compaction_read_mb_per_second: Annotated[
        int,
        Key(
            "magnetarCompactionReadMBPerSecond",
            COUNT,
            "What one compaction reads a second at most, so that others get their share; 0 is no "
            "limit.",
            unit="MB",
        ),
    ] = 64
