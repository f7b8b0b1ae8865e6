"""A connection to a broker: matches answers to requests, and routes other frames by id."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from importlib.metadata import version
from operator import attrgetter
from typing import Any, ClassVar, Protocol, Self, cast

from magnetar.base.errors import (
    ConnectionLost,
    MagnetarError,
    NotAuthenticated,
    OperationTimeout,
    broker_error,
)
from magnetar.base.settings import Address, Settings
from magnetar.clock import Timer
from magnetar.connections.unreached import EndedUnheard, explained, failure_of, other_protocol
from magnetar.security.security import OPEN, Security, tls_failure
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, PROTOCOL_VERSION, decode, encode
from magnetar_proto.deliveries import DeliveryRun, decode_run
from magnetar_proto.errors import ProtocolError
from magnetar_proto.frames import FRAME_PADDING, Frame, FrameDecoder
from magnetar_proto.ids import MessageId
from magnetar_proto.sends import decode_receipt

CLIENT_VERSION = f"Magnetar-Python-{version('magnetar')}"
DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024

Kind = pb.BaseCommand


class ProducerEnd(Protocol):
    """The callbacks of a producer that is registered on a connection."""

    def receipt_rcvd(
        self, connection: "Connection", sequence_id: int, ledger: int, entry: int
    ) -> None:
        """Called when the broker has stored the batch that begins with `sequence_id`."""

    def send_error_rcvd(self, connection: "Connection", error: pb.CommandSendError) -> None:
        """Called when the broker has refused a batch."""

    def detached(self, connection: "Connection", error: MagnetarError, new_owner: str = "") -> None:
        """Called when the registration has ended: register again, with `new_owner` if named."""


class ConsumerEnd(Protocol):
    """The callbacks of a consumer that is registered on a connection."""

    def entries_rcvd(self, run: DeliveryRun) -> None:
        """Called with entries that have arrived together, verbatim."""

    def active_changed(self, is_active: bool) -> None:
        """Called when a failover subscription makes this consumer active or inactive."""

    def damaged(self, first: MessageId, entries: int, why: str) -> None:
        """Called when the broker does not deliver these entries because it cannot read them."""

    def end_reached(self) -> None:
        """Called when the topic is terminated and all its messages are acknowledged."""

    def detached(self, connection: "Connection", error: MagnetarError, new_owner: str = "") -> None:
        """Called when the registration has ended: register again, with `new_owner` if named."""


class WatcherEnd(Protocol):
    """The callbacks of a watcher of a namespace's topics."""

    def topics_changed(self) -> None:
        """Called when topics were created or deleted."""

    def detached(self, connection: "Connection", error: MagnetarError, new_owner: str = "") -> None:
        """Called when the watch has ended."""


