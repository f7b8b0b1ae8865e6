"""Checks whether a persistent topic accepts a producer, and returns its last id and the epoch."""

from collections.abc import Callable

from magnetar_broker.base.errors import NotReady, TopicTerminated
from magnetar_broker.base.topic_properties import EPOCH
from magnetar_broker.producers.appender import Appender
from magnetar_broker.producers.deduplication import Deduplication
from magnetar_broker.producers.producer import Producer
from magnetar_proto.names import TopicName
from magnetar_storage.log.log import Log


class Admission:
    """The `ProducerAdmission` of a topic with a log."""

    def __init__(
        self,
        topic: TopicName,
        log: Log,
        deduplication: Deduplication,
        appender: Appender,
        check_open: Callable[[], None],
    ) -> None:
        """`check_open` raises `NotReady` once the topic is being closed."""
        self._topic = topic
        self._log = log
        self._deduplication = deduplication
        self._appender = appender
        self._check_open = check_open

    @property
    def epoch(self) -> int | None:
        epoch = self._log.record.properties.get(EPOCH)
        return None if epoch is None else int(epoch)

    async def store_epoch(self, epoch: int) -> None:
        await self._log.stored_record.change_properties(lambda old: {**old, EPOCH: str(epoch)})

    async def prepare(self) -> None:
        self._check()
        if self._log.engine.store.is_failing:
            # A full disk would show only when it publishes: fail the producer instead.
            await self._log.rollover.start_writing()

    async def initialize(self, producer: Producer) -> None:
        if self._deduplication.on:
            # An earlier connection of this producer may have sent runs that still wait.
            await self._appender.begun()
        # Only once it is durable: the client deletes what it keeps of earlier messages.
        producer.last_sequence_id = await self._deduplication.last_sequence_id(producer.name)
        self._check()

    def _check(self) -> None:
        """Raise `TopicTerminated` if publishing is over, `NotReady` while that is uncertain."""
        self._check_open()
        self._log.engine.space.check()  # promise: a disk without room takes no producers
        if self._log.terminated:
            raise TopicTerminated(
                f"{self._topic} is terminated: it takes no more messages; those that it has can "
                "be read"
            )
        if self._appender.ended:
            raise NotReady(f"{self._topic} is being terminated; try again")
