"""Subscriptions of all types while the broker is killed, and topics of every kind.

A topic that is shared by key; one with partitions and delays, of which little is kept so that
the broker thins it; a deduplicated one, to which producers send again what they had sent.
Everywhere consumers ask for redeliveries, leave some messages for long, and leave themselves.
"""

import asyncio
import json
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import uvloop

from crash.backlogs import differences
from crash.books import Written
from crash.delivery_books import KINDS, Book, Messages
from crash.delivery_clients import Consumer, Passer, Producer
from crash.lives import Setup
from crash.raw_load import subscribe
from crash.record import Report, few
from crash.through_lives import RETRY_SECONDS, ThroughLives
from crash.wire import dial_owner

CATCH_UP_SECONDS = 300.0


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


class Topic:
    """One topic, or a partition of one, with its clients."""

    def __init__(self, load: "DeliveryLoad", name: str, shape: Shape) -> None:
        self.load = load
        self.name = name
        self.lives = load.setup.lives.of(name)
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
        """Stop all clients, because of this."""
        self.load.setup.alarm(f"{self.name}: {problem}")

    def numbers(self, of: Callable[[Written], int]) -> dict[str, int]:
        """Something of each producer."""
        return {one.written.producer: of(one.written) for one in self.producers}

    async def create(self) -> None:
        """The subscriptions exist before the first message."""
        for name, book in self.books.items():
            wire = await dial_owner(self.load.setup.port, self.name)
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
                if life < self.lives.kills
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
        with suppress(TimeoutError):  # what is missing is reported
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
            tasks.append(self.spawn(worker.work, worker.topic.name))
            tasks[-1].set_name(str(worker))
        return tasks

    def look(self) -> None:
        """Something was acknowledged."""
        self._looks.set()

    async def _consumed(self) -> None:
        """Wait until everything is acknowledged, and the broker reports that, too.

        It may wait for what was acknowledged without an answer before a kill and comes again.
        """
        backlogs = {(topic.name, name): 0 for topic in self.topics for name in topic.books}
        books = [book for topic in self.topics for book in topic.books.values()]
        url = self.setup.http_url
        while not all(book.is_done for book in books) or any(
            await asyncio.to_thread(differences, url, backlogs)
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
