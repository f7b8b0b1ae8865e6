"""A session: the state of one client's connection, without the socket.

The shell feeds it bytes and writes what it queues.  SEND, ACK and FLOW are handled in
the receive loop itself, a whole read at a time: all SENDs of one producer that arrived
together become one run.  Every other command goes through the table of handlers; those
that must wait are coroutines and may be overtaken by later commands.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from magnetar_broker.authentication.identity import Roles
from magnetar_broker.authorization.access import Client
from magnetar_broker.base.errors import BrokerError, NotReady, as_refusal
from magnetar_broker.broker import Broker
from magnetar_broker.config.listeners import over_tls
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.limits.reached import ClientLimit
from magnetar_broker.session.acks import Acks
from magnetar_broker.session.handle_table import HandleTable
from magnetar_broker.session.liveness import Liveness
from magnetar_broker.session.output import Output
from magnetar_broker.session.publishing import Publishing
from magnetar_broker.session.read_gate import Pause, ReadGate, Reading
from magnetar_broker.session.relay import END_OF_CLIENT, Connect, Relay
from magnetar_broker.session.renewal import Renewal
from magnetar_broker.session.topic_watcher import TopicWatcher
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, MAX31, NO_REQUEST, decode
from magnetar_proto.deliveries import decode_flow
from magnetar_proto.errors import BadCommand, FrameTooLarge, RemoteError
from magnetar_proto.frames import FRAME_PADDING, Frame, FrameDecoder
from magnetar_proto.ids import MessageId
from magnetar_storage.log.damage import Damage

logger = logging.getLogger(__name__)

Handler = Callable[["Session", Any], Coroutine[Any, Any, None] | None]
"""Takes the session and the sub-message; a coroutine that it returns runs concurrently."""

MAX_FRAME_BEFORE_CONNECT = 64 * 1024
MAX_REQUESTS = 100
"""The most requests of one client handled at a time; later commands wait, in order."""
RECENTLY_CLOSED_SECONDS = 30
"""The seconds in which SENDs of a producer that the broker closed are ignored."""
DROPS_DAMAGED = "Pulsar-CPP"
"""The prefix of the `client_version` of clients in C++, Python and Node.js.

After any refusal of a message except ChecksumError they reconnect and send it again, for ever.
"""
UNDERSTANDS_DAMAGE = "Magnetar-"
"""The prefix of the `client_version` of clients that read `magnetar_damaged`."""
KNOWS_END_OF_TOPIC = ("Pulsar-Java", "Magnetar-Python")
"""The beginnings of `client_version` of clients that know REACHED_END_OF_TOPIC."""


class Outbox(Reading, Protocol):
    """The parts of the socket's owner that a session uses."""

    @property
    def address(self) -> str:
        """Host and port of the peer."""

    def flush_soon(self) -> None:
        """Call `Session.take_output` at the end of this turn."""

    def refusal(self) -> BrokerError | None:
        """Return why the client exceeds a limit of connections; None if it does not."""

    def accepted(self) -> None:
        """Note that the client has completed its handshake."""

    def abort(self) -> None:
        """Close at once, whatever is queued."""

    def close(self) -> None:
        """Write the queued output, then close; input is not handled any more."""


