"""A broker over stores in memory, for tests of names: it can restart and lose its power."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fakes.connection import RecordingConnection
from fakes.logs import LogWorld
from fakes.processes import Processes
from fakes.publish_runs import publish
from fakes.world import start
from magnetar_broker.base.metadata_keys import TOPICS
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.standalone import standalone
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable

NAMESPACE = "public/default"


def named(local: str, namespace: str = NAMESPACE, domain: str = "persistent") -> TopicName:
    return TopicName.parse(f"{domain}://{namespace}/{local}")


class NamedWorld(LogWorld):
    """A started broker; `start` again is a restart on the same data, even after a loss of power.
    Later actions of the old broker have no effect then."""

    is_divided = False
    """Whether the directory of names is in another process than the topics."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = replace(Settings(), **settings)
        self.writes_left: int | None = None
        """The number of writes before the power fails; None: no limit."""
        self.writes = 0
        self.unsure_write: int | None = None
        """The number of a write that takes effect although it raises `Unavailable`."""
        for of, method in (
            (self.metadata, "put"), (self.metadata, "delete"), (self.store, "delete"),
            (self.store, "create"),
        ):  # fmt: skip
            setattr(of, method, self._counted(getattr(of, method)))
        self._broker_number = 0
        self.start()

    def _counted(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*asked: Any) -> Any:
            if self.writes_left is not None and self.writes >= self.writes_left:
                raise Unavailable("there is no power")
            self.writes += 1
            done = await method(*asked)
            if self.writes - 1 == self.unsure_write:
                raise Unavailable("it was written, but the answer was lost")
            return done

        return counted

    def start(self) -> None:
        self.writes_left, self.writes = None, 0
        self._make()
        self.do(self.broker.start())
        self.clock.pump()

    def _make(self) -> None:
        if self.is_divided:
            processes = Processes(self.settings, self.engine, self.clock)
            self.directory, self.broker = processes.directory, processes.workers[0].broker
            start(processes.requests.start())
        else:
            owner = SoleOwner("pulsar://here:6650")
            self.directory, self.broker = standalone(self.settings, self.engine, owner)

    def restart(self) -> None:
        self.do(self.broker.close())
        self.start()

    def topic(self, name: TopicName, create: bool = True) -> AnyTopic:
        return self.do(self.broker.topic(name, create))

    def part(self, name: TopicName, partitions: int) -> None:
        self.do(self.directory.creation.partitioned(name, Partitioned(partitions)))

    def producer(self, name: TopicName) -> tuple[RecordingConnection, Producer]:
        connection = RecordingConnection()
        request = ProducerRequest(1, self.broker.producer_name())
        return connection, self.do(self.topic(name).producers.add(connection, request))

    def publish(self, name: TopicName, *payloads: bytes) -> None:
        """Publish with a producer that is closed afterwards."""
        connection, producer = self.producer(name)
        sends = PublishRun(producer)
        sends.payloads, sends.counts = list(payloads), [1] * len(payloads)
        sends.sequence_ids = sends.highest_ids = list(range(len(payloads)))
        sends.size = sum(map(len, payloads))
        publish(sends)
        self.clock.pump()
        assert len(connection.receipts) == len(payloads)
        producer.close()

    def consumer(
        self, name: TopicName, subscription: str = "sub"
    ) -> tuple[RecordingConnection, Consumer]:
        connection = RecordingConnection()
        request = SubscribeRequest(subscription, 0, 1, "consumer", earliest=True)
        return connection, self.do(self.topic(name).subscriptions.subscribe(connection, request))

    def subscribe(self, name: TopicName, subscription: str = "sub") -> None:
        """Subscribe with a consumer that is closed afterwards."""
        _, consumer = self.consumer(name, subscription)
        consumer.close()

    def names(self, namespace: str = NAMESPACE) -> list[str]:
        """Return the local names of the existing topics."""
        found = self.do(self.directory.names(namespace, True, True))
        return [TopicName.parse(name).local for name in found]

    def stored(self, prefix: str = TOPICS) -> list[str]:
        """Return the keys in the metadata store."""
        return self.do(self.metadata.list(prefix, "", 1000))
