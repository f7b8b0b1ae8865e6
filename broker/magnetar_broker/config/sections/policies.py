"""Defaults of policies, which namespaces and topics can set for themselves."""

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
    """Expiry of messages, subscriptions and unused topics."""

    ttl_duration_default_in_seconds: Annotated[
        int,
        Key(
            "ttlDurationDefaultInSeconds",
            COUNT,
            "Age at which a message is acknowledged for every subscription; 0 means never.",
            unit="s",
            dynamic=True,
        ),
    ] = 0
    message_expiry_check_interval_in_minutes: Annotated[
        int,
        Key(
            "messageExpiryCheckIntervalInMinutes",
            Integer(1),
            "Interval of the checks for expired messages.",
            unit="min",
            of_workers=True,
        ),
    ] = 5
    subscription_expiration_time_minutes: Annotated[
        int,
        Key(
            "subscriptionExpirationTimeMinutes",
            COUNT,
            "Idle time after which an unused subscription is deleted; 0 means never.",
            unit="min",
            dynamic=True,
        ),
    ] = 0
    subscription_expiry_check_interval_in_minutes: Annotated[
        int,
        Key(
            "subscriptionExpiryCheckIntervalInMinutes",
            Integer(1),
            "Interval of the checks for expired subscriptions.",
            unit="min",
            of_workers=True,
        ),
    ] = 5
    broker_delete_inactive_topics_enabled: Annotated[
        bool,
        Key(
            "brokerDeleteInactiveTopicsEnabled",
            FLAG,
            "Delete inactive topics, which are topics without clients.",
            dynamic=True,
        ),
    ] = True
    broker_delete_inactive_topics_mode: Annotated[
        InactiveMode,
        Key(
            "brokerDeleteInactiveTopicsMode",
            Choice(InactiveMode),
            "Which topics without clients are inactive: those without subscriptions, or also those "
            "whose subscriptions have consumed all messages.",
            dynamic=True,
        ),
    ] = InactiveMode.NO_SUBSCRIPTIONS
    broker_delete_inactive_topics_frequency_seconds: Annotated[
        int,
        Key(
            "brokerDeleteInactiveTopicsFrequencySeconds",
            Integer(1),
            "Interval of the checks for inactive topics.",
            unit="s",
        ),
    ] = 60
    broker_delete_inactive_topics_max_inactive_duration_seconds: Annotated[
        int | None,
        Key(
            "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
            Integer(1),
            "Idle time after which an inactive topic is deleted; blank is "
            "brokerDeleteInactiveTopicsFrequencySeconds.",
            unit="s",
            dynamic=True,
        ),
    ] = None


@section
class Quotas:
    """Limits of backlogs."""

    backlog_quota_default_limit_bytes: Annotated[
        int,
        Key(
            "backlogQuotaDefaultLimitBytes",
            Integer(-1, LONG),
            "Largest backlog of a topic's slowest subscription; -1 means no limit.",
            unit="bytes",
            dynamic=True,
        ),
    ] = -1
    backlog_quota_default_limit_gb: Annotated[
        float,
        Key(
            "backlogQuotaDefaultLimitGB",
            Number(-1, 2**33),
            "The limit in GB; if above 0 it takes precedence over backlogQuotaDefaultLimitBytes.",
            unit="GB",
            dynamic=True,
        ),
    ] = -1.0
    backlog_quota_default_limit_second: Annotated[
        int,
        Key(
            "backlogQuotaDefaultLimitSecond",
            Integer(-1),
            "Largest age of a topic's oldest unacknowledged message; -1 and 0 mean no limit.",
            unit="s",
            dynamic=True,
        ),
    ] = -1
    backlog_quota_default_retention_policy: Annotated[
        QuotaAction,
        Key(
            "backlogQuotaDefaultRetentionPolicy",
            Choice(QuotaAction),
            "At the limit: producers wait, producers get an error, or the oldest messages are "
            "acknowledged for slow subscriptions.",
            dynamic=True,
        ),
    ] = QuotaAction.PRODUCER_REQUEST_HOLD
    backlog_quota_check_enabled: Annotated[
        bool,
        Key("backlogQuotaCheckEnabled", FLAG, "Whether quotas are enforced.", dynamic=True),
    ] = True
    backlog_quota_check_interval_in_seconds: Annotated[
        int,
        Key(
            "backlogQuotaCheckIntervalInSeconds",
            Integer(1),
            "Interval of the checks of backlogs. New producers are checked at once.",
            unit="s",
            of_workers=True,
        ),
    ] = 60
    precise_time_based_backlog_quota_check: Annotated[
        bool,
        Key(
            "preciseTimeBasedBacklogQuotaCheck",
            FLAG,
            "Count the age of a message from its publish time. If false, the age counts from the "
            "time when its ledger rolled over.",
            dynamic=True,
        ),
    ] = False