class Connection(asyncio.Protocol):
    """A connection, created by `open`; when `is_open` becomes false, all ends were `detached`."""

    def __init__(self, address: Address, settings: Settings, security: Security = OPEN) -> None:
        self.address = address
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self.is_proxied = False
        """Whether the address is that of a proxy, and the handshake named the broker."""
        self._settings = settings
        self._security = security
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(DEFAULT_MAX_MESSAGE_SIZE + FRAME_PADDING)
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._connected: asyncio.Future[pb.CommandConnected] = self._loop.create_future()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._request_ids = itertools.count(1)
        self._producers: dict[int, ProducerEnd] = {}
        self._consumers: dict[int, ConsumerEnd] = {}
        self._watchers: dict[int, WatcherEnd] = {}
        self._heard = False
        """Whether anything was received in the current keepalive interval."""
        self._probing = False
        self._keepalive: Timer | None = None
        self._error: MagnetarError | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def open(
        cls, address: Address, settings: Settings, proxy_to: str = "", security: Security = OPEN
    ) -> Self:
        """Connect and complete the handshake; `proxy_to` is the broker that a proxy forwards to."""
        try:
            async with settings.clock.timeout(settings.connect_timeout_s):
                credentials = await security.credentials()
                try:
                    return await cls._open(address, settings, security, proxy_to, credentials)
                except EndedUnheard as error:
                    # promise[await explained(address, error) -> error]: TLS on one side only is
                    #   found out
                    found = await explained(address, error)
                    if found is error:
                        raise
                    raise found from error
        except TimeoutError:
            raise OperationTimeout(
                f"no handshake with {address} within {settings.connect_timeout_s:g} s: check the "
                "address and the network, and look at the broker's log"
            ) from None

    @classmethod
    async def _open(
        cls,
        address: Address,
        settings: Settings,
        security: Security,
        proxy_to: str,
        credentials: bytes | None,
    ) -> Self:
        connection = None
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: cls(address, settings, security),
                address.host,
                address.port,
                ssl=security.context_for(address),
            )
            await connection._shake_hands(proxy_to, credentials)
            return connection
        except OSError as error:
            raise failure_of(address, error) from error
        finally:
            if connection is not None and not connection._connected.done():
                connection.close()

    async def _shake_hands(self, proxy_to: str, credentials: bytes | None) -> None:
        command = pb.CommandConnect(
            client_version=CLIENT_VERSION, protocol_version=PROTOCOL_VERSION
        )
        command.feature_flags.supports_broker_entry_metadata = True
        if credentials is not None:
            command.auth_method_name = self._security.method
            command.auth_data = credentials
            command.feature_flags.supports_auth_refresh = True
        if proxy_to:
            command.proxy_to_broker_url = proxy_to
            self.is_proxied = True  # promise: a connection remembers that it came through a proxy
        self.write(encode(command))
        connected = await self._connected
        if connected.HasField("max_message_size"):
            self.max_message_size = connected.max_message_size
            self._decoder.max_frame = connected.max_message_size + FRAME_PADDING
        self._schedule_keepalive()

    # -- for users of the connection

    @property
    def is_open(self) -> bool:
        return self._error is None

    def write(self, data: bytes) -> None:
        """Queue whole frames, which are sent at the end of this turn; ConnectionLost if closed."""
        self._check_open()
        if not self._outgoing:
            self._loop.call_soon(self._send_outgoing)
        self._outgoing.append(data)

    def write_now(self, data: bytes) -> None:
        """Send complete frames at once, so that the broker can process them meanwhile."""
        self.write(data)
        self._send_outgoing()

    def _send_outgoing(self) -> None:
        # One write for all frames of a turn: a write for each would be a system call each.
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(outgoing))

    def _check_open(self) -> None:
        if self._error is not None:
            raise ConnectionLost(f"the connection to {self.address} is closed") from self._error

    def expect(self) -> tuple[int, asyncio.Future[Any]]:
        """Return a new request id and a future of its answer; the caller sets the timeout."""
        self._check_open()
        request_id = next(self._request_ids)
        answer = self._loop.create_future()
        self._answers[request_id] = answer
        answer.add_done_callback(lambda _: self._answers.pop(request_id, None))
        return request_id, answer

    async def request(self, command: Any) -> Any:
        """Send a command with a `request_id`; return the answering sub-command, or BrokerError."""
        command.request_id, answer = self.expect()
        self.write(encode(command))
        try:
            async with self._settings.clock.timeout(self._settings.operation_timeout_s):
                return await answer
        except TimeoutError:
            raise OperationTimeout(
                f"{self.address} did not answer {type(command).__name__} within "
                f"{self._settings.operation_timeout_s:g} s"
            ) from None

    def send_only(self, command: Any) -> None:
        """Send a command with a `request_id` whose answer is ignored."""
        if self.is_open:
            command.request_id = next(self._request_ids)
            self.write(encode(command))

    def add_producer(self, producer_id: int, end: ProducerEnd) -> None:
        """Register `end` for the receipts and errors of this producer."""
        self._producers[producer_id] = end

    def add_consumer(self, consumer_id: int, end: ConsumerEnd) -> None:
        """Register `end` for the entries of this consumer."""
        self._consumers[consumer_id] = end

    def add_watcher(self, watcher_id: int, end: WatcherEnd) -> None:
        """Register `end` for the changes that this watcher reports."""
        self._watchers[watcher_id] = end

    def remove_watcher(self, watcher_id: int) -> None:
        """Remove the registration of this watcher."""
        self._watchers.pop(watcher_id, None)

    def remove_producer(self, producer_id: int) -> None:
        """Remove the registration of this producer."""
        self._producers.pop(producer_id, None)

    def remove_consumer(self, consumer_id: int) -> None:
        """Remove the registration of this consumer."""
        self._consumers.pop(consumer_id, None)

    def close(self, error: MagnetarError | None = None) -> None:
        """Close the connection; open requests and registered ends receive `error`."""
        if self._error is not None:
            return
        self._error = error or ConnectionLost(f"the connection to {self.address} was closed")
        self._send_outgoing()
        if self._transport is not None:
            # promise[self._connected.done() -> True]: a connection that was not accepted ends at
            #   once, though its peer may not answer the end of TLS
            if self._connected.done():
                self._transport.close()
            else:
                self._transport.abort()
        if self._keepalive is not None:
            self._keepalive.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
        for answer in (self._connected, *self._answers.values()):
            if not answer.done():
                answer.set_exception(self._error)
                answer.exception()  # marks it as retrieved: asyncio logs no abandoned request
        ends: list[ProducerEnd | ConsumerEnd | WatcherEnd]
        ends = [*self._producers.values(), *self._consumers.values(), *self._watchers.values()]
        self._producers.clear()
        self._consumers.clear()
        self._watchers.clear()
        for end in ends:
            end.detached(self, self._error)

    async def ended(self, limit_s: float) -> None:
        """Wait until a closed connection has ended: with TLS, the peer is told first."""
        if self._transport is None:
            return
        try:
            async with self._settings.clock.timeout(limit_s):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not an instance

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()
        self.close(self._end(error))

    def _end(self, error: Exception | None) -> MagnetarError:
        text = f"{self.address} closed the connection{f': {error}' if error else ''}"
        if self._connected.done():
            return ConnectionLost(text)
        # With TLS 1.3 a broker refuses the client's certificate after the handshake.
        if (refused := tls_failure(self.address, error)) is not None:
            return refused
        text += " during the handshake"
        if self.address.is_tls:
            return ConnectionLost(f"{text}; it may ask for a certificate of the client")
        return ConnectionLost(text) if self._heard else EndedUnheard(text)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        frames = self._decoder.feed(data)
        try:
            at, end = 0, len(frames)
            while at < end:
                kind, buf, start, mid, payload = frames[at]
                if kind == Kind.MESSAGE:
                    at += self._on_messages(frames, at)
                    continue
                at += 1
                handler = self._HANDLERS.get(kind)
                if handler is not None:
                    handler(self, buf, start, mid, payload)
            if self._decoder.error is not None:
                raise self._decoder.error
        except ProtocolError as error:
            lost: MagnetarError = ConnectionLost(f"{self.address} broke the protocol: {error}")
            if not frames and not self._connected.done():
                lost = other_protocol(self.address, data)
            lost.__cause__ = error
            self.close(lost)

    # -- keepalive

    def _schedule_keepalive(self) -> None:
        self._keepalive = self._settings.clock.later(self._settings.keepalive_s, self._probe)

    def _probe(self) -> None:
        if not self._heard and self._probing:
            self.close(
                ConnectionLost(
                    f"{self.address} was silent for {2 * self._settings.keepalive_s:g} s"
                )
            )
            return
        self._probing = not self._heard
        self._heard = False
        if self._probing:
            self.write(encode(pb.CommandPing()))
        self._schedule_keepalive()

    # -- frames: one small handler each

    def _on_receipt(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        producer_id, sequence_id, _, ledger, entry = decode_receipt(buf, start, mid)
        producer = self._producers.get(producer_id)
        if producer is not None:
            producer.receipt_rcvd(self, sequence_id, ledger, entry)

    def _on_messages(self, frames: Sequence[Frame], at: int) -> int:
        """Route the leading MESSAGEs among `frames[at:]` with equal fields; return their number."""
        run = decode_run(frames, at)
        consumer = self._consumers.get(run.head.consumer_id)
        if consumer is not None:
            consumer.entries_rcvd(run)
        return len(run.entries)

    def _on_ping(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        self.write(encode(pb.CommandPong()))

    def _on_connected(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        if not self._connected.done():
            self._connected.set_result(decode(buf, start, mid).connected)

    def _on_answer(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        command = decode(buf, start, mid)
        reply = _REPLY_OF[command.type](command)
        answer = self._answers.get(reply.request_id)
        if answer is None or answer.done():
            return
        if command.type == Kind.ACK_RESPONSE and reply.HasField("error"):
            answer.set_exception(broker_error(reply.error, reply.message))
        else:
            answer.set_result(reply)

    def _on_error(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        reply = decode(buf, start, mid).error
        error = broker_error(reply.error, reply.message)
        if not self._connected.done():
            self.close(error)
            return
        if reply.request_id == NO_REQUEST:
            # These credentials were accepted once: another connection will send the new ones.
            # promise[never]: a failed renewal leaves open what the application has
            expired = isinstance(error, NotAuthenticated)
            self.close(ConnectionLost(f"{self.address}: {error}") if expired else error)
            return
        answer = self._answers.get(reply.request_id)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _on_send_error(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        error = decode(buf, start, mid).send_error
        producer = self._producers.get(error.producer_id)
        if producer is not None:
            producer.send_error_rcvd(self, error)

    def _on_producer_success(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        # A producer that waits for exclusive access gets this first, and another one in its turn.
        if decode(buf, start, mid).producer_success.producer_ready:
            self._on_answer(buf, start, mid, payload)

    def _on_active_change(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        change = decode(buf, start, mid).active_consumer_change
        consumer = self._consumers.get(change.consumer_id)
        if consumer is None:
            return
        if change.HasField("magnetar_damaged"):
            first = MessageId.from_pb(change.magnetar_damaged)
            consumer.damaged(first, change.magnetar_damaged_entries, change.magnetar_damage)
        else:
            consumer.active_changed(change.is_active)

    def _on_end_of_topic(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        consumer = self._consumers.get(decode(buf, start, mid).reachedEndOfTopic.consumer_id)
        if consumer is not None:
            consumer.end_reached()

    def _on_topic_update(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        watcher = self._watchers.get(decode(buf, start, mid).watchTopicUpdate.watcher_id)
        if watcher is not None:
            watcher.topics_changed()

    def _on_close_producer(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        command = decode(buf, start, mid).close_producer
        producer = self._producers.pop(command.producer_id, None)
        if producer is not None:
            why = ConnectionLost(f"{self.address} closed the producer")
            producer.detached(self, why, self._new_owner(command))

    def _on_close_consumer(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        command = decode(buf, start, mid).close_consumer
        consumer = self._consumers.pop(command.consumer_id, None)
        if consumer is not None:
            why = ConnectionLost(f"{self.address} closed the consumer")
            consumer.detached(self, why, self._new_owner(command))

    def _new_owner(self, command: pb.CommandCloseProducer | pb.CommandCloseConsumer) -> str:
        if self.address.is_tls:
            return command.assignedBrokerServiceUrlTls
        return command.assignedBrokerServiceUrl

    def _on_auth_challenge(self, buf: bytes, start: int, mid: int, payload: bytes) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        """Answer the broker's request for new credentials; without any, close the connection."""
        try:
            async with self._settings.clock.timeout(self._settings.connect_timeout_s):
                # promise[without renewed=True]: new credentials are fetched when asked for
                credentials = await self._security.credentials(renewed=True)
        except (MagnetarError, TimeoutError) as error:
            lost = ConnectionLost(f"{self.address} asked for new credentials: {error}")
            lost.__cause__ = error
            self.close(lost)
            return
        if credentials is None:
            self.close(ConnectionLost(f"{self.address} asked for credentials, and there are none"))
            return
        answer = pb.CommandAuthResponse(
            client_version=CLIENT_VERSION, protocol_version=PROTOCOL_VERSION
        )
        answer.response.auth_method_name = self._security.method
        answer.response.auth_data = credentials
        if self.is_open:
            self.write(encode(answer))

    # Other kinds of frames are ignored.
    _HANDLERS: ClassVar[dict[int, Callable[["Connection", bytes, int, int, bytes], None]]] = {
        Kind.SEND_RECEIPT: _on_receipt,
        Kind.PING: _on_ping,
        Kind.CONNECTED: _on_connected,
        Kind.SUCCESS: _on_answer,
        Kind.PRODUCER_SUCCESS: _on_producer_success,
        Kind.LOOKUP_RESPONSE: _on_answer,
        Kind.PARTITIONED_METADATA_RESPONSE: _on_answer,
        Kind.GET_LAST_MESSAGE_ID_RESPONSE: _on_answer,
        Kind.GET_TOPICS_OF_NAMESPACE_RESPONSE: _on_answer,
        Kind.ACK_RESPONSE: _on_answer,
        Kind.GET_SCHEMA_RESPONSE: _on_answer,
        Kind.GET_OR_CREATE_SCHEMA_RESPONSE: _on_answer,
        Kind.AUTH_CHALLENGE: _on_auth_challenge,
        Kind.WATCH_TOPIC_LIST_SUCCESS: _on_answer,
        Kind.WATCH_TOPIC_UPDATE: _on_topic_update,
        Kind.TC_CLIENT_CONNECT_RESPONSE: _on_answer,
        Kind.NEW_TXN_RESPONSE: _on_answer,
        Kind.ADD_PARTITION_TO_TXN_RESPONSE: _on_answer,
        Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: _on_answer,
        Kind.END_TXN_RESPONSE: _on_answer,
        Kind.ACTIVE_CONSUMER_CHANGE: _on_active_change,
        Kind.REACHED_END_OF_TOPIC: _on_end_of_topic,
        Kind.ERROR: _on_error,
        Kind.SEND_ERROR: _on_send_error,
        Kind.CLOSE_PRODUCER: _on_close_producer,
        Kind.CLOSE_CONSUMER: _on_close_consumer,
    }


_REPLY_OF: dict[int, Callable[[pb.BaseCommand], Any]] = {
    Kind.SUCCESS: attrgetter("success"),
    Kind.PRODUCER_SUCCESS: attrgetter("producer_success"),
    Kind.LOOKUP_RESPONSE: attrgetter("lookupTopicResponse"),
    Kind.PARTITIONED_METADATA_RESPONSE: attrgetter("partitionMetadataResponse"),
    Kind.GET_LAST_MESSAGE_ID_RESPONSE: attrgetter("getLastMessageIdResponse"),
    Kind.GET_TOPICS_OF_NAMESPACE_RESPONSE: attrgetter("getTopicsOfNamespaceResponse"),
    Kind.ACK_RESPONSE: attrgetter("ackResponse"),
    Kind.GET_SCHEMA_RESPONSE: attrgetter("getSchemaResponse"),
    Kind.GET_OR_CREATE_SCHEMA_RESPONSE: attrgetter("getOrCreateSchemaResponse"),
    Kind.WATCH_TOPIC_LIST_SUCCESS: attrgetter("watchTopicListSuccess"),
    Kind.TC_CLIENT_CONNECT_RESPONSE: attrgetter("tcClientConnectResponse"),
    Kind.NEW_TXN_RESPONSE: attrgetter("newTxnResponse"),
    Kind.ADD_PARTITION_TO_TXN_RESPONSE: attrgetter("addPartitionToTxnResponse"),
    Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: attrgetter("addSubscriptionToTxnResponse"),
    Kind.END_TXN_RESPONSE: attrgetter("endTxnResponse"),
}
