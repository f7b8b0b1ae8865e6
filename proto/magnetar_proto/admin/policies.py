"""The declarations of all policies."""

from typing import Any

from magnetar_proto.admin.endpoint import BODY, Parameter, flag, member, option, switch
from magnetar_proto.admin.kinds import (
    CSV,
    FLAG,
    MEGABYTES,
    MILLISECONDS,
    MINUTES,
    MINUTES_OF_SECONDS,
    NAMES,
    NUMBER,
    RATE,
    SECONDS,
    SIZE,
    TEXT,
    Kind,
    one_of,
    some_of,
)
from magnetar_proto.admin.offload_flags import OFFLOAD_FLAGS
from magnetar_proto.admin.policy import Declared, Level, Member, SpecialPath

# fmt: off
BOOKIES = "entries are stored once, in this broker's own files: there are no bookies"
ONE_CLUSTER = "nothing is replicated: this broker is the only one of its cluster"
TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
STRATEGIES = (
    "UNDEFINED", "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", "BACKWARD", "FORWARD", "FULL",
    "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
)

RETENTION_FLAGS = (
    member("retentionTimeInMinutes", "-t, --time", MINUTES_OF_SECONDS,
        "How long: 120 (seconds), 100m, 3h, 2d; -1 for ever, 0 not at all.", required=True),
    member("retentionSizeInMB", "-s, --size", MEGABYTES,
        "How much: 4096 (bytes), 10M, 16G, 3T; -1 without limit, 0 nothing.", required=True),
)
INACTIVE_FLAGS = (
    switch("deleteWhileInactive", in_body=True)._replace(flags=(
        "-e, --enable-delete-while-inactive, -d, --disable-delete-while-inactive")),
    member("maxInactiveDurationSeconds", "-t, --max-inactive-duration", SECONDS,
        "After this time.", required=True),
    member("inactiveTopicDeleteMode", "-m, --delete-mode",
        one_of("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
        "What counts as unused.", required=True),
)
DISPATCH_FLAGS = (
    member("dispatchThrottlingRateInMsg", "-md, --msg-dispatch-rate", NUMBER,
        "Messages in a period; -1 means no limit.", default="-1"),
    member("dispatchThrottlingRateInByte", "-bd, --byte-dispatch-rate", SIZE,
        "Bytes in a period; -1 means no limit.", default="-1"),
    member("ratePeriodInSecond", "-dt, --dispatch-rate-period", NUMBER, "Seconds of a period.",
        default="1"),
    member("relativeToPublishRate", "-rp, --relative-to-publish-rate", FLAG,
        "Add the rate of publishing."),
)
PUBLISH_FLAGS = (
    member("publishThrottlingRateInMsg", "-m, --msg-publish-rate", NUMBER,
        "Messages a second; -1 means no limit.", default="-1"),
    member("publishThrottlingRateInByte", "-b, --byte-publish-rate", SIZE,
        "Bytes a second; -1 means no limit.", default="-1"),
)
SUBSCRIBE_FLAGS = (
    member("subscribeThrottlingRatePerConsumer", "-sr, --subscribe-rate", NUMBER,
        "Times in a period; -1 means no limit.", default="-1"),
    member("ratePeriodInSecond", "-st, --subscribe-rate-period", NUMBER, "Seconds of a period.",
        default="30"),
)
DELAY_FLAGS = (
    switch("active", in_body=True),
    member("tickTime", "-t, --time", MILLISECONDS, "Precision.", default="1s"),
    member("maxDeliveryDelayInMillis", "-md, --maxDelay", MILLISECONDS,
        "The longest delay; 0 means no limit."),
)
CREATION_FLAGS = (
    switch("allowAutoTopicCreation", local=True),
    option("topicType", "-t, --type", one_of("partitioned", "non-partitioned"), "Kind of topic.",
        default="non-partitioned", local=True),
    option("defaultNumPartitions", "-n, --num-partitions", NUMBER, "Partitions of a new topic.",
        local=True),
)
PERSISTENCE_FLAGS = (
    member("bookkeeperEnsemble", "-e, --bookkeeper-ensemble", NUMBER, "Number of bookies.",
        default="2"),
    member("bookkeeperWriteQuorum", "-w, --bookkeeper-write-quorum", NUMBER,
        "Copies of an entry.", default="2"),
    member("bookkeeperAckQuorum", "-a, --bookkeeper-ack-quorum", NUMBER, "Copies to wait for.",
        default="2"),
    member("managedLedgerMaxMarkDeleteRate", "-r, --ml-mark-delete-max-rate", RATE,
        "How often cursors are stored.", default="0"),
)
SUBSCRIPTION = option("subscription", "-s, --subscription", TEXT, "Only of this subscription.",
    local=True)


def _value(flags: str, kind: Kind, text: str, name: str = BODY) -> tuple[Parameter, ...]:
    """Return the only parameter of a policy that is one value."""
    return (option(name, flags, kind, text, required=True),)


def _limit(
    name: str, what: str, meaning: str, setting: str,
    namespace: tuple[str, str, str], topic: tuple[str, str, str] | None = None,
    on_namespace: dict[str, Any] | None = None, **on_topic: Any,
) -> Declared:
    """Declare a limit whose default is one setting; each level is a segment, command and flags."""
    def level(at: tuple[str, str, str], more: dict[str, Any]) -> Level:
        segment, command, flags = at
        value = _value(flags, NUMBER, "The limit; 0 means no limit.")
        return Level(segment, command, value, **more)

    return Declared(
        name, what, meaning, level(namespace, on_namespace or {}),
        None if topic is None else level(topic, on_topic), Member(setting), (setting,),
    )


def _both(segment: str, command: str, *flags: Parameter, **more: Any) -> dict[str, Any]:
    """Return the levels of a policy that is the same for namespaces and topics."""
    level = Level(segment, command, flags, **more)
    return {"namespace": level, "topic": level}


def _quota(kind: str) -> dict[str, Any]:
    paths = {}
    for level, subject in (("namespace", "{ns}"), ("topic", "{topic}")):
        one = f"`{subject}/backlogQuota?backlogQuotaType={kind}`"
        paths[level] = SpecialPath(f"GET `{subject}/backlogQuotaMap`, POST, DELETE {one}")
    return paths


def _rate(
    name: str, what: str, meaning: str, segment: str, command: str, member: str,
    flags: tuple[Parameter, ...], settings: tuple[str, ...], no_effect: str = "", **on_topic: Any,
) -> Declared:
    levels = _both(segment, command, *flags, empty_deletes=True)
    levels["topic"] = levels["topic"]._replace(**on_topic)
    return Declared(
        name, what, meaning, **levels, member=Member(member, by_cluster=True), settings=settings,
        no_effect=no_effect,
    )


def _set_by_switch(
    name: str, what: str, meaning: str, segment: str, command: str, setting: str, member: str,
    unset: bool,
) -> Declared:
    return Declared(
        name, what, meaning, Level(segment, command, (switch(BODY),), when_unset=unset,
        removable=False), None, Member(member, when_unset=unset), (setting,),
    )


_STRATEGY = one_of(*STRATEGIES)
_SIZE_THRESHOLD = "managed_ledger_offload_auto_trigger_size_threshold_bytes"
_EXPIRY = "The time: 60 (minutes), 3h, 2d; 0 means never."
_AGE = "The age: 60 (seconds), 3h, 2d; 0 means never."
_RELATIVE = "dispatch_throttling_rate_relative_to_publish_rate"
_INTERVAL = _value("-i, --interval", SECONDS, "Seconds; 0 means never by time.")
_THRESHOLD = _value("-t, --threshold", SIZE, "The size: 10M, 16G; 0 means never.")
_CLUSTERS = _value("-c, --clusters", NAMES, "Names of the clusters.")
_OF_SUBSCRIPTION = (
    "maxConsumersPerSubscription", "max-consumers-per-subscription",
    "-c, --max-consumers-per-subscription",
)
_VALIDATED = Level("schemaValidationEnforced", "schema-validation-enforce",
    (switch(BODY, default="false"),), when_unset=False, removable=False)
_PAUSE = "dispatcher-pause-on-ack-state-persistent"

POLICIES = (
    # How long messages, subscriptions and topics stay ------------------------------------------
    Declared(
        "retention", "the retention of acknowledged messages",
        "How much of what all subscriptions have acknowledged is kept: by age, by size. Time -1 "
        "and size -1 mean no limit, 0 and 0 keep nothing; one of them 0 is refused.",
        **_both("retention", "retention", *RETENTION_FLAGS, empty_deletes=True),
        member=Member("retention_policies"),
        settings=("default_retention_time_in_minutes", "default_retention_size_in_mb"),
    ),
    Declared(
        "message_ttl", "the time to live of messages",
        "Seconds after which a message is acknowledged for every subscription; 0 means never.",
        Level("messageTTL", "message-ttl", _value("-ttl, --messageTTL", SECONDS, _AGE)),
        Level("messageTTL", "message-ttl", _value("-t, --ttl", SECONDS, _AGE, "messageTTL"),
            in_query=True),
        Member("message_ttl_in_seconds"), ("ttl_duration_default_in_seconds",),
    ),
    Declared(
        "subscription_expiration", "the age at which unused subscriptions are deleted",
        "Minutes after which an unused subscription is deleted; 0 means never.",
        Level("subscriptionExpirationTime", "subscription-expiration-time",
            _value("-t, --time", MINUTES, _EXPIRY)),
        Level("subscriptionExpirationTime", "subscription-expiration-time",
            _value("-t, --time", MINUTES, _EXPIRY, "subscriptionExpirationTime"), in_query=True),
        Member("subscription_expiration_time_minutes"), ("subscription_expiration_time_minutes",),
    ),
    Declared(
        "inactive_topics", "the deletion of unused topics",
        "Whether an unused topic is deleted, and after how many seconds. Mode "
        "`delete_when_no_subscriptions`, or `delete_when_subscriptions_caught_up`.",
        **_both("inactiveTopicPolicies", "inactive-topic-policies", *INACTIVE_FLAGS,
            empty_deletes=True),
        member=Member("inactive_topic_policies"),
        settings=(
            "broker_delete_inactive_topics_enabled", "broker_delete_inactive_topics_mode",
            "broker_delete_inactive_topics_max_inactive_duration_seconds",
            "broker_delete_inactive_topics_frequency_seconds",
        ),
    ),
    Declared(
        "compaction_threshold", "the amount of new data that starts compaction",
        "Bytes published since the last compaction after which it runs again; 0 means never.",
        Level("compactionThreshold", "compaction-threshold", _THRESHOLD, "PUT"),
        Level("compactionThreshold", "compaction-threshold", _THRESHOLD),
        Member("compaction_threshold"),
        ("broker_service_compaction_threshold_in_bytes",),
    ),
    # Backlog -------------------------------------------------------------------------------------
    Declared(
        "backlog_quota_size", "the limit of backlogs by size",
        "Largest backlog of the slowest subscription in bytes (`limitSize`), and what happens "
        "at the limit (`policy`); below 0 means no quota.",
        **_quota("destination_storage"),
        settings=(
            "backlog_quota_default_limit_gb", "backlog_quota_default_limit_bytes",
            "backlog_quota_default_retention_policy",
        ),
    ),
    Declared(
        "backlog_quota_age", "the limit of backlogs by age",
        "Largest age of the oldest unacknowledged message in seconds (`limitTime`), and what "
        "happens at the limit (`policy`); 0 or less means no quota.",
        **_quota("message_age"),
        settings=("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
    ),
    # Automatic creation --------------------------------------------------------------------------
    Declared(
        "auto_topic_creation", "the creation of topics by use",
        "Whether using a topic creates it, and with how many partitions.",
        Level("autoTopicCreation", "auto-topic-creation", CREATION_FLAGS, empty_deletes=True),
        member=Member("autoTopicCreationOverride"),
        settings=(
            "allow_auto_topic_creation", "allow_auto_topic_creation_type", "default_num_partitions",
        ),
    ),
    Declared(
        "auto_subscription_creation", "the creation of subscriptions by use",
        "Whether subscribing creates the subscription.",
        **_both("autoSubscriptionCreation", "auto-subscription-creation",
            switch("allowAutoSubscriptionCreation", default="false", in_body=True),
            empty_deletes=True),
        member=Member("autoSubscriptionCreationOverride"),
        settings=("allow_auto_subscription_creation",),
    ),
    # Rates ---------------------------------------------------------------------------------------
    _rate(
        "publish_rate", "the rate limit of publishing",
        "Maximum number of messages and bytes published to a topic per second; 0 or less means no "
        "limit.",
        "publishRate", "publish-rate", "publishMaxMessageRate", PUBLISH_FLAGS,
        ("max_publish_rate_per_topic_in_messages", "max_publish_rate_per_topic_in_bytes"),
        unset_status=204,
    ),
    _rate(
        "dispatch_rate", "the rate limit of delivery",
        "Maximum number of messages and bytes that a topic delivers per period "
        "(`ratePeriodInSecond`); 0 or less means no limit. With `relativeToPublishRate` the "
        "current rate of publishing is added.",
        "dispatchRate", "dispatch-rate", "topicDispatchRate", DISPATCH_FLAGS,
        (
            "dispatch_throttling_rate_per_topic_in_msg",
            "dispatch_throttling_rate_per_topic_in_byte", _RELATIVE,
        ),
    ),
    _rate(
        "subscription_dispatch_rate", "the rate limit of delivery for subscriptions",
        "Maximum number of messages and bytes that each subscription of a topic delivers in a "
        "period; members as in `dispatch_rate`.",
        "subscriptionDispatchRate", "subscription-dispatch-rate", "subscriptionDispatchRate",
        DISPATCH_FLAGS,
        (
            "dispatch_throttling_rate_per_subscription_in_msg",
            "dispatch_throttling_rate_per_subscription_in_byte", _RELATIVE,
        ),
        also=(SUBSCRIPTION,), instead=("subscription", "{subscription}/dispatchRate"),
    ),
    Declared(
        "subscription_dispatch_rates", "the rate limit of delivery for one subscription",
        "Dispatch rate of one subscription, by its name; takes precedence over "
        "`subscription_dispatch_rate`.",
        topic=SpecialPath("`{topic}/{subscription}/dispatchRate`"),
    ),
    _rate(
        "subscribe_rate", "the rate limit of subscribing",
        "How often one consumer can subscribe in a period; 0 or less means no limit.",
        "subscribeRate", "subscribe-rate", "clusterSubscribeRate", SUBSCRIBE_FLAGS,
        (
            "subscribe_throttling_rate_per_consumer",
            "subscribe_rate_period_per_consumer_in_second",
        ),
    ),
    # Numbers; 0 means no limit -----------------------------------------------------------------
    _limit(
        "max_producers", "the limit of producers of a topic",
        "Maximum number of producers of a topic; 0 means no limit.", "max_producers_per_topic",
        ("maxProducersPerTopic", "max-producers-per-topic", "-p, --max-producers-per-topic"),
        ("maxProducers", "max-producers", "-p, --max-producers"),
    ),
    _limit(
        "max_consumers", "the limit of consumers of a topic",
        "Maximum number of consumers of a topic; 0 means no limit.", "max_consumers_per_topic",
        ("maxConsumersPerTopic", "max-consumers-per-topic", "-c, --max-consumers-per-topic"),
        ("maxConsumers", "max-consumers", "-c, --max-consumers"),
    ),
    _limit(
        "max_consumers_per_subscription", "the limit of consumers of a subscription",
        "Maximum number of consumers of a subscription; 0 means no limit.",
        "max_consumers_per_subscription",
        _OF_SUBSCRIPTION, _OF_SUBSCRIPTION,
        unset_status=204,
    ),
    _limit(
        "max_subscriptions", "the limit of subscriptions of a topic",
        "Maximum number of subscriptions of a topic; 0 means no limit.",
        "max_subscriptions_per_topic",
        ("maxSubscriptionsPerTopic", "max-subscriptions-per-topic",
            "-m, --max-subscriptions-per-topic"),
        ("maxSubscriptionsPerTopic", "max-subscriptions-per-topic",
            "-s, --max-subscriptions-per-topic"),
        unset_status=204,
    ),
    _limit(
        "max_unacked_per_consumer", "the limit of unacknowledged messages of a consumer",
        "Maximum number of unacknowledged messages of a consumer; 0 means no limit.",
        "max_unacked_messages_per_consumer",
        ("maxUnackedMessagesPerConsumer", "max-unacked-messages-per-consumer",
            "-c, --max-unacked-messages-per-topic"),
        ("maxUnackedMessagesOnConsumer", "max-unacked-messages-per-consumer", "-m, --maxNum"),
        empty_deletes=True,
    ),
    _limit(
        "max_unacked_per_subscription", "the limit of unacknowledged messages of a subscription",
        "Maximum number of unacknowledged messages of all consumers of a subscription; 0 means no "
        "limit.",
        "max_unacked_messages_per_subscription",
        ("maxUnackedMessagesPerSubscription", "max-unacked-messages-per-subscription",
            "-c, --max-unacked-messages-per-subscription"),
        ("maxUnackedMessagesOnSubscription", "max-unacked-messages-per-subscription",
            "-m, --maxNum"),
        empty_deletes=True,
    ),
    _limit(
        "max_topics", "the limit of topics",
        "Maximum number of topics of a namespace, each partition counted; 0 means no limit.",
        "max_topics_per_namespace",
        ("maxTopicsPerNamespace", "max-topics-per-namespace", "-t, --max-topics-per-namespace"),
        on_namespace={"when_unset": 0},
    ),
    Declared(
        "max_message_size", "the largest size of a message",
        "Largest message in bytes, at most the setting `maxMessageSize`; 0 is that setting.",
        topic=Level("maxMessageSize", "max-message-size", _value("-m, --max-message-size", SIZE,
            "The size: 4096, 1M; 0 is the broker's limit."), unset_status=204, refused=401),
    ),
    Declared(
        "subscription_types", "the allowed types of subscriptions",
        "The allowed types of subscriptions; an empty list is the same as unset.",
        **_both("subscriptionTypesEnabled", "subscription-types-enabled",
            *_value("-t, --types", some_of(*TYPES), "Exclusive, Shared, Failover, Key_Shared."),
            when_unset=[]),
        member=Member("subscription_types_enabled", when_unset=[]),
        settings=("subscription_types_enabled",),
    ),
    # Authorization, schemas and encryption -------------------------------------------------------
    Declared(
        "subscription_auth_mode", "the authorization mode of subscriptions",
        "Whether the names of subscriptions must begin with the role of their consumers, if "
        "`authorizationEnabled` is set.",
        Level("subscriptionAuthMode", "subscription-auth-mode",
            _value("-m, --subscription-auth-mode", one_of("None", "Prefix"), "The mode."),
            when_unset="None", empty_deletes=True, removable=False),
        member=Member("subscription_auth_mode", when_unset="None"),
        no_effect="authorizationEnabled is false: everyone who can connect may do everything",
    ),
    Declared(
        "schema_compatibility", "the strategy for changes of schemas",
        "Which changes of a topic's schema are allowed; `UNDEFINED` is the same as unset.",
        Level("schemaCompatibilityStrategy", "schema-compatibility-strategy",
            _value("-c, --compatibility", _STRATEGY, "The strategy."), "PUT",
            when_unset="UNDEFINED", empty_deletes=True, removable=False),
        Level("schemaCompatibilityStrategy", "schema-compatibility-strategy",
            _value("-s, --strategy", _STRATEGY, "The strategy."), "PUT", empty_deletes=True),
        Member("schema_compatibility_strategy", when_unset="UNDEFINED"),
        ("schema_compatibility_strategy",),
    ),
    _set_by_switch(
        "schema_auto_update", "the permission of producers to add schema versions",
        "Whether a producer can add a version to its topic's schema.", "isAllowAutoUpdateSchema",
        "is-allow-auto-update-schema", "is_allow_auto_update_schema_enabled",
        "is_allow_auto_update_schema", unset=True,
    ),
    Declared(
        "schema_validation_enforced", "the refusal of producers without a schema",
        "Whether producers without a schema are refused if the topic has one.",
        _VALIDATED._replace(has_applied=True), _VALIDATED,
        Member("schema_validation_enforced", when_unset=False), ("is_schema_validation_enforced",),
    ),
    _set_by_switch(
        "encryption_required", "the requirement of encryption",
        "Whether producers must encrypt; `false` is the same as unset.", "encryptionRequired",
        "encryption-required", "encryption_require_on_producer", "encryption_required",
        unset=False,
    ),
    # Deduplication and delays --------------------------------------------------------------------
    Declared(
        "deduplication", "the deduplication of messages",
        "Whether repeated messages of a producer are dropped.",
        Level("deduplication", "deduplication", (switch(BODY),)),
        Level("deduplicationEnabled", "deduplication", (switch(BODY),), empty_deletes=True),
        Member("deduplicationEnabled"), ("broker_deduplication_enabled",),
    ),
    Declared(
        "deduplication_snapshot_interval", "the interval of deduplication snapshots",
        "Seconds between snapshots of the deduplication state; 0 means no snapshots by time.",
        Level("deduplicationSnapshotInterval", "deduplication-snapshot-interval", _INTERVAL,
            empty_deletes=True, removable=False),
        Level("deduplicationSnapshotInterval", "deduplication-snapshot-interval", _INTERVAL,
            empty_deletes=True),
        Member("deduplicationSnapshotIntervalSeconds"),
        ("broker_deduplication_snapshot_interval_seconds",),
    ),
    Declared(
        "delayed_delivery", "the rules for delayed messages",
        "Whether delayed delivery is enabled, its precision (`tickTime`, ms), and the longest "
        "delay (ms, 0 means no limit).",
        **_both("delayedDelivery", "delayed-delivery", *DELAY_FLAGS, empty_deletes=True),
        member=Member("delayed_delivery_policies"),
        settings=(
            "delayed_delivery_enabled", "delayed_delivery_tick_time_millis",
            "delayed_delivery_max_delay_in_millis",
        ),
    ),
    # Tiered storage ------------------------------------------------------------------------------
    Declared(
        "offload", "the offloading of old data",
        "Where closed ledgers are offloaded to (`managedLedgerOffloadDriver`, bucket, endpoint, or "
        "`fileSystemURI`), from which size and age on, when their files are deleted, and which "
        "copy is read. Each member is that of the topic or, if it has none, of the namespace, or "
        "else that of the settings. Credentials are refused: the broker has them. So are service "
        "endpoints other than that of the settings for the same kind of storage, and directories "
        "that are neither `fileSystemURI` of the settings nor below it.",
        Level("offloadPolicies", "offload-policies", OFFLOAD_FLAGS["namespace"],
            removed_at="removeOffloadPolicies"),
        Level("offloadPolicies", "offload-policies", OFFLOAD_FLAGS["topic"]),
        Member("offload_policies"), (
            "managed_ledger_offload_driver", "managed_ledger_offload_bucket",
            "managed_ledger_offload_service_endpoint", "s3_managed_ledger_offload_bucket",
            "s3_managed_ledger_offload_region", "s3_managed_ledger_offload_service_endpoint",
            "gcs_managed_ledger_offload_bucket", "file_system_uri", _SIZE_THRESHOLD,
            "managed_ledger_offload_threshold_in_seconds",
            "managed_ledger_offload_deletion_lag_ms", "managed_ledger_data_read_priority",
        ),
    ),
    Declared(
        "offload_threshold", "the size above which data is offloaded",
        "The bytes of closed ledgers of a topic beyond which the oldest are offloaded; below 0 "
        "means never. It is a member of `offload`.",
        Level("offloadThreshold", "offload-threshold", (
            option("size", "-s, --size", SIZE, "The size.", default="-1", local=True),
            option("time", "-t, --time", SECONDS, "The age, which has a path of its own.",
                local=True),
        ), "PUT", when_unset=-1, removable=False, instead=("time", "offloadThresholdInSeconds")),
        member=Member("offload_threshold", when_unset=-1), settings=(_SIZE_THRESHOLD,),
    ),
    Declared(
        "offload_threshold_seconds", "the age above which data is offloaded",
        "Seconds since a ledger was closed after which it is offloaded; below 0 means never. It is "
        "a member of `offload`.",
        Level("offloadThresholdInSeconds", verb="PUT", when_unset=-1, removable=False,
            set_status=200),
        member=Member("offload_threshold_in_seconds", when_unset=-1),
        settings=("managed_ledger_offload_threshold_in_seconds",),
    ),
    Declared(
        "offload_deletion_lag", "the time after which the local copy of offloaded data is deleted",
        "Milliseconds since a ledger was offloaded after which its file is deleted; below 0 means "
        "never. It is a member of `offload`.",
        Level("offloadDeletionLagMs", "offload-deletion-lag",
            _value("-l, --lag", MILLISECONDS, "The time."), "PUT",
            names=("get-{}", "set-{}", "clear-{}")),
        member=Member("offload_deletion_lag_ms"),
        settings=("managed_ledger_offload_deletion_lag_ms",),
    ),
    # Without effect: for what this broker does not have ------------------------------------------
    Declared(
        "persistence", "the number of copies, which has no effect here",
        "How many bookies store each entry, and how often cursors are written.",
        **_both("persistence", "persistence", *PERSISTENCE_FLAGS), member=Member("persistence"),
        no_effect=f"{BOOKIES}; acknowledgements are written within milliseconds",
    ),
    Declared(
        "bookie_affinity", "the groups of bookies", "Groups of bookies that store the entries.",
        Level("persistence/bookieAffinity", "bookie-affinity-group", (
            member("bookkeeperAffinityGroupPrimary", "-pg, --primary-group", CSV, "First choice.",
                required=True),
            member("bookkeeperAffinityGroupSecondary", "-sg, --secondary-group", CSV,
                "Second choice.", default=""),
        ), empty_deletes=True, names=("get-{}", "set-{}", "delete-{}")),
        no_effect=BOOKIES,
    ),
    Declared(
        "replication_clusters", "the clusters to replicate to",
        "The clusters that have the topics; each must be allowed for the tenant.",
        Level("replication", "clusters", _CLUSTERS, shows_default=True, removable=False,
            set_status=200),
        Level("replication", "replication-clusters", _CLUSTERS),
        Member("replication_clusters"), ("cluster_name",), ONE_CLUSTER,
    ),
    Declared(
        "allowed_clusters", "the clusters that are allowed",
        "The clusters that may have the topics; each must be allowed for the tenant.",
        Level("allowedClusters", "allowed-clusters", _CLUSTERS, when_unset=[], removable=False),
        member=Member("allowed_clusters", when_unset=[]), no_effect=ONE_CLUSTER,
    ),
    _rate(
        "replicator_dispatch_rate", "the rate limit of replication",
        "Maximum number of messages and bytes replicated in a period; members as in "
        "`dispatch_rate`.",
        "replicatorDispatchRate", "replicator-dispatch-rate", "replicatorDispatchRate",
        DISPATCH_FLAGS, (), ONE_CLUSTER,
    ),
    Declared(
        "migrated", "whether a namespace moves to another cluster, which has no effect here",
        "Whether the namespace moves to another cluster.",
        Level("migration", "migration-state", (flag(BODY, "--migrated", "It does."),),
            when_unset=False, removable=False, names=("", "update-{}", "")),
        member=Member("migrated", when_unset=False),
        no_effect="topics do not move to other clusters",
    ),
    Declared(
        "anti_affinity", "the group of namespaces to keep apart",
        "A group of namespaces whose topics are to be served by different brokers.",
        Level("antiAffinity", "anti-affinity-group",
            _value("-g, --group", TEXT, "Name of the group."), raw=True,
            names=("get-{}", "set-{}", "delete-{}")),
        no_effect="all topics are on this machine; bundles are placed by their load",
    ),
    Declared(
        "resource_group", "the resource group of a namespace",
        "The resource group whose limits the namespace shares.",
        SpecialPath("GET, DELETE `resourcegroup`, POST `resourcegroup/{group}`"),
        member=Member("resource_group_name"),
        no_effect="limits are not shared by groups: set rates of namespaces and topics",
    ),
    Declared(
        "pause_on_unstored_acks", "the pause of delivery while acknowledgements are stored",
        "Whether delivery pauses while more acknowledgements wait than can be stored.",
        **_both("dispatcherPauseOnAckStatePersistent", _PAUSE, when_unset=False, implied=True),
        member=Member("dispatcherPauseOnAckStatePersistentEnabled"),
        no_effect="every acknowledgement is stored, within milliseconds",
    ),
    Declared(
        "metrics_properties", "the properties that become labels of metrics",
        "Properties of topics that become labels of their metrics.",
        Level("allowedTopicPropertyKeysForMetrics", empty_deletes=True),
        no_effect="metrics have no labels from properties",
    ),
    Declared(
        "former_schema_compatibility", "the former strategy for changes of schemas",
        "Which changes of schemas are allowed, in the terms of releases before 2.4.",
        Level("schemaAutoUpdateCompatibilityStrategy", "schema-autoupdate-strategy", (
            option("compatibility", "-c, --compatibility", one_of("Full", "Backward", "Forward"),
                "The strategy.", local=True),
            flag("disabled", "-d, --disabled", "No automatic changes.", local=True),
        ), "PUT", unset_status=204, empty_deletes=True, removable=False),
        member=Member("schema_auto_update_compatibility_strategy"),
        no_effect="`schema_compatibility` decides: set that",
    ),
)
TABLE = {policy.name: policy for policy in POLICIES}
"""Every policy by its name."""