@section
class Rates:
    """Limits of publishing, delivery and subscribing per time; 0 or less means no limit."""

    max_publish_rate_per_topic_in_messages: Annotated[
        int,
        Key(
            "maxPublishRatePerTopicInMessages",
            Integer(-1),
            "Maximum number of messages published to a topic per second.",
            dynamic=True,
        ),
    ] = 0
    max_publish_rate_per_topic_in_bytes: Annotated[
        int,
        Key(
            "maxPublishRatePerTopicInBytes",
            Integer(-1, LONG),
            "Maximum number of bytes published to a topic per second.",
            unit="bytes",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerTopicInMsg",
            Integer(-1),
            "Maximum number of messages delivered from a topic per second.",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerTopicInByte",
            Integer(-1, LONG),
            "Maximum number of bytes delivered from a topic per second.",
            unit="bytes",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerSubscriptionInMsg",
            Integer(-1),
            "Maximum number of messages delivered to a subscription per second.",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRatePerSubscriptionInByte",
            Integer(-1, LONG),
            "Maximum number of bytes delivered to a subscription per second.",
            unit="bytes",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_relative_to_publish_rate: Annotated[
        bool,
        Key(
            "dispatchThrottlingRateRelativeToPublishRate",
            FLAG,
            "Add the current rate of publishing to the limits of delivery.",
            dynamic=True,
        ),
    ] = False
    dispatch_throttling_on_batch_message_enabled: Annotated[
        bool,
        Key(
            "dispatchThrottlingOnBatchMessageEnabled",
            FLAG,
            "Count a batch as one message in limits of delivery.",
            dynamic=True,
        ),
    ] = False
    dispatch_throttling_on_non_backlog_consumer_enabled: Annotated[
        bool,
        Key(
            "dispatchThrottlingOnNonBacklogConsumerEnabled",
            FLAG,
            "Apply limits of delivery to subscriptions without a backlog, too.",
            dynamic=True,
        ),
    ] = True
    broker_publisher_throttling_max_message_rate: Annotated[
        int,
        Key(
            "brokerPublisherThrottlingMaxMessageRate",
            Integer(-1),
            "Maximum number of messages published to all topics together per second, divided "
            "among several workers.",
            unit="messages/s",
            dynamic=True,
        ),
    ] = 0
    broker_publisher_throttling_max_byte_rate: Annotated[
        int,
        Key(
            "brokerPublisherThrottlingMaxByteRate",
            Integer(-1),
            "Maximum number of bytes published to all topics together per second, divided among "
            "several workers.",
            unit="bytes/s",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_in_msg: Annotated[
        int,
        Key(
            "dispatchThrottlingRateInMsg",
            Integer(-1),
            "Maximum number of messages delivered from all topics together per second, divided "
            "among several workers.",
            unit="messages/s",
            dynamic=True,
        ),
    ] = 0
    dispatch_throttling_rate_in_byte: Annotated[
        int,
        Key(
            "dispatchThrottlingRateInByte",
            Integer(-1),
            "Maximum number of bytes delivered from all topics together per second, divided among "
            "several workers.",
            unit="bytes/s",
            dynamic=True,
        ),
    ] = 0
    subscribe_throttling_rate_per_consumer: Annotated[
        int,
        Key(
            "subscribeThrottlingRatePerConsumer",
            Integer(-1),
            "How often one consumer can subscribe in a period.",
            dynamic=True,
        ),
    ] = 0
    subscribe_rate_period_per_consumer_in_second: Annotated[
        int,
        Key(
            "subscribeRatePeriodPerConsumerInSecond",
            Integer(1),
            "The period of subscribeThrottlingRatePerConsumer.",
            unit="s",
            dynamic=True,
        ),
    ] = 30


@section
class Schemas:
    """Schemas."""

    schema_compatibility_strategy: Annotated[
        SchemaCompatibility,
        Key(
            "schemaCompatibilityStrategy",
            Choice(SchemaCompatibility),
            "Which changes of a topic's schema are allowed.",
            dynamic=True,
        ),
    ] = SchemaCompatibility.FULL
    is_schema_validation_enforced: Annotated[
        bool,
        Key(
            "isSchemaValidationEnforced",
            FLAG,
            "Refuse producers without a schema on topics that have one.",
            dynamic=True,
        ),
    ] = False
    is_allow_auto_update_schema_enabled: Annotated[
        bool,
        Key(
            "isAllowAutoUpdateSchemaEnabled",
            FLAG,
            "Allow producers to add a version to their topic's schema.",
            dynamic=True,
        ),
    ] = True
    system_topic_schema_compatibility_strategy: Annotated[
        SchemaCompatibility,
        Key(
            "systemTopicSchemaCompatibilityStrategy",
            Choice(SchemaCompatibility),
            "Which changes of a system topic's schema are allowed.",
        ),
    ] = SchemaCompatibility.ALWAYS_COMPATIBLE
    magnetar_max_schema_size_in_bytes: Annotated[
        int,
        Key(
            "magnetarMaxSchemaSizeInBytes",
            Integer(1, 4 << 20),
            "Largest schema with its properties; larger ones are refused.",
        ),
    ] = 256 << 10
    magnetar_max_schema_versions: Annotated[
        int,
        Key(
            "magnetarMaxSchemaVersions",
            Integer(1),
            "Maximum number of versions of one topic's schema.",
        ),
    ] = 1000


@section
class Compaction:
    """Compaction: keeping the last message of each key."""

    broker_service_compaction_threshold_in_bytes: Annotated[
        int,
        Key(
            "brokerServiceCompactionThresholdInBytes",
            Integer(0, LONG),
            "Bytes published since the last compaction after which it runs again; 0 means never.",
            unit="bytes",
            dynamic=True,
        ),
    ] = 0
    broker_service_compaction_monitor_interval_in_seconds: Annotated[
        int,
        Key(
            "brokerServiceCompactionMonitorIntervalInSeconds",
            COUNT,
            "Interval of the checks for topics to compact; 0 means never.",
            unit="s",
            of_workers=True,
        ),
    ] = 60
    topic_compaction_retain_null_key: Annotated[
        bool,
        Key(
            "topicCompactionRetainNullKey",
            FLAG,
            "Keep messages without key in compacted topics. If false, they are removed.",
            of_workers=True,
        ),
    ] = False
    magnetar_compaction_read_mb_per_second: Annotated[
        int,
        Key(
            "magnetarCompactionReadMBPerSecond",
            COUNT,
            "Maximum amount of data that a compaction reads per second; 0 means no limit.",
            unit="MB",
            of_workers=True,
        ),
    ] = 64
