"""Raw clients that publish and acknowledge as fast as they can while the broker is killed.

They run in a process of their own.  Every acknowledgement asks for its answer, so what was
answered must not come again, however soon after it the kill was.
"""

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import uvloop

from crash.books import AckBook, Place, Stored, Written, verdict
from crash.lives import Setup
from crash.record import Report
from crash.through_lives import ThroughLives, first
from crash.wire import ENDING, Wire, dial_owner
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.batch import encode_batch
from magnetar_proto.deliveries import decode_message, encode_flow
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import Frame
from magnetar_proto.ids import ack_set_to_mask, mask_to_ack_set
from magnetar_proto.sends import encode_send

AUDIT, HOLES, CUMULATIVE = "audit", "holes", "cumulative"
END = "end"
"""The producer of each topic's last entry."""
WINDOW_ENTRIES = 1000
WINDOW_BYTES = 2 << 20
SMALL_BYTES = 256 << 10
"""In flight; beyond it entries are written one by one."""
ENTRIES_PER_WRITE = 50
FLOODED_EVERY = 2
"""In other lives nothing is published here, so that other clients are served at once."""
PERMITS = 2000
CATCH_UP_SECONDS = 300.0
METADATA_BYTES = 512
"""More than what lies before the payload of an entry."""
HOLE_EVERY = 10
HALF_EVERY = 3
"""So often a cumulative acknowledgement ends in the middle of a batch."""


class Body(NamedTuple):
    """What an entry carries."""

    messages: int
    payload: bytes


class Shape(NamedTuple):
    """Bounds of messages in an entry, and of their bytes; one message is sent as no batch."""

    messages: tuple[int, int]
    size: tuple[int, int]

    def bodies(self, seed: str, count: int) -> list[Body]:
        """Some, always the same for a seed."""
        chance = random.Random(seed)
        made = []
        for _ in range(count):
            messages = chance.randint(*self.messages)
            payload = chance.randbytes(chance.randint(*self.size))
            if messages > 1:
                payload = encode_batch([(pb.SingleMessageMetadata(), payload)] * messages)
            made.append(Body(messages, payload))
        return made


SMALL = Shape((1, 1), (1, 1000))
BATCHED = Shape((2, 100), (1, 300))
KILOBYTES = Shape((100, 100), (1024, 1024))
LARGE = Shape((1, 1), (64 << 10, 256 << 10))
TOPICS: dict[str, tuple[Shape, ...]] = {
    "small": (SMALL, SMALL, BATCHED),
    "batched": (BATCHED, KILOBYTES),
    "large": (LARGE, SMALL),
}
BODIES = 32


class Producer:
    """Publishes without a pause, a window ahead of the receipts."""

    def __init__(self, topic: "Topic", name: str, shape: Shape) -> None:
        self.written = Written(name)
        self.bodies = shape.bodies(name, BODIES)
        self._topic = topic
        self._metadata = pb.MessageMetadata(producer_name=name, publish_time=1)
        self._wire: Wire
        self._idle: asyncio.Future[None]
        self._in_flight = self._bytes = 0

    async def work(self, wire: Wire, life: int) -> None:
        """Until the connection ends, or nothing is to be sent and all is answered."""
        await wire.ask(
            pb.CommandProducer(
                topic=self._topic.name, producer_id=1, request_id=0,
                producer_name=self.written.producer,
            )
        )  # fmt: skip
        self.written.begin()
        self._in_flight = self._bytes = 0
        self._wire = wire
        wire.on_receipt = self._receipt
        wire.on_writable = self._fill
        self._idle = asyncio.get_running_loop().create_future()
        if life % FLOODED_EVERY == 0:
            self._fill()
        await first((self._topic.load.stopping, wire.gone))
        if self._in_flight:
            await first((self._idle, wire.gone))

    def _fill(self) -> None:
        wire, load = self._wire, self._topic.load
        while not load.stopping.done() and wire.writable and not wire.gone.done():
            if self._in_flight > WINDOW_ENTRIES or self._bytes > WINDOW_BYTES:
                return
            burst = ENTRIES_PER_WRITE if self._bytes < SMALL_BYTES else 1
            wire.write(b"".join([self._next() for _ in range(burst)]))
        if load.stopping.done() and not self._in_flight and not self._idle.done():
            self._idle.set_result(None)

    def _next(self) -> bytes:
        number = self.written.send()
        body = self.bodies[number % BODIES]
        metadata = self._metadata
        metadata.sequence_id = number
        if body.messages > 1:
            metadata.num_messages_in_batch = body.messages
        else:
            metadata.ClearField("num_messages_in_batch")
        self._in_flight += 1
        self._bytes += len(body.payload)
        self._topic.load.tally.sent.value += body.messages
        return encode_send(1, number, body.messages, metadata.SerializeToString(), body.payload)

    def _receipt(self, _: int, number: int, ledger: int, entry: int) -> None:
        self.written.receipt(number, (ledger, entry))
        body = self.bodies[number % BODIES]
        self._in_flight -= 1
        self._bytes -= len(body.payload)
        self._topic.load.tally.receipts.value += body.messages
        self._fill()


