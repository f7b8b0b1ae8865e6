"""Processes that append, hand over, die, are ended while they run, and take over: any order.

A small topic stands for a log: a record with a list of segments, changed by compare-and-set only,
listed before it is written to, and claimed before it is recovered.  The books know what was
appended to each segment and what was reported as durable.
"""

import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from effort import seeds
from fakes.faulty_objects import READS, WRITES, Fault
from fakes.origins import MESSAGES
from fakes.session_stores import Process, SessionWorld
from fakes.unreliable_metadata import Fate, UnreliableMetadata
from fakes.world import ManualClock, ManualPromise, start
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import ABSENT, Sealed, SegmentWriter, Version
from magnetar_storage.session_store import deleting

STEPS = 600

pytestmark = pytest.mark.usefixtures("small")
TOPICS = ("/topics/a", "/topics/b", "/topics/c")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that a few segments exceed them."""
    monkeypatch.setattr(deleting, "MOST_DELETED", 2)


class Book:
    """What is known of one segment."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.confirmed = 0
        self.end: Sealed | None = None
        """The end that was reported first."""

    def ended(self, end: Sealed) -> None:
        """Check that an end has all that was confirmed, and agrees with the others."""
        assert self.end in (None, end), "two recoveries do not agree"
        assert self.confirmed <= end.entries <= len(self.appended)
        self.end = end


class Topic(NamedTuple):
    """A topic as its owner has it."""

    key: str
    process: Process
    writer: SegmentWriter
    segments: list[int]
    version: Version


