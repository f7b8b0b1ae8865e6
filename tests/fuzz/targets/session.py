"""A broker and its clients, which send anything: no defect, no answer that cannot be read, and the
broker serves others as before and keeps nothing of them.

Input: choices of what happens next (`STEPS`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fakes.sessions import Client, SessionWorld, produce, subscribe
from fakes.world import ManualClock
from fuzz import traffic
from fuzz.choices import Choices
from fuzz.defects import DEFECTS
from magnetar_broker.session.handlers import HANDLERS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, encode
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import FrameDecoder, encode_frame
from magnetar_proto.sends import encode_send
from magnetar_storage.errors import Corrupt, DiskFull, Unavailable

LONGEST: Final = 768
MOST_STEPS: Final = 40
CLIENTS: Final = 2
IDS: Final = 3
"""Of consumers and producers, of each client."""
REMEMBERED: Final = 8
TEXTS: Final = (
    "persistent://public/default/t", "t", "sub", "other", "non-persistent://public/default/n",
    "persistent://public/default/t-partition-0", "persistent://public/default/p", "public/default",
    "persistent://none/such/t", "", "producer", "p-partition-1", "a b/\u00e9\U0001f600",
)  # fmt: skip
TOPICS: Final = (TEXTS[0], TEXTS[0], TEXTS[4], TEXTS[5])
SENT: Final = tuple(
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


class Play:
    """The clients that misbehave."""

    topics: Sequence[str] = TOPICS
    subscriptions: Sequence[str] = TEXTS[2:4]

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.world = self.begin()
        self.clients = [self.connect(number) for number in range(CLIENTS)]
        self.at = 0
        self.got: list[tuple[int, int]] = []
        """Ledger and entry of the last messages that were delivered."""

    def begin(self) -> SessionWorld:
        """The broker."""
        return SessionWorld(**SETTINGS)

    def connect(self, number: int) -> Client:
        """A client that connects, in place of this one."""
        return self.world.client()

    def newcomer(self) -> Client:
        """A client that keeps to the rules."""
        return self.world.client()

    @property
    def client(self) -> Client:
        """The client that is next; one that was disconnected connects again."""
        if self.clients[self.at].closed:
            self.clients[self.at] = self.connect(self.at)
        return self.clients[self.at]

    def feed(self, data: bytes) -> None:
        """The bytes arrive, if the broker reads at present."""
        client = self.client
        if client.reading:
            client.send_bytes(data)

    def read(self) -> None:
        for client in self.clients:
            received = client.received()
            places = [m.message_id for m in received if isinstance(m, pb.CommandMessage)]
            self.got += [(place.ledgerId, place.entryId) for place in places]
            del self.got[:-REMEMBERED]
            client.session.wrote(False)

    # Steps --------------------------------------------------------------------------

    def command(self) -> None:
        field = FIELDS[self.choices.pick(SENT)]
        part = pb.BaseCommand.DESCRIPTOR.fields_by_name[field].message_type
        assert part is not None
        kind = part.name
        message = self.choices.message(getattr(pb, kind))
        if self.choices.flag():
            self.aim(message)
        self.feed(encode(message))

    def aim(self, message: Any) -> None:
        """Make it speak of what there may be: a consumer or producer, messages that were sent."""
        for name in ("consumer_id", "producer_id"):
            if name in message.DESCRIPTOR.fields_by_name:
                setattr(message, name, getattr(message, name) % IDS)
        for field, value in message.ListFields():
            if field.message_type is pb.MessageIdData.DESCRIPTOR and self.got:
                for place in value if field.is_repeated else (value,):
                    place.ledgerId, place.entryId = self.choices.pick(self.got)

    def producer(self) -> None:
        choices = self.choices
        self.feed(
            encode(produce(choices.below(4), choices.below(IDS), topic=choices.pick(self.topics)))
        )

    def consumer(self) -> None:
        choices = self.choices
        fields = {
            "topic": choices.pick(self.topics),
            "subscription": choices.pick(self.subscriptions),
        }
        self.feed(
            encode(
                subscribe(
                    choices.below(4), choices.below(IDS), subType=choices.below(3), **fields,
                    durable=not choices.flag(),
                )
            )
        )  # fmt: skip

    def flow(self) -> None:
        permits = max(1, self.choices.number((1 << 32) - 1))
        consumer = self.choices.below(IDS)
        self.feed(encode(pb.CommandFlow(consumer_id=consumer, messagePermits=permits)))

    def ack(self) -> None:
        """One message, or all up to it, without or with an answer."""
        choices = self.choices
        consumer = choices.below(IDS)
        kind = pb.CommandAck.AckType.Name(choices.below(2))
        ack = pb.CommandAck(consumer_id=consumer, ack_type=kind)
        if self.got:
            ledger, entry = choices.pick(self.got)
            ack.message_id.add(ledgerId=ledger, entryId=entry)
            ack.message_id[0].ack_set.extend(choices.byte() for _ in range(choices.below(2)))
        if choices.flag():
            ack.request_id = choices.below(IDS)
        self.feed(encode(ack))

    def seek(self) -> None:
        seek = pb.CommandSeek(consumer_id=self.choices.below(IDS), request_id=0)
        if self.choices.flag():
            seek.message_publish_time = self.choices.number()
        else:
            seek.message_id.CopyFrom(self.choices.message(pb.MessageIdData))
            self.aim(seek)
        self.feed(encode(seek))

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
            producer, sequence, count = choices.below(IDS), choices.number(), choices.number(64)
            payload = choices.data()
            frames.append(
                encode_send(producer, sequence, count, metadata.SerializeToString(), payload)
            )
        self.feed(b"".join(frames))

    def send_any(self) -> None:
        """A SEND with all fields of the command, and any entry."""
        choices = self.choices
        send = choices.message(pb.CommandSend)
        send.producer_id %= IDS
        entry = choices.data()
        if choices.flag():
            entry = encode_entry(choices.message(pb.MessageMetadata), entry, choices.flag())
        command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send)
        self.feed(encode_frame(command.SerializeToString(), entry))

    def frame(self) -> None:
        """Any bytes in the place of a command."""
        command, payload = self.choices.data(), self.choices.data()
        self.feed(encode_frame(command, payload))

    def garbage(self) -> None:
        self.feed(self.choices.data())

    def hang_up(self) -> None:
        client = self.client
        client.closed = True
        client.session.lost()

    def stall(self) -> None:
        """The client does not take what it is sent."""
        self.client.received()
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
    Play.command, Play.send, Play.flow, Play.ack, Play.producer, Play.consumer, Play.read,
    Play.send_any, Play.frame, Play.garbage, Play.hang_up, Play.stall, Play.wait, Play.tick,
    Play.next_client, Play.disk, Play.seek, Play.command, Play.read,
)  # fmt: skip


def run(data: bytes) -> None:
    DEFECTS.forget()
    choices = Choices(data, TEXTS)
    play = Play(choices)
    steps = 0
    while choices.left and steps < MOST_STEPS:
        choices.pick(STEPS)(play)
        DEFECTS.raise_found()
        steps += 1
    finish(play)
    DEFECTS.raise_found()


def finish(play: Play) -> None:
    """All leave; others are served, and nothing of those who left remains."""
    world = play.world
    world.store.read_failure = world.store.create_failure = None
    play.read()
    for client in play.clients:
        client.session.lost()
    settle(world.clock)
    assert world.broker.publishes.used == 0, "bytes wait for the disk for ever"
    assert not world.broker.publishes.paused, "a client waits that is gone"
    assert world.broker.receiving.used == 0, "what was received is held for ever"
    for client in play.clients:
        assert client.session.publishing.pending_entries == 0
        assert not client.session.publishing.producers and not client.session.consumers
    check_serves(play.newcomer())


def settle(clock: ManualClock) -> None:
    clock.pump()
    clock.advance(120)


def check_serves(client: Client) -> None:
    """A newcomer publishes and receives."""
    topic = "persistent://public/default/for-newcomers"
    client.send(subscribe(1, topic=topic), produce(2, topic=topic))
    answers = {type(answer) for answer in client.received()}
    assert answers == {pb.CommandSuccess, pb.CommandProducerSuccess}, answers
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    client.send(pb.CommandFlow(consumer_id=1, messagePermits=1))
    client.send_bytes(encode_send(1, 0, 1, metadata.SerializeToString(), b"payload"))
    received: list[Any] = client.received()
    kinds = {type(answer) for answer in received}
    assert kinds == {pb.CommandSendReceipt, pb.CommandMessage}, received


def seeds() -> Iterator[bytes]:
    def step(of: Any, *more: int) -> bytes:
        return bytes([STEPS.index(of), *more])

    read = step(Play.read)
    for topic in range(len(TOPICS)):
        for sub_type in range(3):
            begin = (
                step(Play.producer, 1, 0, topic) + step(Play.consumer, topic, 0, 2, 0, sub_type, 0)
                + read + step(Play.flow, 5, 0) + step(Play.send, 0, 0, 0, 0, 0, 0, 1, 3) + b"abc"
                + read
            )  # fmt: skip
            yield begin + step(Play.ack, 0, 0, 0, 0, 0) + read + step(Play.seek, 0, 1, 2) + read
            yield (
                begin + step(Play.ack, 0, 1, 0, 1, 1, 1, 0) + read + step(Play.next_client) + begin
            )
            for number in range(topic + sub_type, len(STEPS), 5):
                yield begin + bytes([number, *range(30)]) * 2
    for stream in traffic.streams():
        parts = []
        for kind, buf, start, mid, payload in FrameDecoder(1 << 20).feed(stream):
            command = buf[start:mid]
            # Sent once already, and too long for a byte.
            if kind != pb.BaseCommand.CONNECT and max(len(command), len(payload)) < 255:
                frame = bytes([len(command)]) + command + bytes([len(payload)]) + payload
                parts.append(step(Play.frame) + frame + step(Play.read))
        for first in range(0, len(parts), 4):
            yield b"".join(parts[:4] + parts[first : first + 4])[:LONGEST]
