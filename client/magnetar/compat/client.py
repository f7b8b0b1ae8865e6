"""The client of the official API."""

import logging
import re
import sys
import uuid
from collections.abc import Callable, Coroutine
from enum import IntEnum
from typing import Any, Final, TypeVar

import magnetar
from magnetar.base.background import Facade, background
from magnetar.base.closing import Closing
from magnetar.base.unreadable import SKIP
from magnetar.compat.arguments import check_arguments
from magnetar.compat.authentication import Authentication
from magnetar.compat.checks import check, check_or_none
from magnetar.compat.consumer import Consumer, Positions
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
from magnetar.compat.exceptions import (
    AlreadyClosed,
    InvalidConfiguration,
    translated,
    unsupported,
)
from magnetar.compat.listening import CallbackThread, ListenerThreads, Listening
from magnetar.compat.loggers import Chosen, handler_of
from magnetar.compat.messages import Message, MessageId
from magnetar.compat.policies import (
    DEFAULT_BATCH_RECEIVE,
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    CryptoKeyReader,
)
from magnetar.compat.producer import Outbox, Producer
from magnetar.compat.reader import Reader, TableView
from magnetar.compat.receiving import Receiving, position
from magnetar.compat.schema import BytesSchema, Schema
from magnetar.compat.schema.base import sending
from magnetar.compat.service import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Receiving)
W = TypeVar("W", bound=Closing)

_BYTES: Final = BytesSchema()
_NO_LIMIT: Final = sys.maxsize
_LEAST_ACK_TIMEOUT_MS: Final = 10_000


