"""A broker and its clients, which send anything: no defect, no answer that cannot be read, and the
broker serves others as before and keeps nothing of them.

Input: choices of what happens next (`STEPS`).
"""

import logging
from collections.abc import Iterator
from typing import Any, Final

from fakes.sessions import Client, SessionWorld, produce, subscribe
from fakes.world import ManualClock
from fuzz import traffic
from fuzz.choices import Choices
from magnetar_broker.session.handlers import HANDLERS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, encode, encode_send
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import FrameDecoder, encode_frame
from magnetar_storage.errors import Corrupt, DiskFull, Unavailable

LONGEST: Final = 1024
MOST_STEPS: Final = 60
CLIENTS: Final = 2
TEXTS: Final = (
    "persistent://public/default/t", "t", "sub", "other", "non-persistent://public/default/n",
    "persistent://public/default/t-partition-0", "persistent://public/default/p", "public/default",
    "persistent://none/such/t", "", "producer", "p-partition-1", "a b/\u00e9\U0001f600",
)  # fmt: skip
SAID: Final = tuple(
    kind
    for kind in (*HANDLERS, pb.BaseCommand.ACK, pb.BaseCommand.FLOW, pb.BaseCommand.SEND)
    if kind != pb.BaseCommand.CONNECT
)
SETTINGS: Final = {
    "max_unacked_messages_per_consumer": 4,
    "max_unacked_messages_per_subscription": 6,
    "max_pending_publish_requests_per_connection": 8,
    "max_message_size": 4096,
}


class Listener(logging.Handler):
    """Remembers what the broker logs as a defect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.defects: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.defects.append(record)


LISTENER: Final = Listener()
logging.getLogger("magnetar_broker").addHandler(LISTENER)


class Play:
    """The clients that misbehave."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.world = SessionWorld(**SETTINGS)
        self.clients = [self.world.client() for _ in range(CLIENTS)]
        self.at = 0
        self.sent = 0

    @property
    def client(self) -> Client:
        """Whose turn it is; one that was sent away comes back."""
        if self.clients[self.at].closed:
            self.clients[self.at] = self.world.client()
        return self.clients[self.at]

    def say(self, data: bytes) -> None:
        """The bytes arrive, if the broker reads at present."""
        client = self.client
        if client.reading:
            client.say_bytes(data)
            self.sent += 1

    def hear(self) -> None:
        for client in self.clients:
            client.heard()
            client.session.wrote(False)

    # Steps --------------------------------------------------------------------------

    def command(self) -> None:
        field = FIELDS[self.choices.pick(SAID)]
        kind = pb.BaseCommand.DESCRIPTOR.fields_by_name[field].message_type.name
        self.say(encode(self.choices.message(getattr(pb, kind))))

    def producer(self) -> None:
        self.say(encode(produce(self.choices.below(4), self.choices.below(3), topic=TEXTS[0])))

    def consumer(self) -> None:
        choices = self.choices
        fields = {"topic": TEXTS[choices.below(2)], "subscription": TEXTS[2 + choices.below(2)]}
        self.say(
            encode(
                subscribe(
                    choices.below(4), choices.below(3), subType=choices.below(3), **fields,
                    durable=not choices.flag(),
                )
            )
        )  # fmt: skip

    def flow(self) -> None:
        permits = max(1, self.choices.number((1 << 32) - 1))
        self.say(encode(pb.CommandFlow(consumer_id=self.choices.below(3), messagePermits=permits)))

    def ack(self) -> None:
        ack = self.choices.message(pb.CommandAck)
        ack.consumer_id %= 3
        for place in ack.message_id:
            place.ledgerId, place.entryId = self.choices.below(8), self.choices.below(8)
        self.say(encode(ack))

    def send(self) -> None:
        """Some messages at once, mostly good ones."""
        choices = self.choices
        frames = []
        for _ in range(1 + choices.below(4)):
            metadata = pb.MessageMetadata(
                producer_name="p", sequence_id=choices.below(8), publish_time=choices.number()
            )
            if choices.flag():
                metadata = choices.message(pb.MessageMetadata)
            producer, sequence, count = choices.below(3), choices.number(), choices.number(64)
            payload = choices.data()
            frames.append(
                encode_send(producer, sequence, count, metadata.SerializeToString(), payload)
            )
        self.say(b"".join(frames))

    def send_any(self) -> None:
        """A SEND with all that the command can say, and any entry."""
        choices = self.choices
        send = choices.message(pb.CommandSend)
        send.producer_id %= 3
        entry = choices.data()
        if choices.flag():
            entry = encode_entry(choices.message(pb.MessageMetadata), entry, choices.flag())
        command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send)
        self.say(encode_frame(command.SerializeToString(), entry))

    def frame(self) -> None:
        """Any bytes in the place of a command."""
        command, payload = self.choices.data(), self.choices.data()
        self.say(encode_frame(command, payload))

    def garbage(self) -> None:
        self.say(self.choices.data())

    def hang_up(self) -> None:
        client = self.client
        client.closed = True
        client.session.lost()

    def stall(self) -> None:
        """The client does not take what it is sent."""
        self.client.heard()
        self.client.session.wrote(True)

    def wait(self) -> None:
        self.world.clock.advance((0.01, 1.0, 31.0, 700.0)[self.choices.below(4)])

    def tick(self) -> None:
        self.client.session.tick()

    def next_client(self) -> None:
        self.at = (self.at + 1) % CLIENTS

    def disk(self) -> None:
        """What the store cannot do from now on, or can do again."""
        store = self.world.store
        match self.choices.below(5):
            case 0:
                store.read_failure = Corrupt("file", 0, "damaged", 1, 0, 0)
            case 1:
                store.create_failure = DiskFull("no room")
            case 2:
                store.break_writers(Unavailable("the disk failed"))
            case _:
                store.read_failure = store.create_failure = None


