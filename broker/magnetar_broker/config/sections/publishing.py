"""Publishing."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG, MetadataInterceptor
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choices, Integer, Key


@section
class Publishing:
    """Limits of producers and their messages."""

    max_message_size: Annotated[
        int,
        Key(
            "maxMessageSize",
            Integer(1, 2**30),
            "Largest message, or chunk of a message.",
            unit="bytes",
        ),
    ] = 5242880
    max_pending_publish_requests_per_connection: Annotated[
        int,
        Key(
            "maxPendingPublishRequestsPerConnection",
            Integer(1),
            "Number of publish requests without a receipt at which the broker stops reading from "
            "a connection.",
            of_workers=True,
        ),
    ] = 1000
    max_message_publish_buffer_size_in_mb: Annotated[
        int,
        Key(
            "maxMessagePublishBufferSizeInMB",
            Integer(-1),
            "Size of all messages without a receipt at which the broker stops reading from "
            "publishing connections, divided among several workers; -1 means no limit.",
            unit="MB",
            pulsar="half of direct memory",
            of_workers=True,
        ),
    ] = 128
    max_producers_per_topic: Annotated[
        int,
        Key(
            "maxProducersPerTopic",
            COUNT,
            "Maximum number of producers of a topic; 0 means no limit.",
            pulsar="0",
            dynamic=True,
        ),
    ] = 10000
    max_same_address_producers_per_topic: Annotated[
        int,
        Key(
            "maxSameAddressProducersPerTopic",
            COUNT,
            "Maximum number of producers of a topic from one address; 0 means no limit.",
            dynamic=True,
        ),
    ] = 0
    encryption_require_on_producer: Annotated[
        bool,
        Key(
            "encryptionRequireOnProducer",
            FLAG,
            "Refuse producers that do not encrypt, and messages that are not encrypted.",
            dynamic=True,
        ),
    ] = False


@section
class BrokerMetadata:
    """Metadata that the broker adds to the messages it stores."""

    broker_entry_metadata_interceptors: Annotated[
        frozenset[MetadataInterceptor],
        Key(
            "brokerEntryMetadataInterceptors",
            Choices(MetadataInterceptor),
            "Metadata to store with each entry of a persistent topic: the index of its last "
            "message, counted since the topic exists; the broker's time, by which seeks by time, "
            "expiry and the age of backlogs go then.",
            of_workers=True,
        ),
    ] = frozenset()
    exposing_broker_entry_metadata_to_client_enabled: Annotated[
        bool,
        Key(
            "exposingBrokerEntryMetadataToClientEnabled",
            FLAG,
            "Send this metadata to consumers whose client asks for it when it connects.",
            of_workers=True,
        ),
    ] = False


@section
class Deduplication:
    """Deduplication of messages that a producer sends again."""

    broker_deduplication_enabled: Annotated[
        bool,
        Key(
            "brokerDeduplicationEnabled",
            FLAG,
            "Drop messages that a producer sends again. Policies of namespaces and topics take "
            "precedence.",
            dynamic=True,
        ),
    ] = False
    broker_deduplication_max_number_of_producers: Annotated[
        int,
        Key(
            "brokerDeduplicationMaxNumberOfProducers",
            Integer(1, 1_000_000),
            "Maximum number of producers whose sequence ids a topic stores; beyond it, those of "
            "the longest-unused producer are deleted.",
            of_workers=True,
        ),
    ] = 10000
    broker_deduplication_entries_interval: Annotated[
        int,
        Key(
            "brokerDeduplicationEntriesInterval",
            Integer(1),
            "Entries between two snapshots of the deduplication state; later entries are read "
            "again when the topic is loaded.",
            unit="entries",
            dynamic=True,
        ),
    ] = 1000
    broker_deduplication_snapshot_interval_seconds: Annotated[
        int,
        Key(
            "brokerDeduplicationSnapshotIntervalSeconds",
            Integer(1),
            "Time between two snapshots of the deduplication state.",
            unit="s",
            dynamic=True,
        ),
    ] = 120
    broker_deduplication_producer_inactivity_timeout_minutes: Annotated[
        int,
        Key(
            "brokerDeduplicationProducerInactivityTimeoutMinutes",
            Integer(1),
            "Time after which the state of a disconnected producer is deleted.",
            unit="min",
            of_workers=True,
        ),
    ] = 360
