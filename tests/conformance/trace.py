"""A trace: a short dialogue with a broker, on one or more connections.

Every step is written down as it happens.  While a step waits, all connections are read and
their PINGs answered, so that two clients can take part in one thread.
"""

import json
import selectors
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from conformance.rest import Answer, ask, described, described_fully, field_of, kinds, shown
from conformance.transcript import Roles
from magnetar_broker.config.domains import MAX_WORKERS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, encode
from magnetar_proto.entries import encode_entry
from magnetar_proto.wire import MAX64
from raw_client import Closed, FrameSocket, Received, metadata, send_frame_of

TIMEOUT_SECONDS = 60.0
NAMESPACE = "public/default"
TOPICS_IN_ALL_BUNDLES = 40
ATTEMPTS = 1000

Kind = pb.BaseCommand
Ids = Sequence[pb.MessageIdData]
SubType = pb.CommandSubscribe
EXCLUSIVE, SHARED, FAILOVER = SubType.Exclusive, SubType.Shared, SubType.Failover
KEY_SHARED = SubType.Key_Shared
INDIVIDUAL, CUMULATIVE = pb.CommandAck.Individual, pb.CommandAck.Cumulative


class ConnectionIsClosed(Exception):
    """The broker closed a connection on which an answer was waited for: the trace ends here."""


class Target(NamedTuple):
    """The broker that is listened to."""

    port: int
    http_port: int
    settle_seconds: float
    """How long to wait for what should not come, after all that was sent has been handled."""
    patience_seconds: float = TIMEOUT_SECONDS
    """How long to wait for what should come."""


