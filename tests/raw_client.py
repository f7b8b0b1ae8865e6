"""The raw client of tests: blocking, explicit, and able to break every rule of the protocol.

`FrameSocket` alone serves the traces of `conformance`, which read many connections in one thread.
Loads do not use it: `crash.wire` and `bench.connection` run on asyncio, since thousands of
messages are under way at a time there.
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import FIELDS, decode, encode
from magnetar_proto.deliveries import encode_flow
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import FrameDecoder, encode_frame
from magnetar_proto.ids import MessageId

TIMEOUT_SECONDS = 60.0
MAX_FRAME = 16 << 20
READ_BYTES = 1 << 18

Kind = pb.BaseCommand


class Closed(Exception):
    """The broker ended the connection."""


class Received(NamedTuple):
    """One frame from the broker; `entry` is empty but for a MESSAGE."""

    kind: int
    command: Any
    entry: bytes


class FrameSocket:
    """A connection to a broker on this machine that sends bytes and receives frames."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self._decoder = FrameDecoder(MAX_FRAME)

    def fileno(self) -> int:
        """The socket, to be watched."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send anything; `Closed` if the broker has closed the connection."""
        try:
            self._socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def read(self) -> list[Received]:
        """Wait for bytes; the frames that they complete.  `Closed` at the end of the stream."""
        try:
            data = self._socket.recv(READ_BYTES)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("end of stream")
        frames = [
            Received(kind, getattr(decode(buf, start, mid), FIELDS[kind]), payload)
            for kind, buf, start, mid, payload in self._decoder.feed(data)
        ]
        assert self._decoder.error is None, self._decoder.error
        return frames

    def shutdown(self, how: int) -> None:
        """Close one half of the connection, or both, also under a waiting `read`."""
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()


def process_of(found: Any) -> str | None:
    """What a CONNECT names after this answer to a lookup; `Closed` if it is a refusal."""
    if found.response == pb.CommandLookupTopicResponse.Failed:
        raise Closed(f"refused: {found}")
    if not found.proxy_through_service_url:
        return None
    return str(found.brokerServiceUrl).removeprefix("pulsar://")


