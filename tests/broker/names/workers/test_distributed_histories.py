"""Random histories of a broker of several processes: no combination of events causes an error.

Topics are opened and deleted, bundles move and are split, policies change and messages are
published while links are slow, and workers die and come back.  Each seed is one history; the seed
is part of the test's name.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest

from effort import seeds
from fakes.connection import RecordingConnection
from fakes.links import Joined
from fakes.logs import LogWorld
from fakes.named_worlds import NAMESPACE, named
from fakes.processes import Processes, Worker
from fakes.publish_runs import publish
from fakes.world import ManualClock, ManualPromise, start
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.metadata_keys import STARTS
from magnetar_broker.config import Settings
from magnetar_broker.ipc.metadata_server import MetadataServer
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.ipc.successive_metadata import SuccessiveMetadata
from magnetar_broker.policies.table import MAX_PRODUCERS
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import SegmentId, SegmentOrigin, SegmentStore, SegmentWriter
from magnetar_storage.log.roll_limits import RollLimits

WORKERS = 3
NAMES = [named(f"topic-{number}") for number in range(5)]
ACTIONS = 80
MOST_BUNDLES = 24
MOST_TURNS = 40
"""The maximum of loop turns between two actions."""
SETTLED_SECONDS = 120.0
KEEPING = Settings(
    broker_delete_inactive_topics_enabled=False,
    default_retention_size_in_mb=-1,
    default_retention_time_in_minutes=-1,
)


class Directory:
    """The store as a worker sees it: `segments` lists only its own, which its start cleans up."""

    def __init__(self, store: SegmentStore, own: set[SegmentId]) -> None:
        self._store = store
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> SegmentWriter:
        writer = await self._store.create(origin, beyond)
        self._own.add(writer.segment)
        return writer

    async def segments(self) -> AsyncIterator[SegmentId]:
        async for segment in self._store.segments():
            if segment in self._own:
                yield segment


class LinkedProcesses(Processes):
    """Workers that read metadata through the controller only, as in production."""

    world: "History"

    def make_worker(self, number: int) -> Worker:
        store = cast(SegmentStore, Directory(self.world.store, self.world.created[number]))
        links = SuccessiveLinks("the controller", self.clock)
        metadata = SuccessiveMetadata(links, self.clock)
        engine = self.world.engine_on(store, metadata, RollLimits(max_entries=3), 1 << 20)
        return LinkedWorker(number, self.settings, engine, self.urls, links)

    def joined(self) -> Joined:
        joined = Joined(self.clock, step=100)

        def may_write(key: str) -> bool:
            return key == STARTS or topic_host.may_write(joined.left, name_of(key))

        topic_host = self.topic_host
        MetadataServer(joined.left, self.world.metadata, may_write, self.clock, self.engine.tasks)
        return joined


class LinkedWorker(Worker):
    """A worker whose metadata is at the controller."""

    def follow(self, joined: Joined) -> None:
        metadata = self.broker.engine.metadata
        assert isinstance(metadata, SuccessiveMetadata)
        metadata.follow(joined.right)
        super().follow(joined)


def name_of(key: str) -> TopicName:
    return next(name for name in NAMES if key.endswith(f"/{name.local}"))


class History(LogWorld):
    """A history: `live`, then `check`."""

    controllers = 0
    """The probability, against other actions, that the controller is replaced."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = Random(seed)
        self.created: list[set[SegmentId]] = [set() for _ in range(WORKERS)]
        LinkedProcesses.world = self
        self.processes = LinkedProcesses(KEEPING, self.engine, self.clock, WORKERS)
        self.processes.start()
        self.directory = self.processes.directory
        self.processes.number_of(NAMES[0])  # so that bundles have owners
        self.opening: list[ManualPromise] = []
        self.deleting: dict[TopicName, ManualPromise] = {}
        self.setting: tuple[int, ManualPromise] | None = None
        self.limit = 0
        """The policy that was confirmed last."""
        self.dead: set[int] = set()
        self.starting: dict[int, ManualPromise] = {}
        self.moving: list[ManualPromise] = []
        self.beginning: set[int] = set()
        """The workers that have started with the present controller."""
        self.begun = settled(self.clock)
        """The start of the present controller."""
        self.doomed: set[TopicName] = set()
        """The topics whose deletion a former controller has begun."""
        self.former: list[ManualPromise] = []
        """The requests to former controllers, which may fail."""
        self.sent = 0
        self.kept: dict[TopicName, list[tuple[RecordingConnection, bytes]]] = {
            name: [] for name in NAMES
        }
        """The messages since the last deletion that may have started; confirmed ones must stay."""

    def live(self) -> None:
        actions = (
            self.use, self.use, self.use_elsewhere, self.delete, self.set, self.publish,
            self.publish, self.publish, self.slow_down, self.end, self.come_back,
            self.move, self.move, self.split, *[self.replace_controller] * self.controllers,
        )  # fmt: skip
        for _ in range(ACTIONS):
            self.dice.choice(actions)()
            for _ in range(self.dice.randrange(MOST_TURNS)):
                self.clock.step()
            self.look()

    def owner(self, name: TopicName) -> int:
        tables = self.processes.owners, *(worker.owners for worker in self.processes.workers)
        # A controller that has just begun does not know any owner yet.
        return next((n for table in tables if (n := table.worker_of(name)) is not None), 0)

    # Actions -----------------------------------------------------------------------------

    def worker(self, name: TopicName) -> Worker | None:
        """Return the owner, if it is alive."""
        number = self.owner(name)
        return None if number in self.dead else self.processes.workers[number]

    def use(self) -> None:
        name = self.dice.choice(NAMES)
        worker = self.worker(name)
        if worker is not None:
            self.opening.append(start(worker.broker.topic(name, True)))

    def use_elsewhere(self) -> None:
        name = self.dice.choice(NAMES)
        for worker in self.processes.workers:
            if worker.number != self.owner(name):
                self.opening.append(start(worker.broker.topic(name, True)))

    def delete(self) -> None:
        name = self.dice.choice(NAMES)
        if name not in self.deleting and self.directory.ready:
            self.kept[name].clear()
            self.deleting[name] = start(self.directory.deletion.topics.delete(name, True))

    def set(self) -> None:
        if self.setting is None and self.directory.ready:
            limit = self.dice.randrange(1, 1000)
            setting = self.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: limit})
            self.setting = limit, start(setting)

    def publish(self) -> None:
        name = self.dice.choice(NAMES)
        worker = self.worker(name)
        topic = None if worker is None else worker.topic_host.topics.get(name)
        if isinstance(topic, Topic):
            self.opening.append(start(self._publish(name, topic)))

    async def _publish(self, name: TopicName, topic: Topic) -> None:
        connection = RecordingConnection()
        producer = await topic.producers.add(connection, ProducerRequest(1, f"p{self.sent}"))
        sends = PublishRun(producer)
        self.sent += 1
        payload = b"%d" % self.sent
        sends.payloads, sends.counts, sends.size = [payload], [1], len(payload)
        sends.sequence_ids = sends.highest_ids = [0]
        publish(sends)
        if name not in self.deleting and name not in self.doomed:
            self.kept[name].append((connection, payload))

    def move(self) -> None:
        """Move a bundle to another worker; it may be moving already."""
        placed = self.processes.owners.of(NAMESPACE)
        if placed is None or not self.directory.ready:
            return  # the controller has just begun
        bundle = placed.bundles.of(self.dice.choice(NAMES))
        process = f"worker-{self.dice.randrange(WORKERS)}"
        self.moving.append(start(self._move(bundle, process)))

    async def _move(self, bundle: str, process: str) -> None:
        with suppress(ValueError):  # it was split meanwhile
            await self.directory.bundles.move(NAMESPACE, bundle, process)

    def split(self) -> None:
        placed = self.processes.owners.of(NAMESPACE)
        if placed is None or not self.directory.ready:
            return  # the controller has just begun
        if len(placed.bundles) < MOST_BUNDLES:
            bundle = placed.bundles.of(self.dice.choice(NAMES))
            self.moving.append(start(self._split(bundle)))

    async def _split(self, bundle: str) -> None:
        low, high = (int(text, 16) for text in bundle.split("_"))
        with suppress(ValueError):  # it was split meanwhile
            await self.directory.bundles.split(NAMESPACE, bundle, lambda _: [(low + high) // 2])

    def slow_down(self) -> None:
        """Hold a link, or release it."""
        joined = self.dice.choice(self.processes.workers).joined
        stream = self.dice.choice((joined.to_left, joined.to_right))
        stream.held = not stream.held
        stream.carry()

    def end(self) -> None:
        """Kill a worker, with everything that it was about to do."""
        number = self.dice.randrange(WORKERS)
        if number not in self.dead and self.dice.random() < 0.5:
            self.dead.add(number)
            self.processes.workers[number].joined.cut()

    def come_back(self) -> None:
        for number in sorted(self.dead):
            self.dead.remove(number)
            worker = self.processes.workers[number] = self.processes.new_worker(number)
            self.starting[number] = start(worker.broker.start())
            self.beginning.add(number)

    def replace_controller(self) -> None:
        """Kill the controller, and start another one at once.

        The former one goes on as far as it can; what it is asked may fail.  A worker that has not
        started yet ends with it.
        """
        self.processes.directory.jobs.stop()
        for worker in self.processes.workers:
            if worker.number not in self.dead:
                worker.joined.cut()
                if worker.number in self.beginning and not self.starting[worker.number].done():
                    self.dead.add(worker.number)
        self.begun, *joining = self.processes.begin_controller(self.dead)
        alive = [number for number in range(WORKERS) if number not in self.dead]
        self.starting.update(zip(alive, joining, strict=True))
        self.beginning.clear()
        self.directory = self.processes.directory
        self.doomed.update(self.deleting)
        self.former += [*self.deleting.values(), *([self.setting[1]] if self.setting else [])]
        self.deleting, self.setting = {}, None

    def _end_dooms(self) -> None:
        """Expect messages of topics again whose deletion a former controller has begun."""
        for name in list(self.doomed):
            if self.begun.done() and str(name) not in self.directory.deletion.pending:
                self.doomed.remove(name)
                self.kept[name].clear()

    # Invariants ---------------------------------------------------------------------------

    def look(self) -> None:
        """Check what must be true at any moment."""
        alive = [one for one in self.processes.workers if one.number not in self.dead]
        loaded = [topic.name for worker in alive for topic in worker.topic_host.topics]
        assert len(loaded) == len(set(loaded)), "a topic is loaded by two workers"
        self._see_answers()
        self._end_dooms()
        if self.setting is not None and self.setting[1].done():
            limit, setting = self.setting
            self.setting = None
            setting.result()
            for worker in self._started():
                for name in NAMES:
                    assert worker.policies.value(MAX_PRODUCERS, name) == limit
                for topic in worker.topic_host.topics:
                    assert topic.limits.max_producers == limit, topic.name

    def _started(self) -> list[Worker]:
        """Return the workers that serve clients."""
        return [
            worker
            for number, worker in enumerate(self.processes.workers)
            if number not in self.dead
            and (number not in self.starting or self.starting[number].done())
        ]

    def _see_answers(self) -> None:
        for name, deletion in list(self.deleting.items()):
            if deletion.done():
                del self.deleting[name]
                accept(deletion)

    def check(self) -> None:
        """Let all links carry and restart workers; then all is answered, and no message is lost."""
        for worker in self.processes.workers:
            for stream in (worker.joined.to_left, worker.joined.to_right):
                stream.held = False
                stream.carry()
        self.come_back()
        self.clock.pump()
        self.clock.advance(SETTLED_SECONDS)
        self.look()
        assert not self.deleting and self.setting is None
        for asked in (*self.opening, *self.moving, *self.former):
            accept(asked)
        self.begun.result()
        assert not self.doomed
        assert len(self._started()) == WORKERS
        limit = self.directory.policies.value(MAX_PRODUCERS, NAMES[0])
        for worker in self.processes.workers:
            assert worker.policies.value(MAX_PRODUCERS, NAMES[0]) == limit
            for topic in worker.topic_host.topics:
                assert topic.limits.max_producers == limit, topic.name
        for name in NAMES:
            worker = self.processes.workers[self.owner(name)]
            loaded = self.directory.topic_host.is_loaded(name)
            assert loaded == (name in worker.topic_host.topics)
            topic = self.do(worker.broker.topic(name, True))
            assert isinstance(topic, Topic)
            wanted = [payload for connection, payload in self.kept[name] if connection.receipts]
            stored = self.read_all(topic.log)
            assert [one for one in stored if one in wanted] == wanted, name


def settled(clock: ManualClock) -> ManualPromise:
    promise = clock.promise()
    promise.set_result(None)
    return promise


def accept(promise: ManualPromise) -> Any:
    """Return an outcome that a client may get, or raise any other."""
    try:
        return promise.result()
    except (BrokerError, StorageError) as error:
        return error


@pytest.mark.parametrize("seed", seeds(300))
def test_nothing_contradicts(seed: int) -> None:
    history = History(seed)
    history.live()
    history.check()


class Changing(History):
    """A history in which controllers end, too."""

    controllers = 1


@pytest.mark.parametrize("seed", seeds(300))
def test_nothing_contradicts_while_controllers_are_replaced(seed: int) -> None:
    history = Changing(seed)
    history.live()
    history.check()