class Peer:
    """One connection; its methods are the steps."""

    def __init__(
        self, trace: "Trace", name: str, version: int | None, client: str, **connect: Any
    ) -> None:
        self.name = name
        self.closed = self.mute = False
        self.topic = trace.topic
        self.published: list[pb.MessageIdData] = []
        """The ids of its messages, as the receipts of `publishes` have them."""
        self._trace = trace
        self._socket = FrameSocket(trace.target.port)
        self._waiting: deque[Received] = deque()
        self._last_request = 0
        self._recorded_once: set[int] = set()
        self._connected = version is not None
        trace.selector.register(self._socket, selectors.EVENT_READ, self)
        if version is not None:
            self._send(
                pb.CommandConnect(client_version=client, protocol_version=version, **connect)
            )
            self._await(lambda frame: frame.kind == Kind.CONNECTED)

    # Steps --------------------------------------------------------------------------------

    def sends_command(self, command: Any) -> None:
        """Send a command; no answer is waited for."""
        self._note(">", _title(command), self._trace.roles.sent(command))
        self._send(command)

    def sends_bytes(self, described: str, data: bytes) -> None:
        """Send anything."""
        self._note(">", described)
        self._send_bytes(data)

    def asks(self, command: Any) -> Any:
        """Send a request and wait for its answer."""
        request_id = self.begins(command)
        return self.is_answered(request_id)

    def begins(self, command: Any) -> int:
        """Send a request, whose answer a later `is_answered` waits for."""
        self._last_request += 1
        command.request_id = self._last_request
        self.sends_command(command)
        return self._last_request

    def is_answered(self, request_id: int) -> Any:
        """Wait for the answer to a request."""
        return self._take(lambda frame: getattr(frame.command, "request_id", None) == request_id)

    def awaits(self, kind: int, count: int = 1) -> list[Any]:
        """Wait for the next commands of a kind."""
        return [self._take(lambda frame: frame.kind == kind) for _ in range(count)]

    def awaits_once(self, kind: int) -> None:
        """Wait for a command of a kind; should more of the kind follow, they are not recorded."""
        self.awaits(kind)
        self._recorded_once.add(kind)

    def awaits_outcome(self) -> Any:
        """Wait for the next SEND_RECEIPT or SEND_ERROR."""
        return self._take(lambda frame: frame.kind in (Kind.SEND_RECEIPT, Kind.SEND_ERROR))

    def receives_rest(self) -> None:
        """Wait until all that was sent is handled, and record what has come, or "nothing"."""
        if not self.settle():
            self._note("<", "nothing")

    def is_closed(self) -> None:
        """Wait until the broker closes the connection; what it still sends is recorded."""
        while not self.closed:
            self._trace.read()
        self._record_waiting()

    def is_accepted_or_closed(self) -> None:
        """Wait for what answers a CONNECT; of CONNECTED only that it came is recorded."""
        first = self._await(lambda frame: True)
        if first.kind == Kind.CONNECTED:
            self._note("<", "accepted")
            return
        self._record(first)
        self.is_closed()

    def leaves(self) -> None:
        """Close the connection without closing what is open on it."""
        self._note(">", "leaves")
        self.hang_up()

    # Everyday steps -----------------------------------------------------------------------

    def looks_up(self, topic: str, **fields: Any) -> Any:
        """LOOKUP."""
        return self.asks(pb.CommandLookupTopic(topic=topic, request_id=0, **fields))

    def asks_partitions(self, topic: str, **fields: Any) -> Any:
        """PARTITIONED_METADATA."""
        command = pb.CommandPartitionedTopicMetadata(topic=topic, request_id=0, **fields)
        return self.asks(command)

    def produces(self, topic: str = "", producer_id: int = 1, **fields: Any) -> Any:
        """PRODUCER on the trace's topic, or another."""
        return self.asks(producer(topic or self.topic, producer_id, **fields))

    def closes_producer(self, producer_id: int = 1) -> Any:
        """CLOSE_PRODUCER."""
        return self.asks(pb.CommandCloseProducer(producer_id=producer_id, request_id=0))

    def sends(self, sequence_id: int, payload: bytes = b"x", **fields: Any) -> None:
        """SEND; its receipt is waited for by `publishes` or `awaits`."""
        self.sends_entry(sequence_id, encode_entry(metadata(sequence_id), payload), **fields)

    def sends_entry(
        self, sequence_id: int, entry: bytes, producer_id: int = 1, **fields: Any
    ) -> None:
        """SEND of bytes that are a message, or should be."""
        roles = self._trace.roles
        command = pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)
        self._note(">", "SEND", roles.sent(command), roles.entry(entry))
        self._send_bytes(send_frame_of(entry, sequence_id, producer_id, **fields))

    def publishes(
        self, count: int = 1, first: int = 0, producer_id: int = 1
    ) -> list[pb.MessageIdData]:
        """SEND messages one after the other; the ids of their receipts."""
        ids = []
        for sequence_id in range(first, first + count):
            self.sends(sequence_id, b"m%d" % sequence_id, producer_id=producer_id)
            [receipt] = self.awaits(Kind.SEND_RECEIPT)
            ids.append(receipt.message_id)
        self.published += ids
        return ids

    def publishes_batch(
        self, messages: int, payload: bytes, sequence_id: int = 0, **fields: Any
    ) -> pb.MessageIdData:
        """SEND so many messages as one entry, of which brokers read the metadata only; its id."""
        entry = encode_entry(metadata(sequence_id, num_messages_in_batch=messages), payload)
        self.sends_entry(sequence_id, entry, num_messages=messages, **fields)
        [receipt] = self.awaits(Kind.SEND_RECEIPT)
        found: pb.MessageIdData = receipt.message_id
        return found

    def subscribes(
        self, sub_type: pb.CommandSubscribe.SubType = EXCLUSIVE, consumer_id: int = 1, **fields: Any
    ) -> Any:
        """SUBSCRIBE to the trace's topic as `sub`, from the earliest message, by default."""
        return self.asks(self.subscription(sub_type, consumer_id, **fields))

    def subscription(
        self, sub_type: pb.CommandSubscribe.SubType = EXCLUSIVE, consumer_id: int = 1, **fields: Any
    ) -> pb.CommandSubscribe:
        """The command of `subscribes`."""
        fields.setdefault("topic", self.topic)
        fields.setdefault("subscription", "sub")
        fields.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
        return pb.CommandSubscribe(
            subType=sub_type, consumer_id=consumer_id, request_id=0, **fields
        )

    def permits(self, messages: int, consumer_id: int = 1) -> None:
        """FLOW."""
        self.sends_command(pb.CommandFlow(consumer_id=consumer_id, messagePermits=messages))

    def receives(self, count: int = 1) -> list[Any]:
        """Wait for MESSAGEs; their ids."""
        return [message.message_id for message in self.awaits(Kind.MESSAGE, count)]

    def acks(
        self, ids: Ids, ack_type: pb.CommandAck.AckType = INDIVIDUAL, consumer_id: int = 1
    ) -> Any:
        """ACK with a request id; waits for the ACK_RESPONSE."""
        return self.asks(pb.CommandAck(consumer_id=consumer_id, ack_type=ack_type, message_id=ids))

    def closes_consumer(self, consumer_id: int = 1) -> Any:
        """CLOSE_CONSUMER."""
        return self.asks(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=0))

    # What the trace itself needs ----------------------------------------------------------

    def hang_up(self) -> None:
        """Close the connection, if it is open."""
        if not self.closed:
            self.closed = True
            self._trace.selector.unregister(self._socket)
            self._socket.close()

    def read(self) -> None:
        """Read what has come; PINGs are answered at once."""
        try:
            frames = self._socket.read()
        except Closed:
            self._waiting.append(Received(0, None, b""))
            self.hang_up()
            return
        for frame in frames:
            if frame.kind == Kind.PING and not self.mute:
                self._record(frame)
                self._send(pb.CommandPong())
            else:
                self._waiting.append(frame)

    def settle(self) -> bool:
        """Write down all that comes until nothing more does; whether anything did."""
        with suppress(ConnectionIsClosed):
            if self._connected and not self.closed:
                self._send(pb.CommandPing())
                self._await(lambda frame: frame.kind == Kind.PONG)
        self._trace.read_for(self._trace.target.settle_seconds)
        return self._record_waiting()

    def _record_waiting(self) -> bool:
        recorded = [frame for frame in self._waiting if frame.kind not in self._recorded_once]
        self._waiting.clear()
        for frame in recorded:
            self._record(frame)
        return bool(recorded)

    def _send(self, command: Any) -> None:
        self._send_bytes(encode(command))

    def _send_bytes(self, data: bytes) -> None:
        if not self.closed:
            with suppress(Closed):  # noted when it is read
                self._socket.send(data)

    def _take(self, wanted: Callable[[Received], bool]) -> Any:
        frame = self._await(wanted)
        self._record(frame)
        return frame.command

    def _await(self, wanted: Callable[[Received], bool]) -> Received:
        """Take the first such frame."""
        seen = 0
        while True:
            for index in range(seen, len(self._waiting)):
                if wanted(self._waiting[index]):
                    frame = self._waiting[index]
                    del self._waiting[index]
                    return frame
            seen = len(self._waiting)
            if self.closed:
                raise ConnectionIsClosed
            self._trace.read()

    def _record(self, frame: Received) -> None:
        if frame.kind == 0:
            self._note("<", "the connection is closed")
            return
        roles = self._trace.roles
        entry = roles.entry(frame.entry) if frame.entry else ""
        self._note("<", _title(frame.command), roles.fields(frame.command), entry)

    def _note(self, direction: str, *words: str) -> None:
        self._trace.lines.append(" ".join([self.name, direction, *filter(None, words)]))


