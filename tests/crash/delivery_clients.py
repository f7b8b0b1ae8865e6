"""Raw clients that come and go: producers, consumers of any type, and passing subscriptions.

They report to the books of their topic (`delivery_books`) all that they send and receive.
"""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crash.books import Place, Written
from crash.delivery_books import NOWHERE, Book, Once, Visit
from crash.raw_load import subscribe
from crash.record import Message
from crash.through_lives import first
from crash.wire import ENDING, Gone, Refused, Wire
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import decode_message, encode_flow
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import Frame
from magnetar_proto.sends import encode_send

if TYPE_CHECKING:
    from crash.delivery_load import Topic

BURST = 10
BURST_SECONDS = 0.02
WINDOW_ENTRIES = 500
PERMITS = 300
LARGEST_PAYLOAD = 300
LONGEST_DELAY_MS = 6000
"""Most are much shorter, so that of older segments little waits."""
MOST_SENT_AGAIN = 100
"""Answered messages that a producer sends once more when it comes back."""
VISIT_SECONDS = (0.1, 3.0)
PASSING_SECONDS = (0.0, 0.5)
CLOSES = 0.5
"""How often a consumer takes its leave; otherwise its connection just ends."""
ASKS = 0.5
"""How often an acknowledgement asks for an answer."""
LEFT_EVERY = 100
LEFT_SECONDS = 8.0
"""Every hundredth message is acknowledged only when it is so old."""
NACKED, NACKED_LEFT = 0.02, 0.5
"""How often a message is asked for again; those that are left are asked for as often."""


class Producer:
    """Publishes in bursts, over one connection after the other."""

    def __init__(self, topic: "Topic", name: str, keys: int) -> None:
        self.keys = keys
        self.written: Written = Once(name) if topic.shape.once else Written(name)
        self.topic = topic
        self._chance = random.Random(name)
        self._in_flight = 0

    def __str__(self) -> str:
        return self.written.producer

    async def work(self, wire: Wire, life: int) -> None:
        """Until the connection ends, or nothing is to be sent and all is answered."""
        load, name = self.topic.load, self.written.producer
        self._idle = asyncio.get_running_loop().create_future()
        wire.on_receipt = self._receipt
        opened = await wire.ask(
            pb.CommandProducer(
                topic=self.topic.name, producer_id=1, request_id=0, producer_name=name
            )
        )
        self._in_flight = 0
        wire.write(b"".join([self._encode(number) for number in self._begin(opened)]))
        leave_at = time.monotonic() + self._chance.uniform(*VISIT_SECONDS)
        while not load.stopping.done():
            if self._in_flight < WINDOW_ENTRIES and wire.writable:
                numbers = [self.written.send() for _ in range(BURST)]
                load.tally.sent.value += BURST
                wire.write(b"".join([self._encode(number) for number in numbers]))
            await first((wire.gone, load.stopping), BURST_SECONDS)
            if wire.gone.done() or time.monotonic() > leave_at:
                raise Gone("left")
        while self._in_flight and not wire.gone.done():
            self._idle = asyncio.get_running_loop().create_future()
            await first((self._idle, wire.gone))

    def _begin(self, opened: Any) -> range:
        """The numbers to send first."""
        if isinstance(self.written, Once):
            back = self._chance.randrange(MOST_SENT_AGAIN)
            return self.written.begin_at(opened.last_sequence_id, back)
        self.written.begin()
        return range(0)

    def _encode(self, number: int) -> bytes:
        """A SEND of a message that is the same whenever it is sent."""
        chance = random.Random(number)
        metadata = pb.MessageMetadata(
            producer_name=self.written.producer,
            sequence_id=number,
            publish_time=time.time_ns() // 1_000_000,
            partition_key=str(number % self.keys),
        )
        if chance.random() < self.topic.shape.delayed:
            delay_ms = int(LONGEST_DELAY_MS * chance.random() ** 4)
            metadata.deliver_at_time = metadata.publish_time + delay_ms
        self._in_flight += 1
        payload = b"x" * chance.randrange(LARGEST_PAYLOAD)
        return encode_send(1, number, 1, metadata.SerializeToString(), payload)

    def _receipt(self, _: int, number: int, ledger: int, entry: int) -> None:
        self.written.receipt(number, (ledger, entry))
        if (ledger, entry) != NOWHERE:
            message = Message(self.written.producer, number)
            self.topic.messages.found(message, (ledger, entry))
        self.topic.load.tally.receipts.value += 1
        self._in_flight -= 1
        if not self._in_flight and not self._idle.done():
            self._idle.set_result(None)