class Consumer:
    """Acknowledges what comes, and writes into the book of its subscription what is answered."""

    def __init__(self, topic: "Topic", book: AckBook) -> None:
        self.book = book
        self._topic = topic
        self._used = 0
        self._turns = itertools.count(1)
        self._cumulative = book.subscription == CUMULATIVE

    async def work(self, wire: Wire, life: int) -> None:
        """Until the connection ends."""
        self._wire, self._life, self._used = wire, life, 0
        wire.on_messages = self._messages
        kind = pb.CommandSubscribe.Failover if self._cumulative else pb.CommandSubscribe.Shared
        await wire.ask(subscribe(self._topic.name, self.book.subscription, kind))
        wire.write(encode_flow(1, PERMITS))
        await asyncio.wait((wire.gone,))

    def _messages(self, frames: list[Frame]) -> None:
        found = [self._take(frame) for frame in frames]
        if self._cumulative:
            self._acknowledge_up_to(*found[-1])
        else:
            self._acknowledge_each(found)
        self._topic.load.tally.deliveries.value += sum(messages for _, messages, _, _ in found)
        self._used += sum(messages for _, messages, _, _ in found)
        if self._used >= PERMITS // 2:
            self._wire.write(encode_flow(1, self._used))
            self._used = 0
        self._topic.look()

    def _take(self, frame: Frame) -> tuple[Place, int, int, bool]:
        """Where it is, how many messages came and which (a mask), and whether again."""
        _, buf, start, mid, entry = frame
        message = decode_message(buf, start, mid)
        place = message.ledger, message.entry
        metadata, _ = parse_metadata(entry[:METADATA_BYTES])
        unacked = (1 << (metadata.num_messages_in_batch or 1)) - 1
        if message.ack_set:
            unacked &= ack_set_to_mask(message.ack_set)
        again = self.book.came(place, unacked, self._life, self._wire.moves)
        return place, unacked.bit_count(), unacked, again

    def _acknowledge_each(self, found: list[tuple[Place, int, int, bool]]) -> None:
        """Of every tenth entry only half a batch, or nothing, until it comes again."""
        ids: list[tuple[Place, int]] = []
        wire_ids = []
        for place, _, unacked, again in found:
            acked = unacked
            if place[1] % HOLE_EVERY == 0 and not again and not self._topic.load.greedy:
                acked = unacked & ~(unacked // 3)  # the odd ones stay
                if unacked == 1:
                    continue
            left = unacked & ~acked
            ids.append((place, acked if left else 0))
            wire_ids.append((*place, mask_to_ack_set(left)))
        if ids:
            self._send(
                pb.CommandAck.Individual, wire_ids, lambda moves: self.book.acked(ids, moves)
            )

    def _acknowledge_up_to(self, place: Place, _: int, unacked: int, again: bool) -> None:
        """Now and then only up to the middle of the batch."""
        left = 0
        if next(self._turns) % HALF_EVERY == 0 and unacked > 1 and not self._topic.load.greedy:
            left = unacked & -(1 << unacked.bit_length() // 2)
            if left == unacked:
                left = 0  # only that half was left: nothing would be acknowledged, and noted as all
        mask, life = unacked & ~left if left else 0, self._life
        self._send(
            pb.CommandAck.Cumulative,
            [(*place, mask_to_ack_set(left))],
            lambda moves: self.book.acked_up_to(place, mask, life, moves),
        )

    def _send(self, kind: int, ids: list[Any], answered: Callable[[int], None]) -> None:
        """`answered` is called with the number of the topic's moves that have begun by then."""
        request_id = self._wire.next_request()

        def on_answer(answer: "asyncio.Future[Any]") -> None:
            if answer.cancelled():
                return
            if answer.result().HasField("error"):
                if answer.result().error != ENDING:  # of a connection that is relayed
                    self._topic.load.setup.alarm(f"an ack was refused: {answer.result()}")
                return
            answered(self._topic.lives.moves_begun)
            self._topic.load.tally.acks.value += len(ids)
            self._topic.look()

        self._wire.answer_to(request_id).add_done_callback(on_answer)
        self._wire.write(encode_ack(1, kind, ids, request_id))


def subscribe(
    topic: str, name: str, kind: pb.CommandSubscribe.SubType, **fields: Any
) -> pb.CommandSubscribe:
    """A SUBSCRIBE, by default from the first message on."""
    fields.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
    return pb.CommandSubscribe(
        topic=topic, subscription=name, subType=kind, consumer_id=1, request_id=0, **fields
    )


class Topic:
    """One topic with its clients."""

    def __init__(self, load: "RawLoad", kind: str, shapes: tuple[Shape, ...]) -> None:
        self.load = load
        self.name = f"persistent://public/default/{load.setup.topic}-{kind}"
        self.lives = load.setup.lives.of(self.name)
        self.producers = [
            Producer(self, f"{kind}-{number}", shape) for number, shape in enumerate(shapes)
        ]
        self.books = [AckBook(name, self._alarm) for name in (HOLES, CUMULATIVE)]
        self.consumers = [Consumer(self, book) for book in self.books for _ in range(2)]
        self._end: Place = (0, 0)
        self._drained: asyncio.Future[None] | None = None

    def _alarm(self, problem: str) -> None:
        self.load.setup.alarm(f"{self.name}: {problem}")

    async def create(self) -> None:
        """The subscriptions exist before the first message; one of them keeps everything."""
        for name in (AUDIT, HOLES, CUMULATIVE):
            wire = await dial_owner(self.load.setup.port, self.name)
            await wire.ask(subscribe(self.name, name, pb.CommandSubscribe.Shared))
            wire.end("done")

    async def mark_end(self) -> None:
        """One more entry, behind all others, and not acknowledged yet."""
        wire = await dial_owner(self.load.setup.port, self.name)
        receipt = asyncio.get_running_loop().create_future()
        wire.on_receipt = lambda _, __, ledger, entry: receipt.set_result((ledger, entry))
        await wire.ask(pb.CommandProducer(topic=self.name, producer_id=1, request_id=0))
        metadata = pb.MessageMetadata(producer_name=END, sequence_id=0, publish_time=1)
        wire.write(encode_send(1, 0, 1, metadata.SerializeToString(), b""))
        async with asyncio.timeout(CATCH_UP_SECONDS):
            self._end = await receipt
        wire.end("done")

    async def drained(self) -> bool:
        """Whether all that was not acknowledged came, in order, up to the last entry."""
        self._drained = asyncio.get_running_loop().create_future()
        self.look()
        done, _ = await asyncio.wait((self._drained,), timeout=CATCH_UP_SECONDS)
        return bool(done)

    def look(self) -> None:
        """Something was acknowledged."""
        if self._drained is None or self._drained.done():
            return
        if all(book.is_acked(self._end) for book in self.books):
            self._drained.set_result(None)

    async def read(self) -> tuple[list[Stored], list[str]]:
        """All there is, in order, and what is damaged of it."""
        wire = await dial_owner(self.load.setup.port, self.name)
        bodies = {one.written.producer: one.bodies for one in self.producers}
        reading = Reading(bodies | {END: [Body(1, b"")]})
        wire.on_messages = lambda frames: reading.take(frames, wire)
        await wire.ask(
            subscribe(self.name, "reading", pb.CommandSubscribe.Exclusive, durable=False)
        )
        last = await wire.ask(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))
        reading.until((last.last_message_id.ledgerId, last.last_message_id.entryId))
        wire.write(encode_flow(1, PERMITS))
        await asyncio.wait(
            (reading.done, wire.gone), timeout=CATCH_UP_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )  # fmt: skip
        wire.end("done")
        if not reading.done.done():
            reading.problems.append(f"{self.name} ends at {reading.stored[-1:]}, not at {last}")
        return reading.stored, reading.problems


class Reading:
    """Entries as they come, compared with what was sent."""

    def __init__(self, bodies: dict[str, list[Body]]) -> None:
        self.stored: list[Stored] = []
        self.problems: list[str] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._bodies = bodies
        self._last: tuple[int, int] = (0, 0)

    def until(self, last: tuple[int, int]) -> None:
        """The place of the last entry."""
        self._last = last
        if last[0] >= 1 << 63:  # there is nothing
            self.done.set_result(None)

    def take(self, frames: list[Frame], wire: Wire) -> None:
        permits = 0
        for _, buf, start, mid, entry in frames:
            message = decode_message(buf, start, mid)
            metadata, at = parse_metadata(entry)
            name, number = metadata.producer_name, metadata.sequence_id
            messages = metadata.num_messages_in_batch or 1
            place = message.ledger, message.entry
            self.stored.append(Stored(name, number, place, messages))
            bodies = self._bodies.get(name, [Body(-1, b"")])
            sent = bodies[number % len(bodies)] == (messages, entry[at:])
            if not sent or not verify_checksum(entry, 0, len(entry)):
                self.problems.append(f"{name} {number} at {place} is not what was sent")
            permits += messages
        wire.write(encode_flow(1, permits))
        if self.stored[-1].place >= self._last and not self.done.done():
            self.done.set_result(None)


class RawLoad(ThroughLives):
    """All raw clients of one process; `run` it."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.tally = setup.tally
        self.stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.greedy = False
        self.topics = [Topic(self, kind, shapes) for kind, shapes in TOPICS.items()]

    async def run(self, started: Any, stop: Any) -> Report:
        """Work until `stop`, then compare."""
        for topic in self.topics:
            await topic.create()
        topics = self.topics
        producers = [self.spawn(one.work, t.name) for t in topics for one in t.producers]
        consumers = [self.spawn(one.work, t.name) for t in topics for one in t.consumers]
        started.set()
        await asyncio.get_running_loop().run_in_executor(None, stop.wait)
        self.stopping.set_result(None)
        async with asyncio.timeout(CATCH_UP_SECONDS):
            await asyncio.gather(*producers)
        for task in consumers:
            task.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
        self.greedy = True
        report = Report(sent=self.tally.sent.value, receipts=self.tally.receipts.value)
        for topic in self.topics:
            report += await self._judge(topic)
        return report

    async def _judge(self, topic: Topic) -> Report:
        await topic.mark_end()
        stored, problems = await topic.read()
        tested = sum(book.answered() for book in topic.books)
        tested += sum(entry.place <= topic.books[1].mark for entry in stored)
        draining = [self.spawn(one.work, topic.name) for one in topic.consumers[::2]]
        if not await topic.drained():
            problems.append("what was not acknowledged does not come again")
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        written = [one.written for one in topic.producers]
        problems += verdict(written, topic.books, stored[:-1])
        messages = sum(entry.messages for entry in stored)
        counts = {AUDIT: messages, HOLES: 0, CUMULATIVE: 0}
        return Report(
            stored=messages,
            acks_tested=tested,
            problems=[f"{topic.name}: {problem}" for problem in problems],
            backlogs={(topic.name, name): count for name, count in counts.items()},
        )


def raw_load(setup: Setup, started: Any, stop: Any) -> Report:
    """All of it, for a process."""

    async def run() -> Report:
        return await RawLoad(setup).run(started, stop)

    report = uvloop.run(run())
    report.deliveries = setup.tally.deliveries.value
    return report
