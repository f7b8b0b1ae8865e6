"""The broker's settings: every one declared once, with its key, bounds and meaning.

`magnetar_broker.config.load` reads them from a file, the environment and the command
line; `docs/configuration.md` is generated from the declarations.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, get_type_hints

from magnetar_broker.config.values import (
    Blank,
    Boolean,
    Choice,
    Choices,
    Integer,
    Key,
    Share,
    Text,
    Texts,
)


class Durability(StrEnum):
    """When a publish or an acknowledgement is answered."""

    FSYNC = "fsync"
    RELAXED = "relaxed"


class TopicType(StrEnum):
    """What auto-creation makes."""

    NON_PARTITIONED = "non-partitioned"
    PARTITIONED = "partitioned"


class SubscriptionType(StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


PORT = Integer(0, 65535)
COUNT = Integer(0)
FLAG = Boolean()
HOST = Text(r"[^\s/@,]+", "a host name or an IP address")
NAME = Text(r"[-=:.\w]+", "letters, digits and -_=:.")
NAMESPACE = Text(r"[-=:.\w]+/[-=:.\w]+", "tenant/namespace")
PATH = Text(r"[^\0]+", "a path")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a broker is told; the defaults are those of `conf/broker.conf`."""

    # Network
    broker_service_port: Annotated[
        int,
        Key(
            "brokerServicePort",
            PORT,
            "Where clients connect; 0 takes any free port.",
            blank=Blank.REFUSED,
        ),
    ] = 6650
    web_service_port: Annotated[
        int | None,
        Key(
            "webServicePort",
            PORT,
            "Admin REST, lookups and metrics over HTTP; 0 takes any free port, blank opens none.",
            blank=Blank.NONE,
        ),
    ] = 8080
    bind_address: Annotated[
        str,
        Key(
            "bindAddress",
            HOST,
            "The address to listen on; 0.0.0.0 is every interface.",
            pulsar="0.0.0.0",
        ),
    ] = "127.0.0.1"
    advertised_address: Annotated[
        str | None,
        Key(
            "advertisedAddress",
            HOST,
            "What lookups tell clients to connect to; blank is the bind address, or the host's "
            "name when bound to every interface.",
        ),
    ] = None
    cluster_name: Annotated[
        str,
        Key(
            "clusterName",
            NAME,
            "The cluster's name in metrics and in the names of producers that bring none.",
            pulsar="",
        ),
    ] = "standalone"
    broker_max_connections: Annotated[
        int,
        Key("brokerMaxConnections", COUNT, "Connections in all; 0 is no limit.", pulsar="0"),
    ] = 10000
    broker_max_connections_per_ip: Annotated[
        int,
        Key("brokerMaxConnectionsPerIp", COUNT, "Connections from one address; 0 is no limit."),
    ] = 0
    keep_alive_interval_seconds: Annotated[
        int,
        Key(
            "keepAliveIntervalSeconds",
            COUNT,
            "How often an idle client is pinged; one that stays silent for a second interval is "
            "disconnected. 0 never pings.",
            unit="s",
        ),
    ] = 30
    connection_liveness_check_timeout_millis: Annotated[
        int,
        Key(
            "connectionLivenessCheckTimeoutMillis",
            COUNT,
            "How long a connection that holds a contested name has to answer a ping; 0 does not "
            "ask.",
            unit="ms",
        ),
    ] = 5000
    broker_shutdown_timeout_ms: Annotated[
        int,
        Key(
            "brokerShutdownTimeoutMs",
            COUNT,
            "How long a stop may take before the process ends anyway.",
            unit="ms",
        ),
    ] = 60000

    # Storage
    data_dir: Annotated[
        str,
        Key("magnetarDataDirectory", PATH, "Where everything is kept; one broker a directory."),
    ] = "./data"
    durability: Annotated[
        Durability,
        Key(
            "magnetarDurability",
            Choice(Durability),
            "fsync answers when the data is on disk; relaxed answers before that, so a power "
            "failure may lose what was acknowledged.",
        ),
    ] = Durability.FSYNC
    managed_ledger_cache_size_mb: Annotated[
        int,
        Key(
            "managedLedgerCacheSizeMB",
            COUNT,
            "Memory for recent entries, shared by all topics.",
            unit="MB",
            pulsar="a fifth of direct memory",
        ),
    ] = 64
    magnetar_write_behind_size_mb: Annotated[
        int,
        Key(
            "magnetarWriteBehindSizeMB",
            Integer(1, 128),
            "Memory for entries that are in the journal and not yet in their topic's files.",
            unit="MB",
        ),
    ] = 32
    magnetar_checkpoint_size_mb: Annotated[
        int,
        Key(
            "magnetarCheckpointSizeMB",
            Integer(1),
            "What the journal holds before a checkpoint is made: less makes the start after a "
            "crash shorter, more saves writes.",
            unit="MB",
        ),
    ] = 128
    managed_ledger_max_entries_per_ledger: Annotated[
        int,
        Key("managedLedgerMaxEntriesPerLedger", Integer(1), "Entries before a topic rolls over."),
    ] = 50000
    managed_ledger_max_size_per_ledger_mbytes: Annotated[
        int,
        Key(
            "managedLedgerMaxSizePerLedgerMbytes",
            Integer(1),
            "Bytes before a topic rolls over.",
            unit="MB",
        ),
    ] = 2048
    managed_ledger_min_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMinLedgerRolloverTimeMinutes",
            COUNT,
            "A ledger is at least this old when it rolls over.",
            unit="min",
        ),
    ] = 10
    managed_ledger_max_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMaxLedgerRolloverTimeMinutes",
            Integer(1),
            "A ledger this old rolls over whatever it holds.",
            unit="min",
        ),
    ] = 240
    default_retention_time_in_minutes: Annotated[
        int,
        Key(
            "defaultRetentionTimeInMinutes",
            Integer(-1),
            "How long acknowledged messages are kept; 0 not at all, -1 for ever.",
            unit="min",
        ),
    ] = 0
    default_retention_size_in_mb: Annotated[
        int,
        Key(
            "defaultRetentionSizeInMB",
            Integer(-1),
            "How much of a topic's acknowledged messages is kept; 0 nothing, -1 everything.",
            unit="MB",
        ),
    ] = 0
    retention_check_interval_in_seconds: Annotated[
        int,
        Key(
            "retentionCheckIntervalInSeconds",
            Integer(1),
            "How often consumed segments are looked for and deleted, and old ones closed.",
            unit="s",
        ),
    ] = 120

    # Publishing
    max_message_size: Annotated[
        int,
        Key("maxMessageSize", Integer(1, 2**30), "The largest payload of a frame.", unit="bytes"),
    ] = 5242880
    max_pending_publish_requests_per_connection: Annotated[
        int,
        Key(
            "maxPendingPublishRequestsPerConnection",
            Integer(1),
            "Unanswered publishes after which a connection is not read.",
        ),
    ] = 1000
    max_message_publish_buffer_size_in_mb: Annotated[
        int,
        Key(
            "maxMessagePublishBufferSizeInMB",
            Integer(-1),
            "Unanswered bytes after which publishing connections are not read; -1 is no limit.",
            unit="MB",
            pulsar="half of direct memory",
        ),
    ] = 128
    max_producers_per_topic: Annotated[
        int,
        Key("maxProducersPerTopic", COUNT, "Producers on a topic; 0 is no limit.", pulsar="0"),
    ] = 10000
    encryption_require_on_producer: Annotated[
        bool,
        Key(
            "encryptionRequireOnProducer",
            FLAG,
            "Refuse producers that do not encrypt, and messages that are not encrypted.",
        ),
    ] = False

    # Deduplication
    broker_deduplication_enabled: Annotated[
        bool,
        Key(
            "brokerDeduplicationEnabled",
            FLAG,
            "Drop messages that a producer sends again; namespaces and topics may say otherwise.",
        ),
    ] = False
    broker_deduplication_max_number_of_producers: Annotated[
        int,
        Key(
            "brokerDeduplicationMaxNumberOfProducers",
            Integer(1, 1_000_000),
            "Names of producers that a topic remembers; above it the one longest unused is "
            "forgotten.",
        ),
    ] = 10000
    broker_deduplication_entries_interval: Annotated[
        int,
        Key(
            "brokerDeduplicationEntriesInterval",
            Integer(1),
            "Entries after which a topic stores what it remembers; what came later is read "
            "again when the topic is loaded.",
            unit="entries",
        ),
    ] = 1000
    broker_deduplication_snapshot_interval_seconds: Annotated[
        int,
        Key(
            "brokerDeduplicationSnapshotIntervalSeconds",
            Integer(1),
            "The same by time.",
            unit="s",
        ),
    ] = 120
    broker_deduplication_producer_inactivity_timeout_minutes: Annotated[
        int,
        Key(
            "brokerDeduplicationProducerInactivityTimeoutMinutes",
            Integer(1),
            "A producer that has been gone for so long is forgotten.",
            unit="min",
        ),
    ] = 360

    # Delayed delivery
    delayed_delivery_enabled: Annotated[
        bool,
        Key(
            "delayedDeliveryEnabled",
            FLAG,
            "Let messages wait for the time that they bring; otherwise they are delivered at once.",
        ),
    ] = True
    delayed_delivery_tick_time_millis: Annotated[
        int,
        Key(
            "delayedDeliveryTickTimeMillis",
            Integer(1),
            "How exact delays are: messages are due so much early, or late where delays are strict.",
            unit="ms",
        ),
    ] = 1000
    is_delayed_delivery_deliver_at_time_strict: Annotated[
        bool,
        Key(
            "isDelayedDeliveryDeliverAtTimeStrict",
            FLAG,
            "Never deliver a message before its time, rather up to a tick later.",
        ),
    ] = False
    delayed_delivery_max_delay_in_millis: Annotated[
        int,
        Key(
            "delayedDeliveryMaxDelayInMillis",
            COUNT,
            "A message with a longer delay is refused; 0 is no limit.",
            unit="ms",
        ),
    ] = 0

    # Topics and namespaces
    enable_persistent_topics: Annotated[
        bool, Key("enablePersistentTopics", FLAG, "Serve persistent topics.")
    ] = True
    enable_non_persistent_topics: Annotated[
        bool, Key("enableNonPersistentTopics", FLAG, "Serve non-persistent topics.")
    ] = True
    allow_auto_topic_creation: Annotated[
        bool,
        Key("allowAutoTopicCreation", FLAG, "A producer or consumer may create its topic."),
    ] = True
    allow_auto_namespace_creation: Annotated[
        bool,
        Key(
            "magnetarAllowAutoNamespaceCreation",
            FLAG,
            "A producer or consumer may create its namespace, and with it the tenant.",
        ),
    ] = True
    allow_auto_topic_creation_type: Annotated[
        TopicType,
        Key("allowAutoTopicCreationType", Choice(TopicType), "What is created then."),
    ] = TopicType.NON_PARTITIONED
    default_num_partitions: Annotated[
        int,
        Key("defaultNumPartitions", Integer(1), "Partitions of a topic that is created then."),
    ] = 1
    max_num_partitions_per_partitioned_topic: Annotated[
        int,
        Key(
            "maxNumPartitionsPerPartitionedTopic",
            Integer(0, 10_000),
            "Partitions of one topic; 0 is 10000, the most there can be.",
        ),
    ] = 0
    max_topics_per_namespace: Annotated[
        int,
        Key("maxTopicsPerNamespace", COUNT, "Topics in one namespace; 0 is no limit."),
    ] = 0
    default_number_of_namespace_bundles: Annotated[
        int,
        Key(
            "defaultNumberOfNamespaceBundles",
            Integer(1, 128),
            "Bundles of a namespace: the parts of it that brokers own. One broker owns all.",
        ),
    ] = 4
    bootstrap_namespaces: Annotated[
        tuple[str, ...],
        Key("bootstrapNamespaces", Texts(NAMESPACE), "Namespaces to create at the start."),
    ] = ()
    max_concurrent_lookup_request: Annotated[
        int,
        Key(
            "maxConcurrentLookupRequest",
            Integer(1),
            "Lookups at work at once; more are answered TooManyRequests.",
        ),
    ] = 50000

    # Subscriptions and dispatch
    allow_auto_subscription_creation: Annotated[
        bool,
        Key("allowAutoSubscriptionCreation", FLAG, "A consumer may create its subscription."),
    ] = True
    subscription_types_enabled: Annotated[
        frozenset[SubscriptionType],
        Key(
            "subscriptionTypesEnabled",
            Choices(SubscriptionType),
            "The subscription types that consumers may use.",
        ),
    ] = frozenset(SubscriptionType)
    subscription_key_shared_enable: Annotated[
        bool,
        Key("subscriptionKeySharedEnable", FLAG, "Consumers may use Key_Shared subscriptions."),
    ] = True
    subscription_key_shared_use_consistent_hashing: Annotated[
        bool,
        Key(
            "subscriptionKeySharedUseConsistentHashing",
            FLAG,
            "Key_Shared consumers divide the keys by a hash ring; if off, each one that joins "
            "takes half of the widest range.",
        ),
    ] = True
    subscription_key_shared_consistent_hashing_replica_points: Annotated[
        int,
        Key(
            "subscriptionKeySharedConsistentHashingReplicaPoints",
            Integer(1, 10_000),
            "Points that a consumer has on the hash ring; more of them divide the keys more "
            "evenly and make joining dearer.",
        ),
    ] = 100
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerConsumer",
            COUNT,
            "Entries, for each consumer of a Key_Shared subscription, that may wait because their "
            "consumer has no room, while others go on; 0 is no limit.",
        ),
    ] = 2000
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerSubscription",
            COUNT,
            "The same for all consumers of a subscription together; 0 is no limit.",
        ),
    ] = 20000
    max_subscriptions_per_topic: Annotated[
        int,
        Key(
            "maxSubscriptionsPerTopic",
            COUNT,
            "Subscriptions of a topic; 0 is no limit.",
            pulsar="0",
        ),
    ] = 10000
    max_consumers_per_topic: Annotated[
        int,
        Key("maxConsumersPerTopic", COUNT, "Consumers on a topic; 0 is no limit.", pulsar="0"),
    ] = 10000
    max_consumers_per_subscription: Annotated[
        int,
        Key(
            "maxConsumersPerSubscription",
            COUNT,
            "Consumers of a subscription; 0 is no limit.",
            pulsar="0",
        ),
    ] = 5000
    max_consumer_metadata_size: Annotated[
        int,
        Key("maxConsumerMetadataSize", COUNT, "The largest consumer metadata.", unit="characters"),
    ] = 1024
    active_consumer_failover_delay_time_millis: Annotated[
        int,
        Key(
            "activeConsumerFailoverDelayTimeMillis",
            COUNT,
            "How long a newly active Failover consumer waits for its first message.",
            unit="ms",
        ),
    ] = 1000
    max_unacked_messages_per_consumer: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerConsumer",
            COUNT,
            "Messages that a consumer of a durable Shared subscription may hold without "
            "acknowledging; 0 is no limit.",
        ),
    ] = 50000
    max_unacked_messages_per_subscription: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerSubscription",
            COUNT,
            "The same for all consumers of a subscription together; 0 is no limit.",
        ),
    ] = 200000
    max_unacked_messages_per_broker: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerBroker",
            COUNT,
            "The same for all subscriptions of the broker together; 0 is no limit.",
        ),
    ] = 0
    max_unacked_messages_per_subscription_on_broker_blocked: Annotated[
        float,
        Key(
            "maxUnackedMessagesPerSubscriptionOnBrokerBlocked",
            Share(),
            "At that limit, only subscriptions that hold less than this share of it get more.",
        ),
    ] = 0.16
    magnetar_count_lost_consumers_as_redelivery: Annotated[
        bool,
        Key(
            "magnetarCountLostConsumersAsRedelivery",
            FLAG,
            "Raise the redelivery count of what a Shared or Key_Shared consumer held when its "
            "connection was lost: so a message that kills its consumers ends as a dead letter.",
        ),
    ] = False
    acknowledgment_at_batch_index_level_enabled: Annotated[
        bool,
        Key(
            "acknowledgmentAtBatchIndexLevelEnabled",
            FLAG,
            "Remember which messages of a batch were acknowledged.",
        ),
    ] = True
    dispatcher_max_read_batch_size: Annotated[
        int,
        Key("dispatcherMaxReadBatchSize", Integer(1), "Entries of one read.", unit="entries"),
    ] = 100
    dispatcher_max_read_size_bytes: Annotated[
        int,
        Key("dispatcherMaxReadSizeBytes", Integer(1), "Bytes of one read.", unit="bytes"),
    ] = 5242880
    dispatcher_max_round_robin_batch_size: Annotated[
        int,
        Key(
            "dispatcherMaxRoundRobinBatchSize",
            Integer(1),
            "Entries that a Shared consumer gets before it is another one's turn.",
            unit="entries",
        ),
    ] = 20

    # Statistics
    stats_update_frequency_in_secs: Annotated[
        int,
        Key(
            "statsUpdateFrequencyInSecs",
            Integer(1),
            "The window over which rates are taken.",
            unit="s",
        ),
    ] = 60
    expose_topic_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeTopicLevelMetricsInPrometheus",
            FLAG,
            "Metrics for every topic; otherwise for every namespace.",
        ),
    ] = True

    @property
    def binds_to_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ip_address(self.bind_address).is_loopback
        except ValueError:
            return self.bind_address.lower() == "localhost"


def _keys() -> dict[str, Key]:
    hints = get_type_hints(Settings, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(Settings)}


KEYS: dict[str, Key] = _keys()
"""Every field of `Settings`, in order, with its key."""