class Consumer:
    """Takes what comes, and reports to the book of its subscription what it does with it."""

    def __init__(self, topic: "Topic", subscription: str, number: int, book: Book) -> None:
        self.book = book
        self.topic = topic
        self._load = topic.load
        self._subscription = subscription
        self._name = f"{subscription}-{number}"
        self._chance = random.Random(f"{topic.name} {self._name}")
        self._wire: Wire
        self._visit: Visit
        self._life = self._used = 0

    def __str__(self) -> str:
        return f"{self.topic.name} {self._name}"

    async def work(self, wire: Wire, life: int) -> None:
        """Until the connection ends, for a while, or to the end of the load."""
        stopping, ended = self._load.stopping, self._load.ended
        if stopping.done():
            await self.stay(wire, life, ended)
        else:
            await self.stay(wire, life, stopping, self._chance.uniform(*VISIT_SECONDS))
        if not ended.done():
            raise Gone("left")

    async def stay(
        self, wire: Wire, life: int, until: "asyncio.Future[None]", seconds: float | None = None
    ) -> bool:
        """Consume; whether it closed in order, so that the connection may be used again."""
        self._wire, self._life, self._used = wire, life, 0
        wire.on_messages = self._messages
        kind = self.book.kind.type
        await wire.ask(
            subscribe(self.topic.name, self._subscription, kind, consumer_name=self._name)
        )
        visit = self._visit = self.book.begin(life)
        wire.write(encode_flow(1, PERMITS))
        await first((wire.gone, until), seconds)
        wire.on_messages = lambda frames: None  # they will come again
        self.book.end(visit)
        if wire.gone.done() or not (until.done() or self._chance.random() < CLOSES):
            return False
        await wire.ask(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
        self.book.answered(visit, visit.requests)
        return True

    def _messages(self, frames: list[Frame]) -> None:
        lives, wire = self.topic.lives, self._wire
        if self._life != lives.kills:
            return  # what is left of a broker that was killed
        if wire.moves != lives.moves_begun:  # it may be what a former owner has sent
            if not lives.moving:
                wire.end("the topic was moved")
            return
        acks, nacks = [], []
        for frame in frames:
            message, place, age = self._take(frame)
            left = message.number % LEFT_EVERY == 0 and age < LEFT_SECONDS
            if self._load.stopping.done():
                acks.append((message, place))
            elif self.book.kind.shares and self._chance.random() < (
                NACKED_LEFT if left else NACKED
            ):
                nacks.append((message, place))
            elif not left:
                acks.append((message, place))
        self._load.tally.deliveries.value += len(frames)
        if nacks:
            self._ask_again(nacks)
        if acks:
            self._acknowledge(acks)
        self._used += len(frames)
        if self._used >= PERMITS // 2:
            self._wire.write(encode_flow(1, self._used))
            self._used = 0

    def _take(self, frame: Frame) -> tuple[Message, Place, float]:
        """What came, where it is, and for how many seconds that is known."""
        _, buf, start, mid, entry = frame
        header = decode_message(buf, start, mid)
        place = header.ledger, header.entry
        if not verify_checksum(entry, 0, len(entry)):
            self.topic.alarm(f"{place} is damaged")
        metadata, _ = parse_metadata(entry)
        message = Message(metadata.producer_name, metadata.sequence_id)
        since = self.book.came(
            self._visit, message, place, metadata.deliver_at_time, header.redelivery_count
        )
        return message, place, time.monotonic() - since

    def _ask_again(self, nacks: list[tuple[Message, Place]]) -> None:
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
        for _, (ledger, entry) in nacks:
            command.message_ids.add(ledgerId=ledger, entryId=entry)
        self._wire.write(encode(command))
        self.book.nacked(self._visit, [message for message, _ in nacks])

    def _acknowledge(self, acks: list[tuple[Message, Place]]) -> None:
        ids = [(ledger, entry, ()) for _, (ledger, entry) in acks]
        visit = self._visit
        self.book.acked(visit, [message for message, _ in acks])
        if self._chance.random() > ASKS and not self._load.stopping.done():
            self._wire.write(encode_ack(1, pb.CommandAck.Individual, ids))
            return
        request_id, requests = self._wire.next_request(), visit.requests

        def on_answer(answer: "asyncio.Future[Any]") -> None:
            if answer.cancelled():
                return
            if answer.result().HasField("error"):
                if answer.result().error != ENDING:  # of a connection that is relayed
                    self.topic.alarm(f"an ack was refused: {answer.result()}")
                return
            self.book.answered(visit, requests)
            self._load.tally.acks.value += len(ids)
            self._load.look()

        self._wire.answer_to(request_id).add_done_callback(on_answer)
        self._wire.write(encode_ack(1, pb.CommandAck.Individual, ids, request_id))


class Passer:
    """A subscription that is made at the end of the topic, used and deleted, over and over."""

    NAME = "passing"

    def __init__(self, topic: "Topic") -> None:
        self.problems: list[str] = []
        self.deleted = 0
        self.topic = topic
        self._load = topic.load
        self._chance = random.Random(f"{topic.name} {self.NAME}")
        self._consumer = Consumer(topic, self.NAME, 0, topic.new_book("exclusive"))
        self._exists = self._unsure = False
        self._late: dict[str, int] = {}
        """What was settled when the first SUBSCRIBE was sent that may still take effect."""

    def __str__(self) -> str:
        return f"{self.topic.name} {self.NAME}"

    async def work(self, wire: Wire, life: int) -> None:
        """Make it, use it for a while, delete it unless the connection ended before.

        For a while it is not there: a broker that is killed then must not have it again.
        """
        if self._unsure or (self._exists and self._load.stopping.done()):
            await self._subscribe(wire)
            await self._unsubscribe(wire)
        if self._load.stopping.done():
            return
        if not self._exists:
            await self._create(wire)
        stopping = self._load.stopping
        with self._noting_late(wire):
            stayed = await self._consumer.stay(wire, life, stopping, self._seconds())
        if stayed:
            await self._subscribe(wire)
            await self._unsubscribe(wire)
            await first((wire.gone, stopping), self._seconds())
        raise Gone("left")

    def _seconds(self) -> float:
        return self._chance.uniform(*PASSING_SECONDS)

    async def _create(self, wire: Wire) -> None:
        """Everything sent from now on is for it, and nothing that is settled already."""
        floor = self._settled() | self._late
        self._unsure = True
        await self._subscribe(wire)
        self._unsure, self._exists = False, True
        book = self._consumer.book = self.topic.new_book("exclusive")
        book.begins_between(floor, self.topic.numbers(lambda written: written.next))
        await wire.ask(pb.CommandCloseConsumer(consumer_id=1, request_id=0))

    def _settled(self) -> dict[str, int]:
        return self.topic.numbers(lambda written: written.settled)

    async def _subscribe(self, wire: Wire) -> None:
        kind, latest = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Latest
        with self._noting_late(wire):
            await wire.ask(subscribe(self.topic.name, self.NAME, kind, initialPosition=latest))

    @contextmanager
    def _noting_late(self, wire: Wire) -> Iterator[None]:
        """A SUBSCRIBE is sent that may still be on its way when its connection has ended.

        If this side ends the connection, a process that relays may have yet to read it, and the
        next connection, which is direct, can overtake it.
        """
        settled = self._settled()
        try:
            yield
        except Gone as gone:
            if not wire.lost and not isinstance(gone, Refused):
                self._late = self._late or settled
            raise

    async def _unsubscribe(self, wire: Wire) -> None:
        self._unsure = True
        await wire.ask(pb.CommandUnsubscribe(consumer_id=1, request_id=0))
        self._unsure = self._exists = False
        self.problems += self._consumer.book.problems
        self.deleted += 1