class History:
    """A random history; `check` ends it."""

    def __init__(self, seed: int, faulty: float = 0.0, metadata: float = 0.0) -> None:
        self.clock = ManualClock()
        self.metadata = UnreliableMetadata(self.clock)
        self.world = SessionWorld(self.clock, seed, metadata=self.metadata)
        self.dice = self.world.dice
        self.faulty, self.unsure = faulty, metadata
        self.books: dict[int, Book] = {}
        self.deleted: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.running: list[tuple[Process, ManualPromise]] = []
        self.busy: set[str] = set()
        """The topics that are being opened, moved or rolled."""
        self.living = [self.world.start(), self.world.start()]
        self.payloads = 0
        self.world.objects.fault = self._fault

    def _fault(self, operation: str, name: str) -> Fault | None:
        if self.dice.random() >= self.faulty:
            return None
        faults = READS if operation in ("size", "tag", "read", "list") else WRITES
        return self.dice.choice([fault for fault in faults if fault is not Fault.PRECONDITION])

    # What processes do ----------------------------------------------------------

    async def open(self, process: Process, key: str) -> None:
        """Take a topic over: claim it, recover its segments, and list a new one."""
        found = await process.metadata.get(key)
        segments: list[int] = json.loads(found.value) if found is not None else []
        # The claim: a former owner cannot list anything more.
        version = await process.metadata.put(
            key, json.dumps(segments).encode(), ABSENT if found is None else found.version
        )
        for segment in segments[-2:]:
            self.books[segment].ended(await process.store.recover(segment))
        await self._list_new(process, key, segments, version)

    async def _list_new(
        self, process: Process, key: str, segments: list[int], version: Version
    ) -> None:
        writer = await process.store.create(MESSAGES, max(segments, default=0))
        assert not segments or writer.segment > max(segments), "ids grow"
        assert writer.segment not in self.books, "ids are not used twice"
        self.books[writer.segment] = Book()
        segments = [*segments, writer.segment]
        version = await process.metadata.put(key, json.dumps(segments).encode(), version)
        self.topics[key] = Topic(key, process, writer, segments, version)

    async def roll(self, topic: Topic) -> None:
        del self.topics[topic.key]
        self.books[topic.writer.segment].ended(await topic.writer.seal())
        await self._list_new(topic.process, topic.key, topic.segments, topic.version)

    async def trim(self, topic: Topic) -> None:
        """Delete the oldest segment."""
        del self.topics[topic.key]
        first, *rest = topic.segments
        version = await topic.process.metadata.put(
            topic.key, json.dumps(rest).encode(), topic.version
        )
        self.deleted.add(first)
        self.topics[topic.key] = topic._replace(segments=rest, version=version)
        await topic.process.store.delete(first)

    async def hand_over(self, topic: Topic, other: Process) -> None:
        """Move a topic between two living processes."""
        del self.topics[topic.key]
        self.books[topic.writer.segment].ended(await topic.writer.seal())
        await topic.process.store.settle()
        # In the other process now, which may end without the first one.
        if not other.is_killed:
            self.running.append((other, start(self._opened(other, topic.key))))

    async def _opened(self, process: Process, key: str) -> None:
        self.busy.add(key)
        try:
            await self.open(process, key)
        except StorageError:
            self.topics.pop(key, None)
        finally:
            self.busy.discard(key)

    async def end(self, process: Process, other: Process) -> None:
        await process.store.end_session(other.store.session)

    async def read(self, process: Process, segment: int) -> None:
        book = self.books[segment]
        confirmed = book.confirmed
        found = await self._entries(process, segment)
        if segment not in self.deleted:
            assert found == book.appended[: len(found)]
            assert len(found) >= confirmed or not book.end

    async def _entries(self, process: Process, segment: int) -> list[bytes]:
        reader = await process.store.reader(segment)
        found: list[bytes] = []
        while part := (await reader.read(len(found), 3, 50)).payloads:
            found += part
        reader.close()
        return found

    async def sweep(self, process: Process) -> None:
        """Set aside what no topic lists; a process does this before it serves topics."""
        there = {segment async for segment in process.store.segments()}
        for key in TOPICS:
            found = await process.metadata.get(key)
            there -= set(json.loads(found.value)) if found is not None else set()
        await process.store.set_aside(there, "a test")
        if self.dice.random() < 0.5:
            await process.store.delete_set_aside(1 << 60)

    # The schedule ---------------------------------------------------------------

    def step(self) -> None:
        """Let something happen."""
        self.running = [one for one in self.running if not self._is_over(*one)]
        if self.unsure and self.dice.random() < self.unsure:
            self.metadata.fates.append(self.dice.choice(list(Fate)))
        roll = self.dice.random()
        if roll < 0.80:
            for _ in range(self.dice.randrange(1, 6)):
                if not self.clock.step() and not self.world.step():
                    break
        elif roll < 0.81:
            self.world.objects.land()
        else:
            self._act()

    def _is_over(self, process: Process, outcome: ManualPromise) -> bool:
        if process.is_killed:
            return True
        if not outcome.done():
            return False
        with suppress(StorageError):  # a fault, or the process was ended
            outcome.result()
        return True

    def _act(self) -> None:
        process = self.dice.choice(self.living)
        own = [topic for topic in self.topics.values() if topic.process is process]
        roll = self.dice.random()
        if roll < 0.55 and own:
            self._use(process, self.dice.choice(own))
        elif roll < 0.75:
            free = [key for key in TOPICS if key not in self.topics and key not in self.busy]
            if free:
                self.begin(process, self._opened(process, self.dice.choice(free)))
        elif roll < 0.80:
            self.begin(process, process.store.settle())
        elif roll < 0.92:
            listed = sorted(self.books.keys() - self.deleted)
            if listed:
                self.begin(process, self.read(process, self.dice.choice(listed)))
        elif roll < 0.94:
            self.replace(process)
        elif roll < 0.96:
            self._end_one(process)

    def _use(self, process: Process, topic: Topic) -> None:
        roll = self.dice.random()
        if roll < 0.65:
            self._append(topic)
        elif roll < 0.82:
            self.begin(process, self.roll(topic))
        elif roll < 0.91 and len(topic.segments) > 2:
            self.begin(process, self.trim(topic))
        else:
            self.begin(process, self.hand_over(topic, self.dice.choice(self.living)))

    def _end_one(self, process: Process) -> None:
        """End the session of a process, which may still run."""
        other = self.dice.choice(self.world.processes)
        if other is not process:
            other.metadata.lease_is_lost = True
            self.begin(process, self.end(process, other))
            self._lose(other)

    def begin(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        self.running.append((process, start(work)))

    def _append(self, topic: Topic) -> None:
        book = self.books[topic.writer.segment]
        payloads = []
        for _ in range(self.dice.randrange(1, 4)):
            self.payloads += 1
            payloads.append(b"%d " % self.payloads * self.dice.randrange(1, 9))
        until = len(book.appended) + len(payloads)

        def done(error: BaseException | None) -> None:
            if error is None:
                assert book.confirmed == until - len(payloads), "reported in order"
                assert book.end is None or until <= book.end.entries, "reported behind the end"
                book.confirmed = until
            elif self.topics.get(topic.key) is topic:
                del self.topics[topic.key]

        if topic.writer.append(payloads, [1] * len(payloads), done) == len(book.appended):
            book.appended += payloads  # else the writer has refused it and an earlier one

    def replace(self, process: Process) -> None:
        """Kill a process, and start another one."""
        process.kill(landing=self.dice.random() < 0.5)
        self.living.remove(process)
        self._lose(process)
        faulty, self.faulty = self.faulty, 0.0
        self.metadata.fates.clear()
        fresh = self.world.start()
        self.living.append(fresh)
        self.faulty = faulty
        for other in self.world.processes:
            if other.is_killed and self.dice.random() < 0.5:
                self.begin(fresh, self.end(fresh, other))
        if self.dice.random() < 0.5:
            self.begin(fresh, self.sweep(fresh))

    def _lose(self, process: Process) -> None:
        """The topics of a process have no owner any more."""
        for topic in list(self.topics.values()):
            if topic.process is process:
                del self.topics[topic.key]
        self.busy.clear()

    # The end --------------------------------------------------------------------

    def check(self) -> None:
        """Kill all, and let two processes one after the other see what is left."""
        self.faulty = self.unsure = 0.0
        self.metadata.fates.clear()
        for process in self.living:
            process.kill(landing=True)
        while self.world.objects.land():
            pass
        self.clock.pump()
        for _ in range(2):
            reader = self.world.start()
            for number in self.world.do(reader.store.open_sessions()):
                self.world.do(reader.store.end_session(number))
            for key in TOPICS:
                found = self.world.do(reader.metadata.get(key))
                for segment in json.loads(found.value) if found is not None else ():
                    self._check_segment(reader, segment)
            self.world.do(reader.store.close())

    def _check_segment(self, reader: Process, segment: int) -> None:
        book = self.books[segment]
        end = self.world.do(reader.store.recover(segment))
        book.ended(end)
        found = self.world.do(self._entries(reader, segment))
        assert found == book.appended[: end.entries]
        assert end.size == sum(map(len, found))
        assert end.messages == len(found)


def play(history: History) -> None:
    for _ in range(STEPS):
        history.step()
    history.check()


@pytest.mark.parametrize("seed", seeds(100))
def test_what_was_acknowledged_is_there_once_and_in_order(seed: int) -> None:
    play(History(seed))


@pytest.mark.parametrize("seed", seeds(100))
def test_also_if_objects_are_late_lost_or_refused(seed: int) -> None:
    play(History(seed, faulty=0.08))


@pytest.mark.parametrize("seed", seeds(100))
def test_also_if_the_outcome_of_changes_is_unknown(seed: int) -> None:
    play(History(seed, metadata=0.1))


@pytest.mark.parametrize("seed", seeds(100))
def test_also_if_all_of_it_happens(seed: int) -> None:
    play(History(seed, faulty=0.1, metadata=0.1))
