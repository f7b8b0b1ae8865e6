"""A topic's producers: who is there by which name, who may come, and who comes next."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

from magnetar_broker.access import Access, Mode, Place
from magnetar_broker.errors import (
    BrokerError,
    NotReady,
    ProducerBusy,
    ProducerFenced,
    as_refusal,
)
from magnetar_broker.producer import Producer
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.world import Clock, Promise, Tasks

MAX_BARRED = 1000


class Producers:
    """Those that are ready, by name: a name is held by one connection at a time."""

    def __init__(
        self,
        topic: TopicName,
        limit: int,
        clock: Clock,
        tasks: Tasks,
        epoch: int | None,
        store_epoch: Callable[[int], Awaitable[None]],
    ) -> None:
        """`epoch` is the topic's, if it has one; `store_epoch` keeps another, durable on return."""
        self._topic = topic
        self._limit = limit
        self._clock = clock
        self._tasks = tasks
        self._store_epoch = store_epoch
        self._access: Access[Producer] = Access(epoch, str(topic))
        self._by_name: dict[str, Producer] = {}
        self._barred: dict[str, str] = {}
        self._choosing: Promise | None = None

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_name.values()))

    @property
    def waiting(self) -> list[Producer]:
        """Those that wait for the topic to be free, in their order."""
        return self._access.waiting

    @property
    def epoch(self) -> int | None:
        """The topic's epoch; None if it never had an exclusive producer."""
        return self._access.epoch

    # Coming -------------------------------------------------------------------------------

    def check_room(self, name: str) -> None:
        """`ProducerBusy` if there are too many already; a name that is held needs no room."""
        present = len(self._by_name) + len(self.waiting)
        if 0 < self._limit <= present and name not in self._by_name:
            raise ProducerBusy(
                f"{self._topic} has its {self._limit} producers (maxProducersPerTopic)"
            )

    async def enter(self, producer: Producer) -> None:
        """Let a producer in, or have it wait: it is `ready` or not on return.

        `ProducerBusy` or `ProducerFenced` if it may not come.  `ProducerFenced` also if the name
        was barred: clients give up a producer for nothing less.
        """
        if producer.name in self._barred:
            raise ProducerFenced(self._barred.pop(producer.name))
        if producer.claim.mode is Mode.SHARED:
            self._access.check_shared()
            await self._free(producer)
            self.check_room(producer.name)
            self._access.enter(producer, producer.claim)
            self._begin(producer)
            return
        await self._evict_dead(producer)
        async with self._alone():
            self.check_room(producer.name)
            if self._access.enter(producer, producer.claim) is Place.HEIR:
                await self._inherit(producer)

    async def _free(self, producer: Producer) -> None:
        """Make the name free, or `ProducerBusy`: its holder lives and is not the same producer."""
        name, connection = producer.name, producer.connection
        while (holder := self._by_name.get(name)) is not None:
            same = holder.connection is connection and holder.id == producer.id
            if same and producer.epoch > holder.epoch:
                holder.close()
                continue
            if holder.connection is connection or await holder.connection.is_alive():
                raise ProducerBusy(
                    f"a producer named {name} is connected to {self._topic} "
                    f"from {holder.connection.address}; use another name or close that one"
                )
            holder.disconnect()  # should it be there after all, it learns to come back

    async def _evict_dead(self, producer: Producer) -> None:
        """If its own earlier connection is still listed, and dead, that is in nobody's way."""
        holder = self._by_name.get(producer.name)
        if (
            holder is not None
            and holder.connection is not producer.connection
            and producer.claim.mode is not Mode.FENCING
            and not await holder.connection.is_alive()
        ):
            holder.disconnect()

    async def _inherit(self, producer: Producer) -> None:
        """The heir becomes the only one, once its epoch is durable."""
        try:
            epoch = self._access.epoch_for(producer.claim)
            if epoch != self._access.epoch:
                await self._store_epoch(epoch)
            if producer.closed:
                raise NotReady(f"producer {producer.name} was closed while it was opened")
        except (BrokerError, StorageError):
            self._access.leave(producer)
            raise
        for other in self._access.take_over(producer, producer.claim):
            if other.ready:
                other.fence()
            else:
                why = f"{self._topic} was taken over by producer {producer.name}"
                other.turn(ProducerFenced(why))
        self._begin(producer)

    def _begin(self, producer: Producer) -> None:
        producer.ready = True
        producer.topic_epoch = self._access.epoch
        self._by_name[producer.name] = producer

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let nobody else become an heir meanwhile."""
        while self._choosing is not None:
            await self._choosing
        self._choosing = choosing = self._clock.promise()
        try:
            yield
        finally:
            self._choosing = None
            choosing.set_result(None)

    # Going --------------------------------------------------------------------------------

    def remove(self, producer: Producer) -> None:
        """A producer left, or waits no more; the next one that waits may have its turn."""
        if self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]
        self._access.leave(producer)
        if not self._by_name and self.waiting:
            self._tasks.spawn(self._promote())

    async def _promote(self) -> None:
        """Give the topic to the first one that waits, if it is free."""
        async with self._alone():
            while (producer := self._access.next_heir()) is not None:
                try:
                    await self._inherit(producer)
                except (BrokerError, StorageError) as error:
                    producer.turn(as_refusal(error) or NotReady(str(error)))
                else:
                    producer.turn(None)

    def bar(self, name: str, why: str) -> None:
        """Refuse the next producer of this name; only the latest names are remembered."""
        self._barred[name] = why
        if len(self._barred) > MAX_BARRED:
            del self._barred[next(iter(self._barred))]

    def disconnect(self) -> None:
        """Send all of them away; who waits is asked to try again."""
        for waiting in self.waiting:
            waiting.turn(NotReady(f"{self._topic} is being closed on this broker; try again"))
        for producer in self:
            producer.disconnect()

    def require_encryption(self, required: bool) -> None:
        """Messages that are not encrypted are refused from now on, or no longer.

        Producers that do not encrypt are sent away.
        """
        for producer in self:
            producer.must_encrypt = required
            if required and not producer.encrypts:
                producer.disconnect()