STEPS: Final = (
    Play.command, Play.send, Play.flow, Play.ack, Play.producer, Play.consumer, Play.hear,
    Play.send_any, Play.frame, Play.garbage, Play.hang_up, Play.stall, Play.wait, Play.tick,
    Play.next_client, Play.disk, Play.command, Play.command, Play.hear,
)  # fmt: skip


def run(data: bytes) -> None:
    LISTENER.defects.clear()
    choices = Choices(data, TEXTS)
    play = Play(choices)
    steps = 0
    while choices.left and steps < MOST_STEPS:
        choices.pick(STEPS)(play)
        raise_defects()
        steps += 1
    finish(play)
    raise_defects()


def raise_defects() -> None:
    for record in LISTENER.defects:
        assert record.exc_info is not None
        error = record.exc_info[1]
        assert error is not None
        raise error


def finish(play: Play) -> None:
    """All leave; others are served, and nothing of those who left remains."""
    world = play.world
    world.store.read_failure = world.store.create_failure = None
    play.hear()
    for client in play.clients:
        client.session.lost()
    settle(world.clock)
    assert world.broker.publishes.used == 0, "bytes wait for the disk for ever"
    assert not world.broker.publishes.paused, "somebody waits who is gone"
    for client in play.clients:
        assert client.session.publishing.pending_entries == 0
        assert not client.session.publishing.producers and not client.session.consumers
    check_serves(world)


def settle(clock: ManualClock) -> None:
    clock.pump()
    clock.advance(120)


def check_serves(world: SessionWorld) -> None:
    """A newcomer publishes and receives."""
    client = world.client()
    topic = "persistent://public/default/for-newcomers"
    client.say(subscribe(1, topic=topic), produce(2, topic=topic))
    answers = {type(answer) for answer in client.heard()}
    assert answers == {pb.CommandSuccess, pb.CommandProducerSuccess}, answers
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    client.say(pb.CommandFlow(consumer_id=1, messagePermits=1))
    client.say_bytes(encode_send(1, 0, 1, metadata.SerializeToString(), b"payload"))
    heard: list[Any] = client.heard()
    assert {type(answer) for answer in heard} == {pb.CommandSendReceipt, pb.CommandMessage}, heard


def seeds() -> Iterator[bytes]:
    def step(of: Any, *more: int) -> bytes:
        return bytes([STEPS.index(of), *more])

    yield (
        step(Play.producer, 0, 0) + step(Play.consumer, 0, 0, 1, 0, 1, 0) + step(Play.hear)
        + step(Play.flow, 5, 0) + step(Play.send, 0, 0, 0, 0, 0, 0, 1, 3) + b"abc"
        + step(Play.hear) + step(Play.ack, 0, 0, 0, 0, 0) + step(Play.hear)
    )  # fmt: skip
    for number in range(len(STEPS)):
        yield step(Play.producer, 0, 0) + step(Play.hear) + bytes([number, *range(30)]) * 2
    for stream in traffic.streams():
        parts = []
        for kind, buf, start, mid, end in FrameDecoder(1 << 20).feed(stream):
            command, payload = buf[start:mid], buf[mid:end]
            # Said once already, and too long for a byte.
            if kind != pb.BaseCommand.CONNECT and max(len(command), len(payload)) < 255:
                frame = bytes([len(command)]) + command + bytes([len(payload)]) + payload
                parts.append(step(Play.frame) + frame + step(Play.hear))
        for first in range(0, len(parts), 4):
            yield b"".join(parts[:4] + parts[first : first + 4])[:LONGEST]