class Session:
    """Handles one client; `lost` must be called when the connection ends."""

    __slots__ = (
        "__weakref__",
        "_acks",
        "_closed",
        "_connect",
        "_decoder",
        "_gate",
        "_handlers",
        "_held",
        "_holds",
        "_liveness",
        "_names_process",
        "_outbox",
        "_output",
        "_working",
        "authenticating",
        "broker",
        "certificate",
        "client_version",
        "clock",
        "connected",
        "consumers",
        "has_room",
        "hold_reading",
        "is_internal",
        "is_upstream",
        "open_resources",
        "protocol_version",
        "publishing",
        "relay",
        "release_pending",
        "renewal",
        "reply",
        "roles",
        "send",
        "send_all",
        "take_output",
        "takes_broker_metadata",
        "watchers",
    )

    def __init__(
        self,
        broker: Broker,
        outbox: Outbox,
        handlers: Mapping[int, Handler],
        connect: Connect | None = None,
    ) -> None:
        """`connect` opens the upstreams of the client; handlers use them by `relayed`."""
        self.broker = broker
        self.clock = broker.engine.clock
        self._outbox = outbox
        self._handlers = handlers
        self._connect = connect
        self._begin_output(outbox)
        self._begin_input(broker, outbox)
        self._begin_client()

    def _begin_output(self, outbox: Outbox) -> None:
        # The parts get the output instead of the session: a part that refers to the session would
        # keep it, once the client has left, until the garbage collector runs, which is rare.
        self._output = Output(outbox.flush_soon)
        # Attributes instead of methods that forward: one call less for every run.
        self.send = self._output.send
        self.reply = self._output.reply
        self.send_all = self._output.send_all
        self.has_room = self._output.has_room
        self.take_output = self._output.take

    def _begin_input(self, broker: Broker, outbox: Outbox) -> None:
        settings, ping = broker.settings, self._output.ping
        probe_seconds = settings.connection_liveness_check_timeout_millis / 1000
        self._liveness = Liveness(self.clock, probe_seconds, ping)
        # promise[resumed -> received]: only what a client sends counts as its answer
        # promise[, ping -> , lambda: self._output.ping()]: parts of a session do not keep it
        self._gate = ReadGate(outbox, self.clock, ping, self._liveness.resumed)
        self._working = 0
        self._held: list[Frame] | tuple[()] = ()  # until fewer requests are under way
        self._holds = False
        """Whether the budget of received bytes counts some for this session."""
        self._decoder = FrameDecoder(MAX_FRAME_BEFORE_CONNECT)
        self.publishing = Publishing(
            self.send,
            self._gate,
            broker.publishes,
            settings.max_pending_publish_requests_per_connection,
            broker.max_producers,
        )
        self.release_pending = self.publishing.release_pending
        self.hold_reading = self._gate.hold
        self.consumers: HandleTable[Consumer] = HandleTable(
            "consumer", broker.max_consumers, "magnetarMaxConsumersPerConnection"
        )
        self._acks = Acks(outbox.address, self.consumers, self.reply)
        self.watchers: dict[int, TopicWatcher] = {}
        """Watchers of topic lists by ids that the client chose; see `session.topic_lists`."""

    def _begin_client(self) -> None:
        self.protocol_version = 0
        self.client_version = ""
        """The version that the client gave in its CONNECT."""
        self.takes_broker_metadata = False
        """Whether the client's consumers are sent broker entry metadata."""
        self.is_upstream = False
        """Whether the peer is another process's `relay`, which serves the client."""
        self.is_internal = False
        """Whether the peer is this broker itself, as in its health check; it proves no role."""
        self.connected = False
        self.certificate = b""
        """The client's TLS certificate, which was verified, as DER; empty if it showed none."""
        self.roles: Roles | None = None
        """The roles of the connected client; None while authentication is off.  For an upstream
        they are set at its creation: the process of the client's connection has authenticated it.
        """
        self.renewal: Renewal | None = None
        """The renewal of the client's credentials; None without authentication or for upstreams."""
        self.authenticating = False
        """Whether the CONNECT is being authenticated: what follows it waits."""
        self.open_resources: Client | None = None
        """The resources that the client has open; None until it has one that was authorized."""
        self.relay: Relay | None = None
        """The client's relay; None until the client uses topics of other processes."""
        self._names_process = False
        self._closed = False

    @property
    def address(self) -> str:
        """Host and port of the peer, for people."""
        return self._outbox.address

    @property
    def app_id(self) -> str | None:
        """The client's role, not that of a proxy between; None without authentication."""
        roles = self.roles
        return None if roles is None else roles.original or roles.own

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed."""
        return self._closed

    def check_open(self) -> None:
        """Raise `NotReady` if the connection is closed (see `base/wanted.py`)."""
        if self._closed:
            raise NotReady(f"the connection of {self.address} is closed")

    # Input --------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        """Handle received bytes; a peer that breaks the protocol is disconnected.

        The memory of a view may be used again on return.
        """
        self._liveness.received()
        if self.relay is not None:
            self.relay.answer_pings()
        frames = self._decoder.feed(data)
        if self._held:
            self._held += frames
        else:
            self._handle(frames)
        held = self._decoder.held
        if self._held:  # held frames keep the memory of their whole read
            held += len(data)
        if held or self._holds:
            self._hold(held, begins=bool(frames))

    def _hold(self, size: int, begins: bool) -> None:
        """Count `size` bytes of received frames as kept; `begins` if none was kept before."""
        if not self._closed:
            self._holds = bool(size)
            # promise: a part of a frame counts as received bytes
            self.broker.receiving.hold(self, size, begins)

    def give_up(self) -> None:
        """Disconnect the client at once to free its memory."""
        self._holds = False
        self._outbox.abort()
        self.lost()

    def _handle(self, frames: list[Frame]) -> None:
        """Handle frames in order.

        Those after `MAX_REQUESTS`, or after a CONNECT under way, wait for `_resume_held`.
        """
        try:
            at = 0
            while at < len(frames) and not self._closed:
                if self.relay is not None and (after := self.relay.forward(frames, at)) > at:
                    at = after
                # SENDs are not requests: they have a limit of their own, in `Publishing`.
                elif frames[at][0] == pb.BaseCommand.SEND and self.connected:
                    if self.relay is None:
                        at = self.publishing.receive(frames, at)
                    else:
                        # promise[self.relay.own_sends(frames, at) -> frames[at:]]: messages for
                        #   other processes are relayed
                        at += self.publishing.receive(self.relay.own_sends(frames, at), 0)
                # promise[without and not self.authenticating]: what follows a CONNECT waits for it
                elif self._working < MAX_REQUESTS and not self.authenticating:
                    self._command(frames[at])
                    at += 1
                else:
                    self._held = frames[at:]
                    self._gate.pause(Pause.REQUESTS)
                    return
            if self._decoder.error is not None:
                raise self._decoder.error
        except RemoteError as error:
            if isinstance(error, FrameTooLarge):
                self.broker.reached.count(ClientLimit.FRAME, "maxMessageSize", self.address)
            self.disconnect(f"{self.address} broke the protocol: {error}")

    def _resume_held(self) -> None:
        """Handle the frames that wait, once few requests are under way and answers are read."""
        if self._held and not self._output.peer_full and self._working <= MAX_REQUESTS // 2:
            frames, self._held = self._held, []
            self._handle(frames)
            if not self._held:
                if self._holds:
                    self._hold(self._decoder.held, begins=True)
                self._gate.resume(Pause.REQUESTS)

    def _command(self, frame: Frame) -> None:
        kind, buf, start, mid, _ = frame
        if self.connected:
            if kind == pb.BaseCommand.ACK:
                self._acks.receive(buf, start, mid)
                return
            if kind == pb.BaseCommand.FLOW:
                self._flow(*decode_flow(buf, start, mid))
                return
        elif kind != pb.BaseCommand.CONNECT:
            raise BadCommand(f"received command {kind} before CONNECT")
        handler = self._handlers.get(kind)
        if handler is None:
            raise BadCommand(f"received command {kind}, which clients do not send")
        command = decode(buf, start, mid)
        message = getattr(command, FIELDS[kind])
        work = handler(self, message)
        if work is not None:
            self._working += 1
            self.broker.engine.tasks.spawn(
                self._guarded(work, getattr(message, "request_id", None))
            )

    async def _guarded(self, work: Coroutine[Any, Any, None], request_id: int | None) -> None:
        """Run a handler: a refusal becomes an ERROR, a defect ends the connection."""
        try:
            await work
        except Exception as error:
            refusal = as_refusal(error)
            if refusal is None or request_id is None:
                logger.exception("a command of %s failed", self.address)
                self.disconnect("an internal error")
            else:
                self.refuse(request_id, refusal)
        self._working -= 1
        self._resume_held()

    def _flow(self, consumer_id: int, permits: int) -> None:
        if not 0 < permits <= MAX31:
            raise BadCommand(f"received FLOW with {permits} permits: expected 1 to {MAX31}")
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.subscription.flow(consumer, permits)

    # Output -------------------------------------------------------------------------

    def refuse(self, request_id: int, refusal: BrokerError) -> None:
        """Queue the ERROR that answers a request."""
        self.reply(pb.CommandError(request_id=request_id, error=refusal.code, message=str(refusal)))

    def wrote(self, peer_full: bool) -> None:
        """Note that the output was handed to the socket, which has room or none from now on."""
        self._output.peer_full = peer_full
        if self.relay is not None:
            self.relay.wrote(peer_full)
        if peer_full:  # answers pile up: read no more requests
            self._gate.pause(Pause.UNWRITTEN)
        else:
            self._gate.resume(Pause.UNWRITTEN)
        # Dispatch passed over its consumers while the client did not read, and what would wake
        # them otherwise, a new message or permits, may never come.
        if self._output.take_starved():
            self.clock.soon(self._wake_consumers, "dispatch")
        self._resume_held()

    def _wake_consumers(self) -> None:
        open_ones = (consumer for consumer in self.consumers.values() if not consumer.closed)
        for subscription in {consumer.subscription: None for consumer in open_ones}:
            subscription.wake()
        for watcher in self.watchers.values():
            watcher.write()

    # Life -----------------------------------------------------------------------------

    def refusal(self) -> BrokerError | None:
        """Return why the client exceeds a limit of connections; None if it does not."""
        return self._outbox.refusal()

    def accept(self, command: pb.CommandConnect, own_version: int) -> None:
        """Note that the client is accepted: frames of the full size are allowed from now on."""
        self.connected = True
        self.client_version = command.client_version
        # promise[always]: broker metadata is sent only if the settings say so
        if self.broker.settings.exposing_broker_entry_metadata_to_client_enabled:
            self.takes_broker_metadata = command.feature_flags.supports_broker_entry_metadata
        self.publishing.drops_damaged = self.client_version.startswith(DROPS_DAMAGED)
        self._names_process = bool(command.proxy_to_broker_url)
        self.protocol_version = min(own_version, command.protocol_version)
        self._decoder.max_frame = self.broker.settings.max_message_size + FRAME_PADDING
        self._outbox.accepted()

    def relayed(self) -> Relay:
        """Return the relay to processes that serve topics of the client; created at first use."""
        if self.relay is None:
            assert self._connect is not None
            self.relay = Relay(self, self._connect)
        return self.relay

    @property
    def _is_paused(self) -> bool:
        """Whether the broker does not read from the client, whose silence then means nothing."""
        busy = bool(self._held) and not self._output.peer_full
        return busy or self.publishing.paused or self._gate.is_held

    def ping_if_read(self) -> bool:
        """Ping the client; False if it is not read from, so that its silence means nothing."""
        if self._is_paused:
            return False
        self._output.ping()
        return True

    def tick(self) -> None:
        """Ping a silent client, or disconnect it if it did not answer; called once per interval."""
        if self._is_paused:
            return
        if not self.connected:
            self.disconnect(f"{self.address} did not complete its handshake")
        elif not self._liveness.check():
            self.disconnect(f"{self.address} did not answer a ping")

    async def is_alive(self) -> bool:
        """Return whether the client answers a PING in time."""
        timeout_ms = self.broker.settings.connection_liveness_check_timeout_millis
        if self._closed or timeout_ms == 0 or self._is_paused:
            return not self._closed  # an answer would not be read
        return await self._liveness.probe()

    def active_changed(self, consumer_id: int, is_active: bool) -> None:
        """Notify a Failover consumer whether it is active (protocol version 12 or later)."""
        if self.protocol_version >= 12:
            self.reply(pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))

    def damaged(self, consumer_id: int, partition: int, damage: Damage) -> None:
        """Notify a consumer of damaged, undelivered entries, if its client is Magnetar's."""
        # promise[always]: official clients are sent nothing that they do not know
        if self.client_version.startswith(UNDERSTANDS_DAMAGE):
            notice = pb.CommandActiveConsumerChange(
                consumer_id=consumer_id,
                is_active=True,
                magnetar_damaged_entries=damage.entries,
                magnetar_damage=damage.why,
            )
            first = MessageId(damage.segment, damage.first, partition=partition)
            notice.magnetar_damaged.CopyFrom(first.to_pb())
            self.reply(notice)

    def reached_end(self, consumer_id: int) -> None:
        """Notify a consumer that its topic is terminated and delivered to the end.

        Clients in C++, Python, Node.js and Go close the connection at a command that they do not
        know, so they are not notified.
        """
        if self.client_version.startswith(KNOWS_END_OF_TOPIC):
            self.reply(pb.CommandReachedEndOfTopic(consumer_id=consumer_id))

    def close_producer(self, producer_id: int, new_owner: str = "") -> None:
        """Close a producer and notify its client, which will reconnect."""
        self.publishing.producers.close(producer_id)
        self._ignore_for_a_while(producer_id)
        message = pb.CommandCloseProducer(producer_id=producer_id, request_id=NO_REQUEST)
        self._notify_closed(message, new_owner)

    def drop_producer(self, producer_id: int) -> None:
        """Forget a producer without notifying its client, whose next SEND ends the connection."""
        self.publishing.producers.free(producer_id)

    def _ignore_for_a_while(self, producer_id: int) -> None:
        """Ignore SENDs that the client sent before it learned that the producer is closed."""
        ignored = self.publishing.recently_closed
        if producer_id in ignored:
            ignored[producer_id].cancel()

        def forget() -> None:
            del ignored[producer_id]

        ignored[producer_id] = self.clock.later(RECENTLY_CLOSED_SECONDS, forget)

    def close_consumer(self, consumer_id: int, new_owner: str = "") -> None:
        """Close a consumer and notify its client, which will reconnect."""
        self.consumers.close(consumer_id)
        message = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=NO_REQUEST)
        self._notify_closed(message, new_owner)

    def _notify_closed(self, message: Any, new_owner: str) -> None:
        """Notify the client; before protocol version 5 it is disconnected instead."""
        # The name of a process is not the name of a host. Only a client that has named one already
        # connects to the address that it used, and names this one; any other looks the topic up.
        # promise[without self._names_process and]: only clients that can resolve it are told a
        #   process's name
        # promise[without and not self.is_upstream]: an upstream is not told the name of a process
        if new_owner and self._names_process and not self.is_upstream:
            # Set both URLs: which of them the client reads depends on whether it uses TLS.
            message.assignedBrokerServiceUrl = new_owner
            # promise: a client with TLS is told the new owner's address with TLS
            message.assignedBrokerServiceUrlTls = over_tls(new_owner)
        if self.protocol_version >= 5:
            self.reply(message)
        else:
            self.disconnect(
                f"{self.address} has a producer or consumer closed, and its protocol version "
                f"{self.protocol_version} has no command for that"
            )

    def disconnect(self, why: str) -> None:
        """Close the client's connection after writing the queued output."""
        # promise: a client that breaks the protocol elsewhere is disconnected
        if self.is_upstream and self.connected and not self._closed:
            self.refuse(END_OF_CLIENT, NotReady(why))
        self.close(why)

    def close(self, why: str) -> None:
        """Close this connection, which may be an upstream, after writing the queued output."""
        if not self._closed:
            logger.info("closing the connection from %s: %s", self.address, why)
            self._outbox.close()
            self.lost()

    def lost(self) -> None:
        """Close the producers and consumers of the connection, which has ended."""
        if self._closed:
            return
        if self._holds:
            self._hold(0, begins=False)
        self._closed = self._output.closed = True
        # Free memory now: what is still under way for the client may keep the session for a while.
        self._decoder.drop()
        self._held = ()
        self._liveness.end()
        self._gate.end()  # promise: the timer of a paused client ends with it
        if self.renewal is not None:
            self.renewal.end()
        # Session and relay, renewal and open resources, refer to each other: see `__init__`.
        self.renewal = None
        open_resources, self.open_resources = self.open_resources, None
        if open_resources is not None:
            self.broker.access.clients.discard(open_resources)
        # promise[, self.relay = self.relay, None -> = self.relay]: a session lets go of its relay
        relay, self.relay = self.relay, None
        if relay is not None:
            relay.close()  # promise: what a client had is closed when it leaves
        self.publishing.lost()
        # Unlike with CLOSE_CONSUMER, the client did not return its messages by intention, which
        # matters to `count_lost_as_redelivery`.
        for consumer in self.consumers.values():
            consumer.lost = True
        self.consumers.close_all()
        for watcher in self.watchers.values():
            watcher.end()
        self.watchers.clear()  # promise: a session lets go of its watchers
