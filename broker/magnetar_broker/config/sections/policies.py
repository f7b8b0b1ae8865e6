"""Defaults of policies, which namespaces and topics can set for themselves."""

from magnetar_broker.config.domains import (
    COUNT,
    FLAG,
    InactiveMode,
    QuotaAction,
    SchemaCompatibility,
)
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choice, Integer, Number

LONG = 2**63 - 1


@section("Expiry")
class Expiry:
    """Expiry of messages, subscriptions and unused topics."""

    ttl_duration_default_in_seconds: int = setting(
        COUNT,
        "Age at which a message is acknowledged for every subscription; 0 means never.",
        default=0,
        unit="s",
        dynamic=True,
    )
    message_expiry_check_interval_in_minutes: int = setting(
        Integer(1),
        "Interval of the checks for expired messages.",
        default=5,
        unit="min",
        of_workers=True,
    )
    subscription_expiration_time_minutes: int = setting(
        COUNT,
        "Idle time after which an unused subscription is deleted; 0 means never.",
        default=0,
        unit="min",
        dynamic=True,
    )
    subscription_expiry_check_interval_in_minutes: int = setting(
        Integer(1),
        "Interval of the checks for expired subscriptions.",
        default=5,
        unit="min",
        of_workers=True,
    )
    broker_delete_inactive_topics_enabled: bool = setting(
        FLAG,
        "Delete inactive topics, which are topics without clients.",
        default=True,
        dynamic=True,
    )
    broker_delete_inactive_topics_mode: InactiveMode = setting(
        Choice(InactiveMode),
        "Which topics without clients are inactive: those without subscriptions, or also those "
        "whose subscriptions have consumed all messages.",
        default=InactiveMode.NO_SUBSCRIPTIONS,
        dynamic=True,
    )
    broker_delete_inactive_topics_frequency_seconds: int = setting(
        Integer(1),
        "Interval of the checks for inactive topics.",
        default=60,
        unit="s",
    )
    broker_delete_inactive_topics_max_inactive_duration_seconds: int | None = setting(
        Integer(1),
        "Idle time after which an inactive topic is deleted; blank is "
        "brokerDeleteInactiveTopicsFrequencySeconds.",
        default=None,
        unit="s",
        dynamic=True,
    )


@section("Backlog quotas")
class Quotas:
    """Limits of backlogs."""

    backlog_quota_default_limit_bytes: int = setting(
        Integer(-1, LONG),
        "Largest backlog of a topic's slowest subscription; -1 means no limit.",
        default=-1,
        unit="bytes",
        dynamic=True,
    )
    backlog_quota_default_limit_gb: float = setting(
        Number(-1, 2**33),
        "The limit in GB; if above 0 it takes precedence over backlogQuotaDefaultLimitBytes.",
        default=-1.0,
        name="backlogQuotaDefaultLimitGB",
        unit="GB",
        dynamic=True,
    )
    backlog_quota_default_limit_second: int = setting(
        Integer(-1),
        "Largest age of a topic's oldest unacknowledged message; -1 and 0 mean no limit.",
        default=-1,
        unit="s",
        dynamic=True,
    )
    backlog_quota_default_retention_policy: QuotaAction = setting(
        Choice(QuotaAction),
        "At the limit: producers wait, producers get an error, or the oldest messages are "
        "acknowledged for slow subscriptions.",
        default=QuotaAction.PRODUCER_REQUEST_HOLD,
        dynamic=True,
    )
    backlog_quota_check_enabled: bool = setting(
        FLAG,
        "Whether quotas are enforced.",
        default=True,
        dynamic=True,
    )
    backlog_quota_check_interval_in_seconds: int = setting(
        Integer(1),
        "Interval of the checks of backlogs. New producers are checked at once.",
        default=60,
        unit="s",
        of_workers=True,
    )
    precise_time_based_backlog_quota_check: bool = setting(
        FLAG,
        "Count the age of a message from its publish time. If false, the age counts from the "
        "time when its ledger rolled over.",
        default=False,
        dynamic=True,
    )


