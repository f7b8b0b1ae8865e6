"""Relays one client's producers and consumers of topics that other processes serve.

A client that has looked a topic up connects to the process that serves it.  Other clients may use
the topic on any connection.  The session then opens an *upstream* to the topic's process, once for
each process: a connection as the client's own would be, with an ordinary session at its end.

A client that has looked a topic up connects to the process that serves it.  One that has not may
use the topic on any connection.  The session then opens an *upstream* to the topic's process, once
for each process: a connection as the client's own would be, with an ordinary session at its end.

Frames of the producers and consumers opened there are forwarded as they are, both ways.  Nothing in
them has to change: the ids of producers, consumers and requests are the client's, and unique on its
connection.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from magnetar_broker.base.errors import BrokerError, NotReady
from magnetar_broker.session.read_gate import Reading
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import decode_ack
from magnetar_proto.commands import FIELDS, MAX31, NO_REQUEST, decode, encode
from magnetar_proto.deliveries import decode_flow
from magnetar_proto.frames import Frame, FrameDecoder, pieces_of
from magnetar_proto.sends import decode_send

Command = pb.BaseCommand

MAX_UNANSWERED = 1000
"""The number of unanswered forwarded requests at which the client is not read, until half are."""
PONG: Final = encode(pb.CommandPong())
ENDED = "the process that serves the topic has ended: try again"
END_OF_CLIENT: Final = NO_REQUEST - 1
"""The request id of the ERROR with which a process asks to disconnect the client, for example
because it broke the protocol.  When an upstream just ends, the client stays connected."""

UNREAD: Final = frozenset(
    (
        Command.MESSAGE,
        Command.SEND_RECEIPT,
        Command.SEND_ERROR,
        Command.ACTIVE_CONSUMER_CHANGE,
        Command.REACHED_END_OF_TOPIC,
    )
)
"""Commands from upstream that are forwarded without parsing."""


class Client(Protocol):
    """The parts of a client's session that a relay uses."""

    def reply(self, message: Any) -> None:
        """Queue one command."""

    def refuse(self, request_id: int, refusal: BrokerError) -> None:
        """Queue the ERROR that answers a request."""

    def send_all(self, buffers: list[bytes], size: int) -> None:
        """Queue whole frames that are in many buffers, of `size` bytes together."""

    def close_producer(self, producer_id: int) -> None:
        """Send CLOSE_PRODUCER; the client will reconnect."""

    def close_consumer(self, consumer_id: int) -> None:
        """Send CLOSE_CONSUMER; the client will reconnect."""

    def disconnect(self, why: str) -> None:
        """Close the connection after writing the queued output."""

    def hold_reading(self) -> Callable[[], None]:
        """Read nothing from the client until the returned function is called."""

    def ping_if_read(self) -> bool:
        """Send a PING if the client is being read, so that its answer will be seen."""


class Channel(Reading, Protocol):
    """The shell of an upstream.  It calls `received`, `wrote` and, once, `ended`.

    It forgets the upstream when that is closed, or has ended: they refer to each other.
    """

    def write(self, pieces: list[bytes]) -> None:
        """Send complete frames."""

    def close(self) -> None:
        """Close the channel after all output is written."""


Connect = Callable[[int, "Upstream"], Channel]
"""Opens the channel to the process with this number."""

Ids = dict[int, "Upstream"]
"""The upstreams of a client's producers, or consumers, by ids that the client chose."""


