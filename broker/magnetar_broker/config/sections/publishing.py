"""What producers may do."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key


@section
class Publishing:
    """Limits of producers and of what they send."""

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
    max_same_address_producers_per_topic: Annotated[
        int,
        Key(
            "maxSameAddressProducersPerTopic",
            COUNT,
            "Producers on a topic from one address; 0 is no limit.",
        ),
    ] = 0
    encryption_require_on_producer: Annotated[
        bool,
        Key(
            "encryptionRequireOnProducer",
            FLAG,
            "Refuse producers that do not encrypt, and messages that are not encrypted.",
        ),
    ] = False


@section
class Deduplication:
    """Dropping what is sent again."""

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
