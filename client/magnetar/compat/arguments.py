"""The types of the arguments that the official client checks."""

from collections.abc import Mapping
from typing import Any, Final

import magnetar
from magnetar.compat.authentication import Authentication
from magnetar.compat.checks import check
from magnetar.compat.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from magnetar.compat.messages import MessageId
from magnetar.compat.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    CryptoKeyReader,
)
from magnetar.compat.schema import Schema

Arguments = Mapping[str, type | tuple[type, ...]]
NONE: Final = type(None)

CLIENT: Final[Arguments] = {
    "service_url": str,
    "authentication": (Authentication, NONE),
    "operation_timeout_seconds": int,
    "io_threads": int,
    "message_listener_threads": int,
    "concurrent_lookup_requests": int,
    "log_conf_file_path": (str, NONE),
    "stats_interval_in_seconds": int,
    "use_tls": bool,
    "tls_trust_certs_file_path": (str, NONE),
    "tls_allow_insecure_connection": bool,
    "tls_validate_hostname": bool,
    "connection_timeout_ms": int,
    "listener_name": (str, NONE),
    "tls_private_key_file_path": (str, NONE),
    "tls_certificate_file_path": (str, NONE),
}
PRODUCER: Final[Arguments] = {
    "topic": str,
    "producer_name": (str, NONE),
    "schema": Schema,
    "initial_sequence_id": (int, NONE),
    "send_timeout_millis": int,
    "compression_type": CompressionType,
    "max_pending_messages": int,
    "max_pending_messages_across_partitions": int,
    "block_if_queue_full": bool,
    "batching_enabled": bool,
    "batching_max_messages": int,
    "batching_max_allowed_size_in_bytes": int,
    "batching_max_publish_delay_ms": int,
    "chunking_enabled": bool,
    "message_routing_mode": PartitionsRoutingMode,
    "lazy_start_partitioned_producers": bool,
    "properties": (dict, NONE),
    "batching_type": BatchingType,
    "access_mode": ProducerAccessMode,
    "encryption_key": (str, NONE),
    "crypto_key_reader": (CryptoKeyReader, NONE),
}
CONSUMER: Final[Arguments] = {
    "subscription_name": str,
    "consumer_type": ConsumerType,
    "schema": Schema,
    "receiver_queue_size": int,
    "max_total_receiver_queue_size_across_partitions": int,
    "consumer_name": (str, NONE),
    "unacked_messages_timeout_ms": (int, NONE),
    "broker_consumer_stats_cache_time_ms": int,
    "negative_ack_redelivery_delay_ms": int,
    "is_read_compacted": bool,
    "properties": (dict, NONE),
    "pattern_auto_discovery_period": int,
    "initial_position": InitialPosition,
    "replicate_subscription_state_enabled": bool,
    "max_pending_chunked_message": int,
    "auto_ack_oldest_chunked_message_on_queue_full": bool,
    "start_message_id_inclusive": bool,
    "batch_receive_policy": (ConsumerBatchReceivePolicy, NONE),
    "key_shared_policy": (ConsumerKeySharedPolicy, NONE),
    "batch_index_ack_enabled": bool,
    "regex_subscription_mode": RegexSubscriptionMode,
    "dead_letter_policy": (ConsumerDeadLetterPolicy, NONE),
    "crypto_key_reader": (CryptoKeyReader, NONE),
    "crypto_failure_action": ConsumerCryptoFailureAction,
}
READER: Final[Arguments] = {
    "topic": str,
    "start_message_id": (MessageId, magnetar.MessageId),
    "schema": Schema,
    "receiver_queue_size": int,
    "reader_name": (str, NONE),
    "subscription_role_prefix": (str, NONE),
    "is_read_compacted": bool,
    "start_message_id_inclusive": bool,
    "crypto_key_reader": (CryptoKeyReader, NONE),
    "crypto_failure_action": ConsumerCryptoFailureAction,
}


def check_arguments(known: Arguments, given: Mapping[str, Any]) -> None:
    """Check the types of arguments; ValueError names the first argument of a wrong type."""
    for name, kind in known.items():
        check(kind, given[name], name)
