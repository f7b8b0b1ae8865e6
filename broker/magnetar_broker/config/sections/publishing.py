"""Publishing."""

from magnetar_broker.config.domains import COUNT, FLAG, MetadataInterceptor
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choices, Integer


@section("Publishing")
class Publishing:
    """Limits of producers and their messages."""

    max_message_size: int = setting(
        Integer(1, 2**30),
        "Largest message, or chunk of a message.",
        default=5242880,
        unit="bytes",
    )
    max_pending_publish_requests_per_connection: int = setting(
        Integer(1),
        "Number of publish requests without a receipt at which the broker stops reading from "
        "a connection.",
        default=1000,
        of_workers=True,
    )
    max_message_publish_buffer_size_in_mb: int = setting(
        Integer(-1),
        "Size of all messages without a receipt at which the broker stops reading from "
        "publishing connections, divided among several workers; -1 means no limit.",
        default=128,
        name="maxMessagePublishBufferSizeInMB",
        unit="MB",
        pulsar="half of direct memory",
        of_workers=True,
    )
    max_producers_per_topic: int = setting(
        COUNT,
        "Maximum number of producers of a topic; 0 means no limit.",
        default=10000,
        pulsar="0",
        dynamic=True,
    )
    max_same_address_producers_per_topic: int = setting(
        COUNT,
        "Maximum number of producers of a topic from one address; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    encryption_require_on_producer: bool = setting(
        FLAG,
        "Refuse producers that do not encrypt, and messages that are not encrypted.",
        default=False,
        dynamic=True,
    )


@section("Broker metadata")
class BrokerMetadata:
    """Metadata that the broker adds to the messages it stores."""

    broker_entry_metadata_interceptors: frozenset[MetadataInterceptor] = setting(
        Choices(MetadataInterceptor),
        "Metadata to store with each entry of a persistent topic: the index of its last "
        "message, counted since the topic exists; the broker's time, by which seeks by time, "
        "expiry and the age of backlogs go then.",
        default=frozenset(),
        of_workers=True,
    )
    exposing_broker_entry_metadata_to_client_enabled: bool = setting(
        FLAG,
        "Send this metadata to consumers whose client asks for it when it connects.",
        default=False,
        of_workers=True,
    )


@section("Deduplication")
class Deduplication:
    """Deduplication of messages that a producer sends again."""

    broker_deduplication_enabled: bool = setting(
        FLAG,
        "Drop messages that a producer sends again. Policies of namespaces and topics take "
        "precedence.",
        default=False,
        dynamic=True,
    )
    broker_deduplication_max_number_of_producers: int = setting(
        Integer(1, 1_000_000),
        "Maximum number of producers whose sequence ids a topic stores; beyond it, those of "
        "the longest-unused producer are deleted.",
        default=10000,
        of_workers=True,
    )
    broker_deduplication_entries_interval: int = setting(
        Integer(1),
        "Entries between two snapshots of the deduplication state; later entries are read "
        "again when the topic is loaded.",
        default=1000,
        unit="entries",
        dynamic=True,
    )
    broker_deduplication_snapshot_interval_seconds: int = setting(
        Integer(1),
        "Time between two snapshots of the deduplication state.",
        default=120,
        unit="s",
        dynamic=True,
    )
    broker_deduplication_producer_inactivity_timeout_minutes: int = setting(
        Integer(1),
        "Time after which the state of a disconnected producer is deleted.",
        default=360,
        unit="min",
        of_workers=True,
    )