class Relay:
    """The upstreams of one client."""

    def __init__(self, client: Client, connect: Connect) -> None:
        self.client = client
        self.producers: Ids = {}
        self.consumers: Ids = {}
        self.pinged: set[Upstream] = set()
        """The upstreams that wait for a sign of life of the client."""
        self.closed = False
        self._connect = connect
        self._upstreams: dict[int, Upstream] = {}
        self._client_full = False

    def upstream(self, worker: int) -> "Upstream":
        """Return the upstream to a process."""
        # promise[self._upstreams.get(worker) -> None]: one upstream serves all that a client has at
        #   a worker
        found = self._upstreams.get(worker)
        if found is None:
            found = self._upstreams[worker] = Upstream(self)
            found.channel = self._connect(worker, found)
            if self._client_full:  # promise: a new upstream waits for a client that does not read
                found.channel.pause_reading()
        return found

    def forward(self, frames: Sequence[Frame], at: int) -> int:
        """Forward the leading SENDs, ACKs and FLOWs among `frames[at:]` of other processes.

        Returns the index of the first frame that is not.
        """
        first, current = at, None
        try:
            while at < len(frames) and (target := self._target(frames[at])) is not None:
                if target is not current:
                    if current is not None:
                        current.channel.write(pieces_of(frames[first:at]))
                    first, current = at, target
                at += 1
        finally:  # `_target` refuses a malformed frame, not those before it
            if current is not None:
                current.channel.write(pieces_of(frames[first:at]))
        return at

    def own_sends(self, frames: Sequence[Frame], at: int) -> Sequence[Frame]:
        """Return the leading SENDs among `frames[at:]` that belong to this process."""
        end = at
        while (
            end < len(frames) and frames[end][0] == Command.SEND and not self._target(frames[end])
        ):
            end += 1
        return frames[at:end]

    def _target(self, frame: Frame) -> "Upstream | None":
        kind, buf, start, mid, _ = frame
        if kind == Command.SEND:
            send = decode_send(buf, start, mid)
            number = decode(buf, start, mid).send.producer_id if send is None else send[0]
            return self.producers.get(number)
        if kind == Command.ACK:
            ack = decode_ack(buf, start, mid)
            upstream = self.consumers.get(ack.consumer_id)
            if upstream is not None and ack.request_id is not None:
                # promise: an acknowledgement that asks for an answer gets one
                upstream.expect_answer(ack.request_id)
            return upstream
        if kind == Command.FLOW:
            return self.consumers.get(decode_flow(buf, start, mid)[0])
        return None

    def answer_pings(self) -> None:
        """Answer the processes that pinged the client, which has just sent something."""
        if self.pinged:
            for upstream in self.pinged:
                upstream.channel.write([PONG])
            self.pinged.clear()

    def wrote(self, client_full: bool) -> None:
        """Note that the client's socket has room, or has none, from now on."""
        if client_full != self._client_full:
            self._client_full = client_full
            for upstream in self._upstreams.values():
                if client_full:
                    # promise: a client that does not read is not read for
                    upstream.channel.pause_reading()
                else:
                    upstream.channel.resume_reading()

    def forget(self, upstream: "Upstream") -> None:
        """Remove an upstream that has ended."""
        self._upstreams = {n: one for n, one in self._upstreams.items() if one is not upstream}
        self.pinged.discard(upstream)

    def close(self) -> None:
        """Close all upstreams, because the client has left."""
        self.closed = True
        # Upstreams refer to the relay, and so to the session: without this, only the garbage
        # collector, which runs rarely, would free them.
        # promise[, self._upstreams = self._upstreams, {} -> = self._upstreams]: a relay lets go of
        #   its upstreams
        upstreams, self._upstreams = self._upstreams, {}
        # promise: a relay lets go of the ids of a client that left
        self.producers, self.consumers = {}, {}
        self.pinged.clear()  # promise: a relay lets go of upstreams that wait for a pong
        for upstream in upstreams.values():
            upstream.leave()


class _Freed(NamedTuple):
    """The id that no longer belongs to a process once a request is answered by this kind."""

    kind: int
    ids: Ids
    number: int


