"""Raw clients on subscriptions of all types, which come and go while the broker is killed.

A topic that is shared by key; one with partitions and delays, of which little is kept so that
the broker thins it; a deduplicated one, to which producers send again what they had sent.
Everywhere consumers ask for redeliveries, leave some messages for long, and leave themselves.
Whatever one of them was told is judged message by message (`delivery_books`).
"""

import asyncio
import json
import random
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import uvloop

from crash.backlogs import differences
from crash.books import Place
from crash.delivery_books import KINDS, NOWHERE, Book, Messages, Once, Visit, Written
from crash.lives import Setup
from crash.raw_load import subscribe
from crash.record import Message, Report, few
from crash.through_lives import RETRY_SECONDS, ThroughLives, first
from crash.wire import Gone, Wire, dial
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import decode_message, encode_flow
from magnetar_proto.entries import parse_metadata, verify_checksum
from magnetar_proto.frames import Frame
from magnetar_proto.sends import encode_send

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
"""How often a message is asked for again; the same for those that are left."""
CATCH_UP_SECONDS = 90.0


class Shape(NamedTuple):
    """A topic: how many keys the messages of its producers have, and its subscriptions."""

    keys: tuple[int, ...]
    subscriptions: tuple[str, ...]
    delayed: float = 0.0
    """How many of the messages are."""
    once: bool = False
    partitions: int = 0
    passing: bool = False
    """Whether there is a subscription besides that comes and goes."""


SHAPES = {
    "mixed": Shape((37, 1000), ("keys", "exclusive"), passing=True),
    "late": Shape((1,), ("shared", "failover"), delayed=0.3, partitions=2),
    "once": Shape((100, 100), ("shared", "keys"), once=True),
}


