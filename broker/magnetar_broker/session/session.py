"""A session: the state of one client's connection, without the socket.

The shell feeds it bytes and writes what it queues.  SEND, ACK and FLOW are handled in
the receive loop itself, a whole read at a time: all SENDs of one producer that arrived
together become one run.  Every other command goes through the table of handlers; those
that must wait are coroutines and may be overtaken by later commands.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from magnetar_broker.broker import Broker
from magnetar_broker.errors import BrokerError, NotAllowed, as_refusal
from magnetar_broker.session.publishing import Publishing
from magnetar_broker.session.read_gate import ReadGate, Reading
from magnetar_broker.session.slots import Slots
from magnetar_broker.session.throttled import Throttled
from magnetar_broker.session.topic_watcher import TopicWatcher
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack, decode_ack
from magnetar_proto.commands import FIELDS, MAX31, NO_REQUEST, decode, encode
from magnetar_proto.deliveries import decode_flow
from magnetar_proto.errors import BadCommand, RemoteError
from magnetar_proto.frames import FRAME_PADDING, Frame, FrameDecoder
from magnetar_storage.world import Promise, Timer

logger = logging.getLogger(__name__)

Handler = Callable[["Session", Any], Coroutine[Any, Any, None] | None]
"""Takes the session and the sub-message; a coroutine it returns is run beside the session."""

MAX_FRAME_BEFORE_CONNECT = 64 * 1024
OUTBOX_BYTES = 4 << 20
"""Queued for one client beyond this, its consumers wait until it was written."""
MAX_REQUESTS = 100
"""Requests of one client that are worked on at a time; what comes behind them waits, in order."""
RECENTLY_CLOSED_SECONDS = 30
HEARS_ENDS = "Pulsar-Java"
"""How clients name themselves that can be told of the end of a topic."""


class Outbox(Reading, Protocol):
    """What a session needs of its shell."""

    @property
    def address(self) -> str:
        """Host and port of the peer."""

    def flush_soon(self) -> None:
        """Call `Session.take_output` at the end of this turn."""

    def close(self) -> None:
        """Write what is queued, then close; no more input will be handled."""


class Session:
    """Handles one client; create it when the client connects, `lost` it when it is gone."""

    def __init__(self, broker: Broker, outbox: Outbox, handlers: Mapping[int, Handler]) -> None:
        self.broker = broker
        self.clock = broker.engine.clock
        self._gate = ReadGate(outbox, self._hear)
        self._output = self._gate.reason()
        self._throttled = Throttled(self._gate, self.clock, self._reassure)
        self._requests = self._gate.reason()
        self._working = 0
        self._held: list[Frame] = []  # until fewer requests are under way
        self.publishing = Publishing(
            self,
            self._gate.reason(),
            broker.publishes,
            broker.settings.max_pending_publish_requests_per_connection,
        )
        self.consumers: Slots[Consumer] = Slots("consumer")
        self.watchers: dict[int, TopicWatcher] = {}
        """By ids of the client's choice; see `session.topic_lists`."""
        self.connected = False
        self.protocol_version = 0
        self._client_version = ""
        self._outbox = outbox
        self._handlers = handlers
        self._decoder = FrameDecoder(MAX_FRAME_BEFORE_CONNECT)
        self._closed = False
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._peer_full = False
        self._starved = False  # a consumer found no room; wake them when there is some
        self._ignoring: dict[int, Timer] = {}
        self._heard = True
        self._probes: list[Promise] = []

    @property
    def address(self) -> str:
        """Host and port of the peer, for people."""
        return self._outbox.address

    @property
    def is_over(self) -> bool:
        """Whether the connection is gone."""
        return self._closed

    # Input --------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Handle what arrived; a peer that breaks the rules is disconnected."""
        self._heard = True
        if self._probes:
            self._answer_probes(True)
        frames = self._decoder.feed(data)
        if self._held:
            self._held += frames
        else:
            self._handle(frames)

    def _handle(self, frames: list[Frame]) -> None:
        """Handle frames in their order; those behind a request too many wait for `_worked`."""
        try:
            at = 0
            while at < len(frames) and not self._closed:
                if frames[at][0] == pb.BaseCommand.SEND and self.connected:
                    at = self.publishing.receive(frames, at)
                elif self._working < MAX_REQUESTS:
                    self._command(frames[at])
                    at += 1
                else:
                    self._held = frames[at:]
                    self._requests.pause_reading()
                    return
            if self._decoder.error is not None:
                raise self._decoder.error
        except RemoteError as error:
            self.disconnect(f"{self.address} broke the protocol: {error}")

    def _worked(self) -> None:
        """A request was answered, or answers were read: go on with what waits if few are left."""
        if self._held and not self._peer_full and self._working <= MAX_REQUESTS // 2:
            frames, self._held = self._held, []
            self._handle(frames)
            if not self._held:
                self._requests.resume_reading()

    def _command(self, frame: Frame) -> None:
        kind, buf, start, mid, _ = frame
        if self.connected:
            if kind == pb.BaseCommand.ACK:
                self._ack(buf, start, mid)
                return
            if kind == pb.BaseCommand.FLOW:
                self._flow(*decode_flow(buf, start, mid))
                return
        elif kind != pb.BaseCommand.CONNECT:
            raise BadCommand(f"command {kind} before CONNECT")
        handler = self._handlers.get(kind)
        if handler is None:
            raise BadCommand(f"command {kind} is not one that a client sends")
        command = decode(buf, start, mid)
        message = getattr(command, FIELDS[kind])
        work = handler(self, message)
        if work is not None:
            self._working += 1
            self.broker.engine.tasks.spawn(
                self._guarded(work, getattr(message, "request_id", None))
            )

    async def _guarded(self, work: Coroutine[Any, Any, None], request_id: int | None) -> None:
        """Run a handler; what it refuses becomes an ERROR, its defects end the connection."""
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
        self._worked()

    def _ack(self, buf: bytes, start: int, mid: int) -> None:
        ack = decode_ack(buf, start, mid)
        consumer = self.consumers.get(ack.consumer_id)
        if consumer is None:
            return
        if ack.validation_error is not None:
            why = pb.CommandAck.ValidationError.Name(
                pb.CommandAck.ValidationError.ValueType(ack.validation_error)
            )
            logger.warning("%s could not read %s: %s", self.address, ack.message_ids, why)
        if ack.txn is not None:
            self._answer_ack(ack, NotAllowed("transactions are not supported on this broker"))
        elif ack.request_id is None:
            consumer.subscription.acknowledge(consumer, ack, None)
        else:
            consumer.subscription.acknowledge(
                consumer, ack, lambda error: self._answer_ack(ack, error)
            )

    def _answer_ack(self, ack: Ack, error: BaseException | None) -> None:
        if ack.request_id is None:
            return
        answer = pb.CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id)
        if error is not None:
            answer.error = error.code if isinstance(error, BrokerError) else pb.PersistenceError
            answer.message = str(error)
        self.reply(answer)

    def _flow(self, consumer_id: int, permits: int) -> None:
        if not 0 < permits <= MAX31:
            raise BadCommand(f"FLOW with {permits} permits: 1 to {MAX31} are possible")
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.subscription.flow(consumer, permits)

    # Output -------------------------------------------------------------------------

    def reply(self, message: Any) -> None:
        """Queue one command."""
        self.send(encode(message))

    def refuse(self, request_id: int, refusal: BrokerError) -> None:
        """Queue the ERROR that answers a request."""
        self.reply(pb.CommandError(request_id=request_id, error=refusal.code, message=str(refusal)))

    def send(self, frames: bytes) -> None:
        """Queue whole frames."""
        if not self._queue:
            self._outbox.flush_soon()
        self._queue.append(frames)
        self._queued_bytes += len(frames)

    def send_all(self, buffers: list[bytes], size: int) -> None:
        """Queue whole frames in many pieces."""
        if not self._queue:
            self._outbox.flush_soon()
        self._queue += buffers
        self._queued_bytes += size

    def take_output(self) -> list[bytes]:
        """What is to be written now; the shell calls `wrote` afterwards."""
        queue, self._queue = self._queue, []
        self._queued_bytes = 0
        return queue

    def wrote(self, peer_full: bool) -> None:
        """The output was handed to the socket, or the socket has room (or not) from now on."""
        self._peer_full = peer_full
        if peer_full:  # answers pile up: hear no more questions
            self._output.pause_reading()
        else:
            self._output.resume_reading()
        if self._starved and not peer_full:
            self._starved = False
            self.clock.soon(self._wake_consumers)
        self._worked()

    def has_room(self) -> bool:
        """Whether the client keeps up."""
        room = not (self._peer_full or self._closed) and self._queued_bytes < OUTBOX_BYTES
        if not room:
            self._starved = True
        return room

    def _wake_consumers(self) -> None:
        open_ones = (consumer for consumer in self.consumers.values() if not consumer.closed)
        for subscription in {consumer.subscription: None for consumer in open_ones}:
            subscription.wake()
        for watcher in self.watchers.values():
            watcher.write()

    def published(self, entries: int, size: int) -> None:
        """Pending entries were answered."""
        self.publishing.published(entries, size)

    # Life -----------------------------------------------------------------------------

    def welcome(self, command: pb.CommandConnect, own_version: int) -> None:
        """The client was accepted: larger frames may come from now on."""
        self.connected = True
        self._client_version = command.client_version
        self.protocol_version = min(own_version, command.protocol_version)
        self._decoder.max_frame = self.broker.settings.max_message_size + FRAME_PADDING

    def _hear(self) -> None:
        """The client is read from again: it could not be heard while it was not."""
        self._heard = True

    @property
    def _is_deaf(self) -> bool:
        """Whether the broker is too busy to read from the client: its silence says nothing."""
        busy = bool(self._held) and not self._peer_full
        return busy or self.publishing.paused or self._throttled.is_held

    def hold_reading(self) -> Callable[[], None]:
        """Read nothing from the client until what comes back is called."""
        return self._throttled.hold()

    def _reassure(self) -> None:
        """The client's own pings are not heard: let it hear something, so that it stays."""
        if not self._closed:
            self.reply(pb.CommandPing())

    def tick(self) -> None:
        """Called once an interval: ping a silent client, give up one that did not answer."""
        if self._is_deaf:
            return
        if not self.connected:
            self.disconnect(f"{self.address} did not complete its handshake")
        elif self._heard:
            self._heard = False
            self.reply(pb.CommandPing())
        else:
            self.disconnect(f"{self.address} did not answer a ping")

    async def is_alive(self) -> bool:
        """Whether the client answers a PING in time."""
        timeout_ms = self.broker.settings.connection_liveness_check_timeout_millis
        if self._closed or timeout_ms == 0 or self._is_deaf:
            return not self._closed  # an answer would not be read
        probe = self.clock.promise()
        self._probes.append(probe)
        self.reply(pb.CommandPing())
        timer: Timer = self.clock.later(timeout_ms / 1000, lambda: self._give_up(probe))
        try:
            return bool(await probe)
        finally:
            timer.cancel()

    def _give_up(self, probe: Promise) -> None:
        if probe in self._probes:
            self._probes.remove(probe)
            probe.set_result(False)

    def _answer_probes(self, alive: bool) -> None:
        probes, self._probes = self._probes, []
        for probe in probes:
            probe.set_result(alive)

    def active_changed(self, consumer_id: int, is_active: bool) -> None:
        """Tell a Failover consumer whether it receives; peers before version 12 do not know."""
        if self.protocol_version >= 12:
            self.reply(pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))

    def reached_end(self, consumer_id: int) -> None:
        """Tell a consumer that nothing will come any more.

        Clients in C++, Python, Node.js and Go do not know the command, and close the connection.
        """
        if self._client_version.startswith(HEARS_ENDS):
            self.reply(pb.CommandReachedEndOfTopic(consumer_id=consumer_id))

    def close_producer(self, producer_id: int) -> None:
        """Tell the client that its producer is gone."""
        self.publishing.producers.close(producer_id)
        self._ignore_for_a_while(producer_id)
        self._tell_closed(pb.CommandCloseProducer(producer_id=producer_id, request_id=NO_REQUEST))

    def drop_producer(self, producer_id: int) -> None:
        """A producer is gone without a word."""
        self.publishing.producers.free(producer_id)

    def _ignore_for_a_while(self, producer_id: int) -> None:
        """What the client sent before it knew that the producer is closed."""
        ignored = self.publishing.recently_closed
        ignored.add(producer_id)
        if producer_id in self._ignoring:
            self._ignoring[producer_id].cancel()
        self._ignoring[producer_id] = self.clock.later(
            RECENTLY_CLOSED_SECONDS, lambda: ignored.discard(producer_id)
        )

    def close_consumer(self, consumer_id: int) -> None:
        """Tell the client that its consumer is gone."""
        self.consumers.close(consumer_id)
        self._tell_closed(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=NO_REQUEST))

    def _tell_closed(self, message: Any) -> None:
        """Peers before version 5 do not know these commands: their connection is closed."""
        if self.protocol_version >= 5:
            self.reply(message)
        else:
            self.disconnect(
                f"{self.address} is too old to be told of a closed producer or consumer"
            )

    def disconnect(self, why: str) -> None:
        """End the connection after writing what is queued."""
        if not self._closed:
            logger.info("closing a connection: %s", why)
            self._outbox.close()
            self.lost()

    def lost(self) -> None:
        """The connection is gone: so are its producers and consumers."""
        if self._closed:
            return
        self._closed = True
        # What it kept goes now: session and connection know each other, so that only the
        # collector of garbage, which comes rarely, removes the two.
        self._decoder.drop()
        self._held = []
        self._answer_probes(False)
        self.publishing.lost()
        for consumer in self.consumers.values():
            consumer.lost = True
        self.consumers.close_all()
        for watcher in self.watchers.values():
            watcher.end()