@section("Rates")
class Rates:
    """Limits of publishing, delivery and subscribing per time; 0 or less means no limit."""

    max_publish_rate_per_topic_in_messages: int = setting(
        Integer(-1),
        "Maximum number of messages published to a topic per second.",
        default=0,
        dynamic=True,
    )
    max_publish_rate_per_topic_in_bytes: int = setting(
        Integer(-1, LONG),
        "Maximum number of bytes published to a topic per second.",
        default=0,
        unit="bytes",
        dynamic=True,
    )
    dispatch_throttling_rate_per_topic_in_msg: int = setting(
        Integer(-1),
        "Maximum number of messages delivered from a topic per second.",
        default=0,
        dynamic=True,
    )
    dispatch_throttling_rate_per_topic_in_byte: int = setting(
        Integer(-1, LONG),
        "Maximum number of bytes delivered from a topic per second.",
        default=0,
        unit="bytes",
        dynamic=True,
    )
    dispatch_throttling_rate_per_subscription_in_msg: int = setting(
        Integer(-1),
        "Maximum number of messages delivered to a subscription per second.",
        default=0,
        dynamic=True,
    )
    dispatch_throttling_rate_per_subscription_in_byte: int = setting(
        Integer(-1, LONG),
        "Maximum number of bytes delivered to a subscription per second.",
        default=0,
        unit="bytes",
        dynamic=True,
    )
    dispatch_throttling_rate_relative_to_publish_rate: bool = setting(
        FLAG,
        "Add the current rate of publishing to the limits of delivery.",
        default=False,
        dynamic=True,
    )
    dispatch_throttling_on_batch_message_enabled: bool = setting(
        FLAG,
        "Count a batch as one message in limits of delivery.",
        default=False,
        dynamic=True,
    )
    dispatch_throttling_on_non_backlog_consumer_enabled: bool = setting(
        FLAG,
        "Apply limits of delivery to subscriptions without a backlog, too.",
        default=True,
        dynamic=True,
    )
    broker_publisher_throttling_max_message_rate: int = setting(
        Integer(-1),
        "Maximum number of messages published to all topics together per second, divided "
        "among several workers.",
        default=0,
        unit="messages/s",
        dynamic=True,
    )
    broker_publisher_throttling_max_byte_rate: int = setting(
        Integer(-1),
        "Maximum number of bytes published to all topics together per second, divided among "
        "several workers.",
        default=0,
        unit="bytes/s",
        dynamic=True,
    )
    dispatch_throttling_rate_in_msg: int = setting(
        Integer(-1),
        "Maximum number of messages delivered from all topics together per second, divided "
        "among several workers.",
        default=0,
        unit="messages/s",
        dynamic=True,
    )
    dispatch_throttling_rate_in_byte: int = setting(
        Integer(-1),
        "Maximum number of bytes delivered from all topics together per second, divided among "
        "several workers.",
        default=0,
        unit="bytes/s",
        dynamic=True,
    )
    subscribe_throttling_rate_per_consumer: int = setting(
        Integer(-1),
        "How often one consumer can subscribe in a period.",
        default=0,
        dynamic=True,
    )
    subscribe_rate_period_per_consumer_in_second: int = setting(
        Integer(1),
        "The period of subscribeThrottlingRatePerConsumer.",
        default=30,
        unit="s",
        dynamic=True,
    )


@section("Schemas")
class Schemas:
    """Schemas."""

    schema_compatibility_strategy: SchemaCompatibility = setting(
        Choice(SchemaCompatibility),
        "Which changes of a topic's schema are allowed.",
        default=SchemaCompatibility.FULL,
        dynamic=True,
    )
    is_schema_validation_enforced: bool = setting(
        FLAG,
        "Refuse producers without a schema on topics that have one.",
        default=False,
        dynamic=True,
    )
    is_allow_auto_update_schema_enabled: bool = setting(
        FLAG,
        "Allow producers to add a version to their topic's schema.",
        default=True,
        dynamic=True,
    )
    system_topic_schema_compatibility_strategy: SchemaCompatibility = setting(
        Choice(SchemaCompatibility),
        "Which changes of a system topic's schema are allowed.",
        default=SchemaCompatibility.ALWAYS_COMPATIBLE,
    )
    magnetar_max_schema_size_in_bytes: int = setting(
        Integer(1, 4 << 20),
        "Largest schema with its properties; larger ones are refused.",
        default=256 << 10,
    )
    magnetar_max_schema_versions: int = setting(
        Integer(1),
        "Maximum number of versions of one topic's schema.",
        default=1000,
    )


@section("Compaction")
class Compaction:
    """Compaction: keeping the last message of each key."""

    broker_service_compaction_threshold_in_bytes: int = setting(
        Integer(0, LONG),
        "Bytes published since the last compaction after which it runs again; 0 means never.",
        default=0,
        unit="bytes",
        dynamic=True,
    )
    broker_service_compaction_monitor_interval_in_seconds: int = setting(
        COUNT,
        "Interval of the checks for topics to compact; 0 means never.",
        default=60,
        unit="s",
        of_workers=True,
    )
    topic_compaction_retain_null_key: bool = setting(
        FLAG,
        "Keep messages without key in compacted topics. If false, they are removed.",
        default=False,
        of_workers=True,
    )
    magnetar_compaction_read_mb_per_second: int = setting(
        COUNT,
        "Maximum amount of data that a compaction reads per second; 0 means no limit.",
        default=64,
        name="magnetarCompactionReadMBPerSecond",
        unit="MB",
        of_workers=True,
    )