class RawClient:
    """One connection.  PINGs are answered while something is awaited, unless `mute`."""

    def __init__(
        self,
        port: int,
        handshake: bool = True,
        mute: bool = False,
        version: int = 21,
        process: str | None = None,
    ) -> None:
        """`process` is the address of the broker's process to be served by."""
        self.mute = mute
        self._socket = FrameSocket(port)
        self._waiting: deque[Received] = deque()
        self._last_request = 0
        if handshake:
            try:
                self.send(
                    pb.CommandConnect(
                        client_version="raw",
                        protocol_version=version,
                        proxy_to_broker_url=process,
                    )
                )
                self.connected = self.expect(Kind.CONNECTED)
            except BaseException:
                self._socket.close()
                raise

    @classmethod
    def of_topic(cls, port: int, topic: str) -> "RawClient":
        """A connection to the process that serves a topic; `Closed` if it cannot be found now."""
        with cls(port) as client:
            found = client.request(pb.CommandLookupTopic(topic=topic, request_id=0))
        return cls(port, process=process_of(found))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave without a word."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket, to be watched."""
        return self._socket.fileno()

    def abort(self) -> None:
        """End the connection; another thread that waits on it gets `Closed`."""
        self._socket.shutdown(socket.SHUT_RDWR)

    # Out --------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send one command."""
        self.send_bytes(encode(message))

    def send_bytes(self, data: bytes) -> None:
        """Send anything; `Closed` when the broker does not listen any more."""
        self._socket.send(data)

    def finish_sending(self) -> None:
        """Close the outgoing half only."""
        self._socket.shutdown(socket.SHUT_WR)

    def next_request(self) -> int:
        """A request id that was not used on this connection."""
        self._last_request += 1
        return self._last_request

    # In ---------------------------------------------------------------------------------

    def receive(self) -> Received:
        """The next frame; `Closed` at the end, TimeoutError when nothing comes."""
        while not self._waiting:
            self._read()
        return self._waiting.popleft()

    def await_frame(self, wanted: Callable[[Received], bool]) -> Received:
        """The first frame that is wanted; PINGs are answered, other frames kept for later."""
        index = 0
        while True:
            while index < len(self._waiting):
                frame = self._waiting[index]
                if wanted(frame):
                    del self._waiting[index]
                    return frame
                if frame.kind == Kind.PING and not self.mute:
                    del self._waiting[index]
                    self.send(pb.CommandPong())
                else:
                    index += 1
            self._read()

    def _read(self) -> None:
        self._waiting.extend(self._socket.read())

    def expect(self, kind: int) -> Any:
        """The next command of a kind."""
        return self.await_frame(lambda frame: frame.kind == kind).command

    def expect_ping(self) -> None:
        """Wait for a PING and answer it."""
        self.expect(Kind.PING)
        self.send(pb.CommandPong())

    def await_close(self) -> list[Received]:
        """Wait until the broker closes the connection; what it still sent."""
        frames = []
        try:
            while True:
                frames.append(self.receive())
        except Closed:
            return frames

    def request(self, message: Any) -> Any:
        """Send a command and return its answer, whatever it is."""
        message.request_id = self.next_request()
        self.send(message)
        return self.answer_to(message.request_id)

    def answer_to(self, request_id: int) -> Any:
        """The answer that carries a request id."""
        return self.await_frame(
            lambda frame: getattr(frame.command, "request_id", None) == request_id
        ).command

    def ping(self) -> None:
        """Make sure that everything sent so far was handled."""
        self.send(pb.CommandPing())
        self.expect(Kind.PONG)

    # Everyday requests --------------------------------------------------------------------

    def produce(self, topic: str, producer_id: int = 1, **fields: Any) -> Any:
        """Open a producer."""
        return self.request(
            pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=0, **fields)
        )

    def publish(self, sequence_id: int, payload: bytes, producer_id: int = 1) -> pb.MessageIdData:
        """Send one message and return the id of its receipt."""
        self.send_bytes(send_frame(sequence_id, payload, producer_id))
        receipt = self.expect(Kind.SEND_RECEIPT)
        assert receipt.sequence_id == sequence_id
        found: pb.MessageIdData = receipt.message_id
        return found

    def subscribe(
        self,
        topic: str,
        subscription: str = "sub",
        sub_type: pb.CommandSubscribe.SubType = pb.CommandSubscribe.Exclusive,
        consumer_id: int = 1,
        **fields: Any,
    ) -> Any:
        """Open a consumer, by default at the start of the topic."""
        fields.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
        return self.request(
            pb.CommandSubscribe(
                topic=topic,
                subscription=subscription,
                subType=sub_type,
                consumer_id=consumer_id,
                request_id=0,
                **fields,
            )
        )

    def flow(self, permits: int, consumer_id: int = 1) -> None:
        """Take so many messages more."""
        self.send_bytes(encode_flow(consumer_id, permits))

    def next_message(self) -> Received:
        """The next MESSAGE."""
        return self.await_frame(lambda frame: frame.kind == Kind.MESSAGE)

    def has_message(self) -> bool:
        """Whether a MESSAGE has arrived that was not read yet."""
        return any(frame.kind == Kind.MESSAGE for frame in self._waiting)

    def ack(
        self,
        ids: Sequence[tuple[int, int, Sequence[int]]],
        ack_type: int = pb.CommandAck.Individual,
        consumer_id: int = 1,
    ) -> Any:
        """Acknowledge (ledger, entry, ack_set)s and wait until that is durable."""
        request_id = self.next_request()
        self.send_bytes(encode_ack(consumer_id, ack_type, ids, request_id))
        return self.answer_to(request_id)


def id_of(message: Received) -> MessageId:
    """Where a received message is."""
    return MessageId.from_pb(message.command.message_id)


def metadata(sequence_id: int, **fields: Any) -> pb.MessageMetadata:
    """The metadata that every message must have."""
    return pb.MessageMetadata(
        producer_name="raw", sequence_id=sequence_id, publish_time=1_700_000_000_000, **fields
    )


def send_frame(
    sequence_id: int,
    payload: bytes,
    producer_id: int = 1,
    own_metadata: pb.MessageMetadata | None = None,
    **fields: Any,
) -> bytes:
    """A SEND of one entry; `fields` are those of the command."""
    entry = encode_entry(metadata(sequence_id) if own_metadata is None else own_metadata, payload)
    return send_frame_of(entry, sequence_id, producer_id, **fields)


def send_frame_of(entry: bytes, sequence_id: int, producer_id: int = 1, **fields: Any) -> bytes:
    """A SEND of an entry that is already encoded, rightly or wrongly."""
    command = pb.BaseCommand(type=Kind.SEND)
    command.send.CopyFrom(
        pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)
    )
    return encode_frame(command.SerializeToString(), entry)


def send_error(client: RawClient, frame: bytes) -> pb.CommandSendError:
    """Send a message that is refused, and how it is."""
    client.send_bytes(frame)
    error: pb.CommandSendError = client.expect(Kind.SEND_ERROR)
    return error


def refused(answer: Any, code: int, *words: str) -> None:
    """The answer is this refusal, and its text has these words."""
    assert isinstance(answer, pb.CommandError), answer
    assert pb.ServerError.Name(answer.error) == pb.ServerError.Name(code), answer
    for word in words:
        assert word in answer.message


def closes(client: RawClient) -> None:
    """The connection ends without an ERROR frame."""
    assert Kind.ERROR not in [frame.kind for frame in client.await_close()]
