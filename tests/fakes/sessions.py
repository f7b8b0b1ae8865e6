"""Sessions of one broker over stores in memory, with clients that record every answer."""

from dataclasses import replace
from typing import Any, ClassVar

from fakes.logs import NEVER, LogWorld
from magnetar_broker.config import Settings
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.session.authorizing import handlers_of
from magnetar_broker.session.session import Outbox, Session
from magnetar_broker.standalone import standalone
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, PROTOCOL_VERSION, decode, encode
from magnetar_proto.entries import parse_metadata
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.names import TopicName
from magnetar_storage.log.roll_limits import RollLimits

TOPIC = "persistent://public/default/topic"


class Client:
    """A client, and the shell of its session."""

    def __init__(self, world: "SessionWorld", address: str, **connect: Any) -> None:
        self.address = address
        self.reading = True
        self.closed = False
        self.session = world.session(self)
        self._world = world
        self._decoder = FrameDecoder(1 << 24)
        connect = {"client_version": "fake", "protocol_version": PROTOCOL_VERSION, **connect}
        self.send(pb.CommandConnect(**connect))
        assert isinstance(self.received()[0], pb.CommandConnected)

    def flush_soon(self) -> None:
        """Do nothing: `received` fetches the queued output."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def refusal(self) -> None:
        """Return None: there are no limits of connections."""

    def accepted(self) -> None:
        pass

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True

    def send(self, *messages: Any) -> None:
        """Send commands that arrive together; pump to have them answered."""
        self.send_bytes(b"".join(map(encode, messages)))

    def send_bytes(self, data: bytes) -> None:
        """Send frames as one piece of bytes; pump to have them answered."""
        self.session.receive(data)

    def received(self) -> list[Any]:
        """Return the answers since the last call, in order."""
        self._world.clock.pump()
        return self.received_so_far()

    def received_so_far(self) -> list[Any]:
        """Return the answers since the last call, without running pending work."""
        frames = self._decoder.feed(b"".join(self.session.take_output()))
        assert self._decoder.error is None
        return [getattr(decode(f[1], f[2], f[3]), FIELDS[f[0]]) for f in frames]

    def delivered(self) -> list[tuple[pb.CommandMessage, bytes]]:
        """Return the messages since the last call, with the payloads; other answers are dropped."""
        self._world.clock.pump()
        frames = self._decoder.feed(b"".join(self.session.take_output()))
        assert self._decoder.error is None
        return [
            (decode(buf, start, mid).message, entry[parse_metadata(entry)[1] :])
            for kind, buf, start, mid, entry in frames
            if kind == pb.BaseCommand.MESSAGE
        ]

    def ask(self, message: Any) -> Any:
        """Send one request and return its only answer."""
        self.send(message)
        (answer,) = self.received()
        return answer


class SessionWorld(LogWorld):
    """A started broker."""

    ROLL: ClassVar[RollLimits] = NEVER

    def __init__(self, cache_bytes: int = 1 << 20, **settings: Any) -> None:
        super().__init__(self.ROLL, cache_bytes)
        owner = SoleOwner("pulsar://here:6650")
        self.directory, self.broker = standalone(
            replace(Settings(), **settings), self.engine, owner
        )
        self.do(self.broker.start())
        self.clock.pump()
        self._clients = 0

    def session(self, outbox: Outbox) -> Session:
        """Create the session of a client."""
        return Session(self.broker, outbox, handlers_of(self.broker.access))

    def client(self, **connect: Any) -> Client:
        """Connect a client; `connect` are fields of its CONNECT."""
        self._clients += 1
        return Client(self, f"10.0.0.{self._clients}:4711", **connect)

    def topic(self, name: str = TOPIC) -> Topic:
        topic = self.do(self.broker.topic(TopicName.parse(name), create=True))
        assert isinstance(topic, Topic)
        return topic


def produce(request_id: int, producer_id: int = 1, **fields: Any) -> pb.CommandProducer:
    """Return a PRODUCER."""
    fields.setdefault("topic", TOPIC)
    return pb.CommandProducer(producer_id=producer_id, request_id=request_id, **fields)


def close_producer(request_id: int, producer_id: int = 1) -> pb.CommandCloseProducer:
    """Return a CLOSE_PRODUCER."""
    return pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)


def subscribe(request_id: int, consumer_id: int = 1, **fields: Any) -> pb.CommandSubscribe:
    """Return a SUBSCRIBE from the start of the topic."""
    fields = {
        "topic": TOPIC,
        "subscription": "sub",
        "subType": pb.CommandSubscribe.Exclusive,
        "initialPosition": pb.CommandSubscribe.Earliest,
        **fields,
    }
    return pb.CommandSubscribe(consumer_id=consumer_id, request_id=request_id, **fields)


def close_consumer(request_id: int, consumer_id: int = 1) -> pb.CommandCloseConsumer:
    """Return a CLOSE_CONSUMER."""
    return pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id)


def by_request(answers: list[Any]) -> dict[int, Any]:
    """Return answers by their request, after checking that each was answered once."""
    found = {answer.request_id: answer for answer in answers}
    assert len(found) == len(answers)
    return found