class Trace:
    """One dialogue while it goes on; `lines` is its transcript so far."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.selector = selectors.DefaultSelector()
        self.lines: list[str] = []
        self.token = f"trace-{uuid.uuid4().hex}"
        self.topic = f"persistent://{NAMESPACE}/{self.token}"
        self.path = f"persistent/{NAMESPACE}/{self.token}"
        """The topic for `rest`."""
        self.roles = Roles(self.token, _addresses(target))
        self.headers: Mapping[str, str] = {}
        """Sent with every request to the admin API, and not recorded."""
        self._peers: list[Peer] = []

    def connects(self, version: int | None = 21, client: str = "trace", **connect: Any) -> Peer:
        """A further client: `a`, then `b`, ...; without a handshake if it has no version.

        `connect` are fields of its CONNECT.
        """
        peer = Peer(self, "abcdef"[len(self._peers)], version, client, **connect)
        self._peers.append(peer)
        return peer

    def publisher(self, messages: int = 0) -> Peer:
        """A further client, with a producer that has published so many messages."""
        peer = self.connects()
        peer.produces()
        peer.publishes(messages)
        return peer

    def publisher_of_two_ledgers(self) -> Peer:
        """A client that has published two messages into each of two ledgers."""
        peer = self.publisher(2)
        self.rest("PUT", f"{self.path}/unload")
        peer.awaits(Kind.CLOSE_PRODUCER)
        peer.produces()
        peer.publishes(2)
        return peer

    def has_partitions(self, count: int) -> None:
        """Make the topic a partitioned one."""
        self.lines.append(f"- the topic has {count} partitions")
        self._rest("PUT", f"persistent/{NAMESPACE}/{self.token}/partitions", count)

    def has_namespace(self) -> str:
        """Create a namespace for this trace alone."""
        namespace = f"public/{self.token}"
        self.lines.append(f"- the namespace {self.roles.text(namespace)} is new")
        with suppress(urllib.error.HTTPError):  # where namespaces come with their first topic
            self._rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
        open_topic(self.target, f"persistent://{namespace}/warm-up")
        return namespace

    def has_policy(self, namespace: str, policy: str, value: Any) -> None:
        """Set a policy of a namespace."""
        text = json.dumps(value)
        self.lines.append(f"- the policy {policy} of {self.roles.text(namespace)} is {text}")
        self._rest("POST", f"namespaces/{namespace}/{policy}", value)

    def rest(self, method: str, path: str, body: Any = None, **also: Any) -> Any:
        """A request to the admin API and its answer's JSON; `path` follows /admin/v2/.

        `body` is JSON, or bytes of any kind; `media` may be another content type.
        """
        answer = self._asks(method, f"/admin/v2/{path}", path, body, also)
        self.lines.append(f"rest < {described(answer, self.roles)}")
        return self._settled(method, answer)

    def web(
        self, method: str, path: str, body: Any = None, *, types: bool = False, **also: Any
    ) -> Any:
        """Like `rest`; of a success the content type and headers are recorded, too.

        A path that begins with a slash does not follow /admin/v2/.  With `types`, the names and
        types of the JSON are recorded, and not its values.
        """
        target = path if path.startswith("/") else f"/admin/v2/{path}"
        words = [f"({name} {value})" for name, value in also.items()]
        answer = self._asks(method, target, " ".join([path, *words]), body, also)
        self.lines.append(f"rest < {described_fully(answer, self.roles, types)}")
        return self._settled(method, answer)

    def _asks(
        self, method: str, target: str, shown_path: str, body: Any, also: dict[str, Any]
    ) -> Answer:
        roles = self.roles
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        what = [repr(raw)[1:]] if raw is body else [shown(body, roles)] if body is not None else []
        self.lines.append(" ".join(["rest >", method, roles.plain(shown_path), *what]))
        sent = b"" if body is None else raw
        headers = {**self.headers, **also.pop("headers", {})}
        return ask(self.target.http_port, method, target, sent, headers=headers, **also)

    def _settled(self, method: str, answer: Answer) -> Any:
        if method != "GET":  # the original does some of it after it has answered
            self.read_for(self.target.settle_seconds)
        return answer.value

    def asks_kinds(self, path: str) -> None:
        """GET a large answer of the admin API; its keys are recorded, with the kinds of values."""
        self.lines.append(f"rest > GET {self.roles.plain(path)}, its kinds")
        answer = ask(self.target.http_port, "GET", f"/admin/v2/{path}", b"")
        text = json.dumps(kinds(answer.value, self.roles), sort_keys=True, indent=1)
        self.lines += f"rest < {answer.status} {text}".splitlines()

    def asks_fields(self, path: str, *fields: str) -> None:
        """GET a large answer of the admin API; only these fields are recorded."""
        self.lines.append(f"rest > GET {self.roles.plain(path)}, some fields")
        answer = ask(self.target.http_port, "GET", f"/admin/v2/{path}", b"")
        self.lines.append(f"rest < {answer.status}")
        for field in fields:
            value = shown(field_of(answer.value, field), self.roles)
            self.lines.append(f"  {self.roles.plain(field)}: {value}")

    def read(self) -> None:
        """Let every connection take what has come; wait until something does."""
        ready = self.selector.select(self.target.patience_seconds)
        assert ready, "nothing comes:\n" + "\n".join(self.lines)
        for key, _ in ready:
            key.data.read()

    def read_for(self, seconds: float) -> None:
        """Let every connection take what comes within this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                key.data.read()

    def ends(self) -> str:
        """Write down what was not waited for, and leave; the whole transcript."""
        for peer in self._peers:
            peer.settle()
        self.breaks_off()
        return "\n".join(self.lines)

    def breaks_off(self) -> None:
        """Leave without looking back."""
        for peer in self._peers:
            peer.hang_up()
        self.selector.close()

    def _rest(self, method: str, path: str, body: Any) -> None:
        url = f"http://127.0.0.1:{self.target.http_port}/admin/v2/{path}"
        request = urllib.request.Request(
            url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
        )
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()