class Client:
    """Opens producers, consumers and readers, which share connections and threads."""

    @translated
    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
        authentication: Authentication | None = None,
        operation_timeout_seconds: int = 30,
        io_threads: int = 1,
        message_listener_threads: int = 1,
        concurrent_lookup_requests: int = 50000,
        log_conf_file_path: str | None = None,
        stats_interval_in_seconds: int = 600,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
        logger: Chosen | None = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
    ) -> None:
        check_arguments(Client.__init__, locals())
        if not isinstance(service_url, str):  # created without their constructors, which refuse
            raise ValueError("AutoClusterFailover and ServiceInfoProvider are not supported")
        if message_listener_threads < 1:
            raise ValueError("message_listener_threads must be above 0")
        _tells_of_no_effect("io_threads", io_threads, 1)
        _tells_of_no_effect("concurrent_lookup_requests", concurrent_lookup_requests, 50000)
        _tells_of_no_effect("stats_interval_in_seconds", stats_interval_in_seconds, 600)
        self._info = ServiceInfo(service_url, authentication, tls_trust_certs_file_path)
        tls = None
        if self._info.use_tls:
            tls = magnetar.Tls(
                trust_file=tls_trust_certs_file_path or None,
                cert_file=tls_certificate_file_path or None,
                key_file=tls_private_key_file_path or None,
                verify_hostname=tls_validate_hostname,
                allow_insecure=tls_allow_insecure_connection,
            )
        self._handler = handler_of(logger)
        if self._handler is not None:
            logging.getLogger("magnetar").addHandler(self._handler)

        async def make() -> magnetar.Client:
            return magnetar.connect(
                service_url,
                auth=None if authentication is None else authentication.auth,
                tls=tls,
                operation_timeout_s=operation_timeout_seconds,
                connect_timeout_s=connection_timeout_ms / 1000,
                listener_name=listener_name or "",
            )

        self._facade = Facade(background.run(make()))
        self._callbacks = CallbackThread()
        self._listeners = ListenerThreads(message_listener_threads)
        self._consumers: list[Receiving] = []
        self._outboxes: set[Outbox] = set()
        self._is_closed = False

    @translated
    def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        schema: Schema = _BYTES,
        initial_sequence_id: int | None = None,
        send_timeout_millis: int = 30000,
        compression_type: CompressionType = CompressionType.NONE,
        max_pending_messages: int = 1000,
        max_pending_messages_across_partitions: int = 50000,
        block_if_queue_full: bool = False,
        batching_enabled: bool = False,
        batching_max_messages: int = 1000,
        batching_max_allowed_size_in_bytes: int = 128 * 1024,
        batching_max_publish_delay_ms: int = 10,
        chunking_enabled: bool = False,
        message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution,
        lazy_start_partitioned_producers: bool = False,
        properties: dict[str, str] | None = None,
        batching_type: BatchingType = BatchingType.Default,
        encryption_key: str | None = None,
        crypto_key_reader: CryptoKeyReader | None = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: Callable[[Message, int], int] | None = None,
    ) -> Producer:
        """Create a producer; send_timeout_millis=0 waits for receipts without limit."""
        check_arguments(Client.create_producer, locals())
        if batching_enabled and chunking_enabled:
            raise ValueError("batching_enabled and chunking_enabled cannot both be set")
        if encryption_key and crypto_key_reader is None:
            raise InvalidConfiguration(
                f"encryption_key is {encryption_key!r}, and there is no crypto_key_reader: nothing "
                "would be encrypted"
            )
        parts = len(self._facade.run(self._facade.wrapped.partitions, topic))
        limit = max_pending_messages or _NO_LIMIT
        if max_pending_messages_across_partitions and parts > 1:
            limit = max(min(limit, max_pending_messages_across_partitions // parts), 1)
        batching = None
        if batching_enabled:
            batching = magnetar.BatchLimits(
                batching_max_messages,
                batching_max_allowed_size_in_bytes,
                batching_max_publish_delay_ms,
            )
        # promise["cpp" -> "murmur3"]: keys go to the partitions of the official Python client
        options: dict[str, Any] = {
            "name": producer_name or None,
            "schema": sending(schema),
            "initial_sequence_id": initial_sequence_id,
            "send_timeout_s": send_timeout_millis / 1000 or float("inf"),
            "compression": _word(compression_type),
            "max_pending_messages": limit,
            "max_pending_bytes": _NO_LIMIT,
            "batching": batching,
            "key_batching": batching_enabled and batching_type == BatchingType.KeyBased,
            "chunking": chunking_enabled,
            "routing": _routing(message_routing_mode, message_router, schema),
            "hashing": "cpp",
            "lazy": lazy_start_partitioned_producers,
            "properties": properties or {},
            "access_mode": _word(access_mode),
        }
        if encryption_key and crypto_key_reader is not None:
            options["encryption_keys"] = [encryption_key]
            options["key_reader"] = crypto_key_reader._keys
        producer = Producer()
        opened = self._facade.run(self._facade.wrapped.producer, _full(topic), **options)
        producer._facade = Facade(opened)
        producer._schema = schema
        producer._outbox = Outbox(opened, limit * parts, block_if_queue_full)
        producer._callbacks = self._callbacks
        producer._forget = self._outboxes.discard
        self._outboxes.add(producer._outbox)
        return producer

    @translated
    def subscribe(
        self,
        topic: str | list[str] | re.Pattern[str],
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema = _BYTES,
        message_listener: Callable[[Consumer, Message], None] | None = None,
        receiver_queue_size: int = 1000,
        max_total_receiver_queue_size_across_partitions: int = 50000,
        consumer_name: str | None = None,
        unacked_messages_timeout_ms: int | None = None,
        broker_consumer_stats_cache_time_ms: int = 30000,
        negative_ack_redelivery_delay_ms: int = 60000,
        is_read_compacted: bool = False,
        properties: dict[str, str] | None = None,
        pattern_auto_discovery_period: int = 60,
        initial_position: InitialPosition = InitialPosition.Latest,
        crypto_key_reader: CryptoKeyReader | None = None,
        replicate_subscription_state_enabled: bool = False,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        start_message_id_inclusive: bool = False,
        batch_receive_policy: ConsumerBatchReceivePolicy | None = None,
        key_shared_policy: ConsumerKeySharedPolicy | None = None,
        batch_index_ack_enabled: bool = False,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: ConsumerDeadLetterPolicy | None = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
    ) -> Consumer:
        """Create a consumer of a topic, a list of topics, or all topics that match a pattern."""
        check_arguments(Client.subscribe, locals())
        if not subscription_name:
            raise InvalidConfiguration("subscription_name must not be empty")
        if unacked_messages_timeout_ms and unacked_messages_timeout_ms < _LEAST_ACK_TIMEOUT_MS:
            raise ValueError(
                f"unacked_messages_timeout_ms must be at least {_LEAST_ACK_TIMEOUT_MS}, but is "
                f"{unacked_messages_timeout_ms}"
            )
        if replicate_subscription_state_enabled:
            raise unsupported("replicate_subscription_state_enabled", "nothing is replicated")
        _tells_of_no_effect(
            "broker_consumer_stats_cache_time_ms", broker_consumer_stats_cache_time_ms, 30000
        )
        name = consumer_name or uuid.uuid4().hex[:10]
        options: dict[str, Any] = {
            "type": _word(consumer_type),
            "initial_position": _word(initial_position),
            "consumer_name": name,
            "ack_timeout_s": (unacked_messages_timeout_ms or 0) / 1000 or None,
            "nack_delay_s": negative_ack_redelivery_delay_ms / 1000,
            "redeliver_on_reconnect": True,  # as in the official client
            "read_compacted": is_read_compacted,
            "consumer_properties": properties or {},
            "max_pending_chunked": max_pending_chunked_message or _NO_LIMIT,
            "ack_oldest_chunked": auto_ack_oldest_chunked_message_on_queue_full,
            "batch_index_acks": batch_index_ack_enabled,
            "key_shared": key_shared_policy and key_shared_policy.policy(),
            "dead_letter": dead_letter_policy and dead_letter_policy.policy(),
            "on_unreadable": SKIP,
            "key_reader": crypto_key_reader and crypto_key_reader._keys,
            "on_undecryptable": _word(crypto_failure_action),
            "schema": schema._receiving(),
        }
        limits = receiver_queue_size, max_total_receiver_queue_size_across_partitions
        opened = self._subscribed(
            topic, subscription_name, regex_subscription_mode, limits, options
        )
        consumer = Consumer()
        consumer._facade = Facade(opened)
        consumer._name = name
        consumer._is_shared = consumer_type in (ConsumerType.Shared, ConsumerType.KeyShared)
        consumer._policy = batch_receive_policy or DEFAULT_BATCH_RECEIVE
        consumer._positions = Positions(start_message_id_inclusive)
        return self._registered(consumer, schema, message_listener, consumer._next)

    def _subscribed(
        self,
        topic: str | list[str] | re.Pattern[str],
        name: str,
        mode: RegexSubscriptionMode,
        queue_limits: tuple[int, int],
        options: dict[str, Any],
    ) -> magnetar.Consumer:
        run, client = self._facade.run, self._facade.wrapped
        if isinstance(topic, re.Pattern):
            pattern = _pattern(topic.pattern, mode)
            found = run(client.topics_matching, pattern)
            options["queue_size"] = self._queue_size(found, *queue_limits)
            return run(client.subscribe_matching, pattern, name, **options)
        topics = [_full(one) for one in ([topic] if isinstance(topic, str) else topic)]
        options["queue_size"] = self._queue_size(topics, *queue_limits)
        return run(client.subscribe_all, topics, name, **options)

    def _queue_size(self, topics: list[str], size: int, total: int) -> int:
        """Return the queue size of each partition, limited so that their sum is at most `total`."""
        if size == 0 or total <= 0:
            return size
        run, client = self._facade.run, self._facade.wrapped
        parts = sum(len(run(client.partitions, topic)) for topic in topics)
        return max(min(size, total // max(parts, 1)), 1)

    @translated
    def create_reader(
        self,
        topic: str,
        start_message_id: MessageId | magnetar.MessageId,
        schema: Schema = _BYTES,
        reader_listener: Callable[[Reader, Message], None] | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: CryptoKeyReader | None = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
    ) -> Reader:
        """Create a reader that starts after a message, or at it if start_message_id_inclusive."""
        check_arguments(Client.create_reader, locals())
        name = f"reader-{uuid.uuid4().hex[:10]}"
        opened = self._facade.run(
            self._facade.wrapped.reader,
            _full(topic),
            position(start_message_id),
            inclusive=start_message_id_inclusive,
            queue_size=receiver_queue_size,
            on_unreadable=SKIP,
            read_compacted=is_read_compacted,
            name=f"{subscription_role_prefix}-{name}" if subscription_role_prefix else name,
            consumer_name=reader_name or None,
            schema=schema._receiving(),
            key_reader=crypto_key_reader and crypto_key_reader._keys,
            on_undecryptable=_word(crypto_failure_action),
        )
        reader = Reader()
        reader._facade = Facade(opened)
        reader._inclusive = start_message_id_inclusive
        return self._registered(reader, schema, reader_listener, opened.read)

    def _registered(
        self,
        receiver: R,
        schema: Schema,
        listener: Callable[[R, Message], None] | None,
        receive: Callable[[], Coroutine[Any, Any, magnetar.Message]],
    ) -> R:
        receiver._client = self
        receiver._schema = schema
        schema.attach_client(self)
        self._consumers.append(receiver)
        if listener is not None:

            def tell(message: magnetar.Message) -> None:
                listener(receiver, receiver._message(message))

            thread = self._listeners.next()
            clock = receiver._facade.wrapped.inbox.clock
            receiver._listening = self._facade.do(Listening, thread, receive, tell, clock)
        return receiver

    @translated
    def create_table_view(
        self, topic: str, subscription_name: str | None = None, schema: Schema = _BYTES
    ) -> TableView:
        """Create a table view, complete up to the present end of the topic."""
        check(str, topic, "topic")
        check_or_none(str, subscription_name, "subscription_name")
        check(Schema, schema, "schema")
        view = self._facade.run(
            self._facade.wrapped.table_view,
            _full(topic),
            name=subscription_name or None,
            schema=schema._receiving(),
        )
        return TableView(Facade(view), topic, subscription_name, schema)

    @translated
    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the full names of the topic's partitions; its own name if it has none."""
        check(str, topic, "topic")
        return self._facade.run(self._facade.wrapped.partitions, topic)

    def get_service_info(self) -> ServiceInfo:
        """Return the address that the client connects to."""
        return self._info

    @translated
    def shutdown(self) -> None:
        """Close everything at once, and fail pending operations."""
        self._end()
        self._facade.run(self._facade.wrapped.abort)
        self._callbacks.close()

    @translated
    def close(self) -> None:
        """Close the client and everything it has opened, after pending operations have ended."""
        for outbox in self._end():
            self._facade.run(outbox.flush)
        self._facade.run(self._facade.wrapped.close)
        self._callbacks.close()

    def _end(self) -> list[Outbox]:
        self._facade.check_not_forked()
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        self._is_closed = True
        for receiver in self._consumers:
            if receiver._listening is not None:
                self._facade.do(receiver._listening.close)
        self._listeners.close()
        outboxes = list(self._outboxes)
        for outbox in outboxes:
            outbox.close()
        if self._handler is not None:
            logging.getLogger("magnetar").removeHandler(self._handler)
            self._handler.close()
        return outboxes

    def _forget(self, receiver: Receiving) -> None:
        if receiver in self._consumers:
            self._consumers.remove(receiver)


def _word(option: IntEnum) -> str:
    """Return the name of this client for a member of an enumeration: `key_shared`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", option.name).lower()


def _full(topic: str) -> str:
    return str(TopicName.parse(topic))


def _pattern(pattern: str, mode: RegexSubscriptionMode) -> str:
    if mode == RegexSubscriptionMode.AllTopics:
        raise unsupported(
            "regex_subscription_mode=AllTopics",
            "subscribe twice, with PersistentOnly and NonPersistentOnly",
        )
    domain = "persistent" if mode == RegexSubscriptionMode.PersistentOnly else "non-persistent"
    _, separator, rest = pattern.partition("://")
    rest = rest if separator else pattern
    return f"{domain}://{rest if '/' in rest else f'public/default/{rest}'}"


def _routing(
    mode: PartitionsRoutingMode,
    router: Callable[[Message, int], int] | None,
    schema: Schema,
) -> Any:
    if router is not None:
        return lambda message, count: int(router(Message._wrap(message, schema), count))
    if mode == PartitionsRoutingMode.CustomPartition:
        raise ValueError("PartitionsRoutingMode.CustomPartition needs message_router")
    is_single = mode == PartitionsRoutingMode.UseSinglePartition
    return "single" if is_single else "round_robin"


def _tells_of_no_effect(option: str, value: object, default: int) -> None:
    if value != default:
        logger.warning("%s=%s has no effect in magnetar.compat: leave it out", option, value)