class Upstream:
    """The connection to one process on behalf of one client."""

    channel: Channel

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._client = relay.client
        # The sender has checked the size of frames, so any size is accepted here.
        self._decoder = FrameDecoder(MAX31)
        self._connected = False
        self._requests: dict[int, _Freed | None] = {}
        """Requests that are not answered yet."""
        self._refusal = NotReady(ENDED)
        self._full = True
        self._release: Callable[[], None] | None = self._client.hold_reading()

    # From the client ------------------------------------------------------------------

    def open(self, ids: Ids, number: int, command: Any) -> None:
        """Forward a PRODUCER or SUBSCRIBE: unless it is refused, its id belongs to the process."""
        # promise[without if number in ids else _Freed(Command.ERROR, ids, number)]: ids of refused
        #   producers are freed
        # promise[without None if number in ids else]: a refused repetition leaves open what is open
        freed = None if number in ids else _Freed(Command.ERROR, ids, number)
        ids[number] = self
        self.request(command, freed)

    def close(self, ids: Ids, number: int, command: Any) -> None:
        """Forward a CLOSE_PRODUCER or CLOSE_CONSUMER."""
        del ids[number]
        self.request(command)

    def unsubscribe(self, ids: Ids, number: int, command: Any) -> None:
        """Forward an UNSUBSCRIBE, which closes its consumer if it succeeds."""
        self.request(command, _Freed(Command.SUCCESS, ids, number))

    def request(self, command: Any, freed: _Freed | None = None) -> None:
        """Forward a request, whose answer is expected."""
        self.send(command)
        self.expect_answer(command.request_id, freed)

    def expect_answer(self, request_id: int, freed: _Freed | None = None) -> None:
        """Expect the answer to a forwarded request: it is refused if the process ends before."""
        self._requests[request_id] = freed
        self._hold_or_release()

    def send(self, command: Any) -> None:
        """Forward a command that gets no answer."""
        self.channel.write([encode(command)])

    def leave(self) -> None:
        """Close the upstream: the client has left."""
        # promise: an upstream lets go of its requests
        self._requests.clear()  # some refer to ids, which refer to upstreams
        self.channel.close()
        self._let_read()

    # From the process -----------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Forward input from the process, and handle the answers for the relay itself."""
        if self._relay.closed:
            return
        run: list[Frame] = []
        for frame in self._decoder.feed(data):
            kind, buf, start, mid, _ = frame
            if kind not in UNREAD:
                message = getattr(decode(buf, start, mid), FIELDS[kind])
                handler = HANDLERS.get(kind)
                if handler is not None:
                    self._forward(run)
                    run = []
                    handler(self, message)
                    # promise: nothing is handled after the command that disconnects
                    if self._relay.closed:  # an old client: it was disconnected instead
                        return
                    continue
                if not self._connected:  # the ERROR that answers CONNECT
                    # promise: the reason of a refused connection is passed on
                    self._refusal = NotReady(message.message)
                    continue
                if message.request_id == END_OF_CLIENT:
                    self._forward(run)
                    self._client.disconnect(message.message)
                    return
                self._answered(kind, message)
            run.append(frame)
        self._forward(run)
        if self._decoder.error is not None:
            raise self._decoder.error

    def _forward(self, run: list[Frame]) -> None:
        if run:
            pieces = pieces_of(run)
            self._client.send_all(pieces, sum(map(len, pieces)))

    def _answered(self, kind: int, message: Any) -> None:
        request_id = message.request_id
        if request_id not in self._requests:
            return
        # promise: a producer that waits is not answered yet
        if kind == Command.PRODUCER_SUCCESS and not message.producer_ready:
            return  # another answer follows when it is the producer's turn
        self._free_if(kind, self._requests.pop(request_id))
        self._hold_or_release()

    def _free_if(self, kind: int, freed: _Freed | None) -> None:
        """Free the ids of a request that was answered by this kind."""
        # promise[ids.get(freed.number) is self -> number in freed.ids]: an answer frees only ids
        #   that this process has
        if freed is not None and freed.kind == kind and freed.ids.get(freed.number) is self:
            del freed.ids[freed.number]

    def on_connected(self, message: pb.CommandConnected) -> None:
        """Ignore CONNECTED: the client has its own."""
        self._connected = True

    def on_ping(self, message: pb.CommandPing) -> None:
        """Ask the client for a sign of life; while it is not read from, it counts as alive."""
        if self._client.ping_if_read():  # promise: pings are answered only for a client that reads
            self._relay.pinged.add(self)
        else:
            # promise: a client that is not read from does not count as dead
            self.channel.write([PONG])

    def on_close_producer(self, message: pb.CommandCloseProducer) -> None:
        """Close the client's producer that the process has closed, if the client has not."""
        if self._relay.producers.get(message.producer_id) is self:
            del self._relay.producers[message.producer_id]
            self._client.close_producer(message.producer_id)

    def on_close_consumer(self, message: pb.CommandCloseConsumer) -> None:
        """Close the client's consumer that the process has closed, if the client has not."""
        if self._relay.consumers.get(message.consumer_id) is self:
            del self._relay.consumers[message.consumer_id]
            self._client.close_consumer(message.consumer_id)

    # The channel ----------------------------------------------------------------------

    def wrote(self, full: bool) -> None:
        """Note that the channel has room, or has none, from now on; at first it has none."""
        self._full = full
        if not self._relay.closed:
            self._hold_or_release()

    def give_up(self) -> None:
        """Disconnect the client: its output for the process takes too much memory."""
        if not self._relay.closed:
            self._client.disconnect(
                "too much waits for another process (magnetarReceiveBufferSizeInMB)"
            )

    def ended(self) -> None:
        """Refuse the requests of a closed channel, and close its producers and consumers."""
        if self._relay.closed:
            return
        self._relay.forget(self)  # promise: a process that ended is sent nothing
        self._let_read()  # promise: a client is read again when the process behind has ended
        for request_id, freed in self._requests.items():
            # promise: requests of a process that ended are refused
            self._client.refuse(request_id, self._refusal)
            self._free_if(Command.ERROR, freed)
        for ids, close in (
            (self._relay.producers, self._client.close_producer),
            (self._relay.consumers, self._client.close_consumer),
        ):
            for number in [number for number, upstream in ids.items() if upstream is self]:
                del ids[number]
                close(number)  # promise: what a process that ended had is closed

    def _hold_or_release(self) -> None:
        """Read from the client only while the process keeps up."""
        if self._release is None:
            # promise: a client is not read while its process is behind
            # promise[without or len(self._requests) >= MAX_UNANSWERED]: requests under way are
            #   limited
            if self._full or len(self._requests) >= MAX_UNANSWERED:
                self._release = self._client.hold_reading()
        elif not self._full and len(self._requests) <= MAX_UNANSWERED // 2:
            self._let_read()

    def _let_read(self) -> None:
        if self._release is not None:
            release, self._release = self._release, None
            release()


HANDLERS: Final[dict[int, Callable[[Upstream, Any], None]]] = {
    Command.CONNECTED: Upstream.on_connected,
    Command.PING: Upstream.on_ping,
    Command.CLOSE_PRODUCER: Upstream.on_close_producer,
    Command.CLOSE_CONSUMER: Upstream.on_close_consumer,
}
"""Commands from upstream that are not forwarded."""
