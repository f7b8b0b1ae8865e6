"""A broker of several processes, with a topic of which each has a partition."""

from collections.abc import Callable
from typing import Any

from fakes.connection import RecordingConnection
from fakes.logs import LogWorld
from fakes.named_worlds import named
from fakes.processes import Processes, Worker
from fakes.world import ManualPromise
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.schemas.types import Schema, SchemaType
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_proto.names import TopicName

WORKERS = 3
PARTED = named("parted")
PARTS = [PARTED.with_partition(index) for index in range(WORKERS)]
TEXT = Schema(SchemaType.STRING)
RECORD = Schema(SchemaType.AVRO, b'{"type": "record", "name": "R", "fields": []}')


class World(LogWorld):
    """Several workers that have started."""

    def __init__(self, workers: int = WORKERS, **settings: Any) -> None:
        super().__init__()
        self.processes = Processes(Settings(**settings), self.engine, self.clock, workers)
        self.processes.start()
        self.directory = self.processes.directory

    def worker(self, name: TopicName) -> Worker:
        return self.processes.of(name)

    def topic(self, name: TopicName, create: bool = True) -> AnyTopic:
        return self.do(self.worker(name).broker.topic(name, create))

    def part(self) -> None:
        """Create the partitioned topic, and have every partition loaded."""
        self.do(self.directory.creation.partitioned(PARTED, Partitioned(WORKERS)))
        for part in PARTS:
            self.topic(part)

    def consumer(self, name: TopicName) -> tuple[RecordingConnection, Consumer]:
        connection = RecordingConnection()
        request = SubscribeRequest("sub", 0, 1, "consumer", earliest=True)
        return connection, self.do(self.topic(name).subscriptions.subscribe(connection, request))

    def delayed(self, worker: Worker, method: str) -> ManualPromise:
        """Have a method of the worker's topic_host wait until the promise is settled."""
        gate, original = self.clock.promise(), getattr(worker.topic_host, method)

        async def late(*asked: Any) -> Any:
            await gate
            return await original(*asked)

        setattr(worker.topic_host, method, late)
        return gate

    def is_loaded(self, name: TopicName) -> bool:
        return self.directory.topic_host.is_loaded(name)

    def bundle_of(self, name: TopicName) -> str:
        return self.do(self.directory.bundles.stored.of(name.namespace_name)).of(name)

    def begin_move(
        self, name: TopicName, number: int | None = None
    ) -> tuple[ManualPromise, Worker]:
        """Move a topic's bundle, to the next worker unless another is given."""
        if number is None:
            number = (self.processes.number_of(name) + 1) % WORKERS
        bundle = self.bundle_of(name)
        moves, process = self.directory.bundles, f"worker-{number}"
        moving = self.begin(moves.move(name.namespace_name, bundle, process))
        return moving, self.processes.workers[number]

    def move(self, name: TopicName, number: int | None = None) -> Worker:
        moving, worker = self.begin_move(name, number)
        self.clock.pump()
        moving.result()
        return worker


def middle_of(bundle: str) -> Callable[[Bundles], list[int]]:
    low, high = (int(text, 16) for text in bundle.split("_"))
    return lambda bundles: [(low + high) // 2]
