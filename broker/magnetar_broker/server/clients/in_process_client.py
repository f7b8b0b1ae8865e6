"""A client in the broker's own process, without a socket."""

from collections import deque
from functools import partial
from typing import Any, NamedTuple

from magnetar_broker.broker import Broker
from magnetar_broker.session.handlers import HANDLERS
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, PROTOCOL_VERSION, decode, encode
from magnetar_proto.frames import FRAME_PADDING, FrameDecoder
from magnetar_proto.sends import encode_send
from magnetar_storage.runtime.execution import Promise

Kind = pb.BaseCommand
PRODUCER_ID = 1


class Unexpected(Exception):
    """The broker gave an unexpected answer; the text says which."""


class ClientDisconnected(Exception):
    """The client has left, so no further answer arrives."""


class _Received(NamedTuple):
    kind: int
    command: Any
    entry: bytes


class InProcessClient:
    """A client that has at most one request under way.  Call `leave` at the end."""

    def __init__(self, broker: Broker, address: str) -> None:
        """`address`, as `host:port`, stands for the client in statistics and limits."""
        self.address = address
        self._clock = broker.engine.clock
        self._received: deque[_Received] = deque()
        self._arrival: Promise | None = None
        self._decoder = FrameDecoder(broker.settings.max_message_size + FRAME_PADDING)
        self._session: Session | None = Session(broker, self, HANDLERS)
        """The session until the client leaves: the two refer to each other."""
        self._session.is_internal = True
        self._name, self._sequence_id = "", 0

    # Called by the session: its outbox --------------------------------------------------

    def flush_soon(self) -> None:
        self._clock.soon(self._flush)

    def pause_reading(self) -> None:
        """Do nothing: the input is bounded by the code that sends it."""

    def resume_reading(self) -> None:
        pass

    def refusal(self) -> None:
        return None

    def accepted(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        session = self._session
        if session is None:  # the client has left
            return
        frames = self._decoder.feed(b"".join(session.take_output()))
        for kind, buf, start, mid, payload in frames:
            if kind == Kind.PING:  # another producer asks for the name of this one
                self._clock.soon(partial(self.send, encode(pb.CommandPong())))
                continue
            command = getattr(decode(buf, start, mid), FIELDS[kind])
            self._received.append(_Received(kind, command, payload))
        session.wrote(peer_full=False)
        if self._received and self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # Called by the owner ----------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._session is not None:
            self._session.receive(data)

    async def ask(self, command: Any, expected: int) -> Any:
        """Send a command, and return the answer; `Unexpected` if it is of another kind."""
        self.send(encode(command))
        return (await self.next(expected)).command

    async def next(self, *expected: int) -> _Received:
        """Return the next command.

        Raises `Unexpected` if it is of another kind, `ClientDisconnected` after `leave`.
        """
        while not self._received:
            if self._session is None:  # the client has left: nothing will come
                raise ClientDisconnected
            self._arrival = self._clock.promise()
            await self._arrival
        received = self._received.popleft()
        if received.kind in (Kind.CLOSE_PRODUCER, Kind.CLOSE_CONSUMER):
            raise Unexpected("the broker closed the topic; its log has the cause")
        if received.kind not in expected:
            wanted = " or ".join(FIELDS[kind] for kind in expected)
            reason = getattr(received.command, "message", "")
            raise Unexpected(f"expected {wanted} but got {FIELDS[received.kind]} {reason}".rstrip())
        return received

    def leave(self) -> None:
        """End the session, which closes its producer and its non-durable subscription."""
        # promise[, self._session = self._session, None -> = self._session]: a health check lets go
        #   of its session
        session, self._session = self._session, None
        if session is not None:
            session.lost()
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # Publishing ---------------------------------------------------------------------------

    async def open_producer(self, topic: str, name: str) -> None:
        """Connect and open a producer, which continues after the last sequence id of its name."""
        connect = pb.CommandConnect(client_version=name, protocol_version=PROTOCOL_VERSION)
        await self.ask(connect, Kind.CONNECTED)
        producer = pb.CommandProducer(
            topic=topic, producer_id=PRODUCER_ID, request_id=1, producer_name=name
        )
        opened = await self.ask(producer, Kind.PRODUCER_SUCCESS)
        self._name, self._sequence_id = opened.producer_name, opened.last_sequence_id + 1

    async def publish(self, metadata: pb.MessageMetadata, payload: bytes) -> None:
        """Publish a message with the next sequence id; durable on return."""
        metadata.producer_name = self._name
        metadata.sequence_id = self._sequence_id
        metadata.publish_time = self._clock.now_ms()
        encoded = metadata.SerializeToString()
        self.send(encode_send(PRODUCER_ID, self._sequence_id, 1, encoded, payload))
        self._sequence_id += 1
        await self.next(Kind.SEND_RECEIPT)