def _addresses(target: Target) -> dict[str, str]:
    workers = (f"worker-{number}" for number in range(MAX_WORKERS))
    hosts = ("127.0.0.1", "localhost", *workers)
    roles = {target.port: "broker", target.http_port: "web"}
    return {f"{host}:{port}": f"<{role}>" for host in hosts for port, role in roles.items()}


def producer(topic: str, producer_id: int = 1, **fields: Any) -> pb.CommandProducer:
    """PRODUCER."""
    return pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=0, **fields)


def part_of(batch: pb.MessageIdData, *words: int) -> pb.MessageIdData:
    """The id with an ack set: bits of the messages that are still wanted."""
    return pb.MessageIdData(ledgerId=batch.ledgerId, entryId=batch.entryId, ack_set=words)


def before_ledger_of(message: pb.MessageIdData) -> pb.MessageIdData:
    """The position before all entries of a message's ledger."""
    return pb.MessageIdData(ledgerId=message.ledgerId, entryId=MAX64)


def warm_up(target: Target) -> None:
    """Open so many topics that every bundle of the namespace is served."""
    for _ in range(TOPICS_IN_ALL_BUNDLES):
        open_topic(target, f"persistent://{NAMESPACE}/{uuid.uuid4().hex}")


def open_topic(target: Target, topic: str, **connect: Any) -> None:
    """Open a topic, and with it its bundle; a broker that has just started may need a while.

    `connect` are fields of the CONNECT.
    """
    trace = Trace(target)
    peer = trace.connects(**connect)
    for _ in range(ATTEMPTS):
        peer.looks_up(topic)
        if isinstance(peer.produces(topic), pb.CommandProducerSuccess):
            trace.breaks_off()
            return
    raise AssertionError(f"{topic} does not open:\n" + "\n".join(trace.lines))


def _title(command: Any) -> str:
    request_id = getattr(command, "request_id", 0)
    number = f"#{request_id} " if 0 < request_id < 1 << 63 else ""
    return number + TITLES[type(command)]


TITLES = {
    type(getattr(pb.BaseCommand(), name)): Kind.Type.Name(kind) for kind, name in FIELDS.items()
}