class Producer:
    """Publishes in bursts, over one connection after the other."""

    def __init__(self, topic: "Topic", name: str, keys: int) -> None:
        self.keys = keys
        self.written: Written = Once(name) if topic.shape.once else Written(name)
        self._topic = topic
        self._chance = random.Random(name)
        self._in_flight = 0

    def __str__(self) -> str:
        return self.written.producer

    async def work(self, wire: Wire, life: int) -> None:
        """Until the connection ends, or nothing is to be sent and all is answered."""
        load, name = self._topic.load, self.written.producer
        self._idle = asyncio.get_running_loop().create_future()
        wire.on_receipt = self._receipt
        opened = await wire.ask(
            pb.CommandProducer(
                topic=self._topic.name, producer_id=1, request_id=0, producer_name=name
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
        if chance.random() < self._topic.shape.delayed:
            delay_ms = int(LONGEST_DELAY_MS * chance.random() ** 4)
            metadata.deliver_at_time = metadata.publish_time + delay_ms
        self._in_flight += 1
        payload = b"x" * chance.randrange(LARGEST_PAYLOAD)
        return encode_send(1, number, 1, metadata.SerializeToString(), payload)

    def _receipt(self, _: int, number: int, ledger: int, entry: int) -> None:
        self.written.receipt(number, (ledger, entry))
        if (ledger, entry) != NOWHERE:
            message = Message(self.written.producer, number)
            self._topic.messages.found(message, (ledger, entry))
        self._topic.load.tally.receipts.value += 1
        self._in_flight -= 1
        if not self._in_flight and not self._idle.done():
            self._idle.set_result(None)


class Consumer:
    """Takes what comes, and tells the book of its subscription what it does with it."""

    def __init__(self, topic: "Topic", subscription: str, number: int, book: Book) -> None:
        self.book = book
        self._topic = topic
        self._load = topic.load
        self._subscription = subscription
        self._name = f"{subscription}-{number}"
        self._chance = random.Random(f"{topic.name} {self._name}")
        self._wire: Wire
        self._visit: Visit
        self._life = self._used = 0

    def __str__(self) -> str:
        return f"{self._topic.name} {self._name}"

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
        """The same; whether it took its leave, so that the connection may be used again."""
        self._wire, self._life, self._used = wire, life, 0
        wire.on_messages = self._messages
        kind = self.book.kind.type
        await wire.ask(
            subscribe(self._topic.name, self._subscription, kind, consumer_name=self._name)
        )
        visit = self._visit = self.book.begin(life)
        wire.write(encode_flow(1, PERMITS))
        await first((wire.gone, until), seconds)
        wire.on_messages = lambda frames: None  # they will come again
        self.book.end(visit)
        if wire.gone.done() or not (until.done() or self._chance.random() < CLOSES):
            return False
        await wire.ask(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
        self.book.answered(visit, visit.said)
        return True

    def _messages(self, frames: list[Frame]) -> None:
        if self._life != self._load.setup.lives.kills:
            return  # what is left of a broker that was killed
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
        _, buf, start, mid, end = frame
        said = decode_message(buf, start, mid)
        place = said.ledger, said.entry
        entry = buf[mid:end]
        if not verify_checksum(entry, 0, len(entry)):
            self._topic.alarm(f"{place} is damaged")
        metadata, _ = parse_metadata(entry)
        message = Message(metadata.producer_name, metadata.sequence_id)
        since = self.book.came(
            self._visit, message, place, metadata.deliver_at_time, said.redelivery_count
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
        request_id, said = self._wire.next_request(), visit.said

        def heard(answer: "asyncio.Future[Any]") -> None:
            if answer.cancelled():
                return
            if answer.result().HasField("error"):
                self._topic.alarm(f"an ack was refused: {answer.result()}")
                return
            self.book.answered(visit, said)
            self._load.tally.acks.value += len(ids)
            self._load.look()

        self._wire.answer_to(request_id).add_done_callback(heard)
        self._wire.write(encode_ack(1, pb.CommandAck.Individual, ids, request_id))


class Passer:
    """A subscription that is made at the end of the topic, used and deleted, over and over."""

    NAME = "passing"

    def __init__(self, topic: "Topic") -> None:
        self.problems: list[str] = []
        self.deleted = 0
        self._topic = topic
        self._load = topic.load
        self._chance = random.Random(f"{topic.name} {self.NAME}")
        self._consumer = Consumer(topic, self.NAME, 0, topic.new_book("exclusive"))
        self._exists = self._unsure = False

    def __str__(self) -> str:
        return f"{self._topic.name} {self.NAME}"

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
        if await self._consumer.stay(wire, life, stopping, self._seconds()):
            await self._subscribe(wire)
            await self._unsubscribe(wire)
            await first((wire.gone, stopping), self._seconds())
        raise Gone("left")

    def _seconds(self) -> float:
        return self._chance.uniform(*PASSING_SECONDS)

    async def _create(self, wire: Wire) -> None:
        """Everything sent from now on is for it, and nothing that is settled already."""
        floor = self._topic.numbers(lambda written: written.settled)
        self._unsure = True
        await self._subscribe(wire)
        self._unsure, self._exists = False, True
        book = self._consumer.book = self._topic.new_book("exclusive")
        book.begins_between(floor, self._topic.numbers(lambda written: written.next))
        await wire.ask(pb.CommandCloseConsumer(consumer_id=1, request_id=0))

    async def _subscribe(self, wire: Wire) -> None:
        kind, latest = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Latest
        await wire.ask(subscribe(self._topic.name, self.NAME, kind, initialPosition=latest))

    async def _unsubscribe(self, wire: Wire) -> None:
        self._unsure = True
        await wire.ask(pb.CommandUnsubscribe(consumer_id=1, request_id=0))
        self._unsure = self._exists = False
        self.problems += self._consumer.book.problems
        self.deleted += 1


class Topic:
    """One topic, or a partition of one, with its clients."""

    def __init__(self, load: "DeliveryLoad", name: str, shape: Shape) -> None:
        self.load = load
        self.name = name
        self.shape = shape
        self.messages = Messages(self.alarm)
        self._keys = {f"{name}-{number}": keys for number, keys in enumerate(shape.keys)}
        self.producers = [Producer(self, one, keys) for one, keys in self._keys.items()]
        self.messages.writers = {one.written.producer: one.written for one in self.producers}
        self.books = {kind: self.new_book(kind) for kind in shape.subscriptions}
        self.consumers = [
            Consumer(self, kind, number, book)
            for kind, book in self.books.items()
            for number in range(book.kind.consumers)
        ]
        self.passers = [Passer(self)] if shape.passing else []

    def new_book(self, kind: str) -> Book:
        """For a subscription about which nothing is known."""
        return Book(KINDS[kind], self.messages, self._keys, self.alarm)

    def alarm(self, problem: str) -> None:
        """Let everybody stop, because of this."""
        self.load.setup.alarm(f"{self.name}: {problem}")

    def numbers(self, of: Callable[[Written], int]) -> dict[str, int]:
        """Something of each producer."""
        return {one.written.producer: of(one.written) for one in self.producers}

    async def create(self) -> None:
        """The subscriptions exist before the first message."""
        for name, book in self.books.items():
            wire = await dial(self.load.setup.port)
            await wire.ask(subscribe(self.name, name, book.kind.type))
            wire.end("done")
        if self.shape.once:
            self.load.admin("POST", f"{path_of(self.name)}/deduplicationEnabled", True)

    def report(self) -> Report:
        """What came of it, when everything is acknowledged."""
        problems = list(self.messages.check())
        for name, book in self.books.items():
            problems += [f"{name}: {problem}" for problem in book.check()]
        for passer in self.passers:
            problems += few("delivered against the promise", passer.problems)
        return Report(
            stored=len(self.messages.places),
            acks_tested=sum(
                count
                for book in self.books.values()
                for life, count in book.safe.items()
                if life < self.load.setup.lives.kills
            ),
            counts_tested=sum(book.counts_tested for book in self.books.values()),
            subscriptions_deleted=sum(passer.deleted for passer in self.passers),
            problems=[f"{self.name}: {problem}" for problem in problems],
            backlogs={(self.name, name): 0 for name in self.books},
        )


class DeliveryLoad(ThroughLives):
    """All these clients, for one process; `run` it."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.tally = setup.tally
        loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = loop.create_future()
        """From then on nothing is published, and everything is acknowledged as it comes;"""
        self.ended: asyncio.Future[None] = loop.create_future()
        """and then nothing happens any more."""
        self._looks = asyncio.Event()
        self._partitioned = {}
        self.topics = []
        for kind, shape in SHAPES.items():
            name = f"persistent://public/default/{setup.topic}-{kind}"
            names = [f"{name}-partition-{number}" for number in range(shape.partitions)]
            if names:
                self._partitioned[name] = shape.partitions
            self.topics += [Topic(self, one, shape) for one in names or [name]]

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the admin API; what it answers, if anything."""
        request = urllib.request.Request(
            f"{self.setup.http_url}/admin/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    async def run(self, started: Any, stop: Any) -> Report:
        """Work until `stop`, then compare."""
        for name, count in self._partitioned.items():
            self.admin("PUT", f"{path_of(name)}/partitions", count)
        for topic in self.topics:
            await topic.create()
        producers = self._spawn([one for topic in self.topics for one in topic.producers])
        producers += self._spawn([one for topic in self.topics for one in topic.passers])
        consumers = self._spawn([one for topic in self.topics for one in topic.consumers])
        started.set()
        await asyncio.get_running_loop().run_in_executor(None, stop.wait)
        self.stopping.set_result(None)
        problems = await endless(producers)
        with suppress(TimeoutError):  # what is missing is told
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._consumed()
        self.ended.set_result(None)
        problems += await endless(consumers)
        report = Report(
            sent=self.tally.sent.value, receipts=self.tally.receipts.value, problems=problems
        )
        for topic in self.topics:
            report += topic.report()
        for name, count in self._partitioned.items():
            found = self.admin("GET", f"{path_of(name)}/partitions")["partitions"]
            if found != count:
                report.problems.append(f"{name} has {found} partitions instead of {count}")
        return report

    def _spawn(
        self, workers: Iterable["Producer | Consumer | Passer"]
    ) -> list["asyncio.Task[None]"]:
        tasks = []
        for worker in workers:
            tasks.append(self.spawn(worker.work))
            tasks[-1].set_name(str(worker))
        return tasks

    def look(self) -> None:
        """Something was acknowledged."""
        self._looks.set()

    async def _consumed(self) -> None:
        """Wait until everything is acknowledged, and the broker says so, too.

        It may wait for what was acknowledged without an answer before a kill and comes again.
        """
        backlogs = {(topic.name, name): 0 for topic in self.topics for name in topic.books}
        books = [book for topic in self.topics for book in topic.books.values()]
        while not all(book.is_done for book in books) or await asyncio.to_thread(
            differences, self.setup.http_url, backlogs
        ):
            self._looks.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._looks.wait()


async def endless(tasks: Iterable["asyncio.Task[None]"]) -> list[str]:
    """Wait for all of these; which ones do not end."""
    done, pending = await asyncio.wait(tasks, timeout=CATCH_UP_SECONDS)
    for task in done:
        task.result()
    return few("do not end", sorted(task.get_name() for task in pending))


def path_of(topic: str) -> str:
    """Where the admin API has it."""
    return topic.replace("://", "/")


def delivery_load(setup: Setup, started: Any, stop: Any) -> Report:
    """All of it, for a process."""

    async def run() -> Report:
        return await DeliveryLoad(setup).run(started, stop)

    report = uvloop.run(run())
    report.deliveries = setup.tally.deliveries.value
    return report
