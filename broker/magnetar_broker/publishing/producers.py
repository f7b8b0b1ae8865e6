"""A topic's producers: who is there by which name, who may come, and who comes next."""

from collections.abc import Iterator
from typing import Protocol

from magnetar_broker.connection import host_of
from magnetar_broker.errors import (
    BrokerError,
    NotReady,
    ProducerBusy,
    ProducerFenced,
    as_refusal,
)
from magnetar_broker.publishing.access import Access, Mode, Place
from magnetar_broker.publishing.producer import Producer
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.mutex import Mutex
from magnetar_storage.world import Clock, Tasks

MAX_BARRED = 1000


class Home(Protocol):
    """A topic, as the list of its producers sees it."""

    async def store_epoch(self, epoch: int) -> None:
        """Keep the topic's epoch; durable on return, if anything of the topic is."""

    async def welcome(self, producer: Producer) -> None:
        """A producer became ready; it is told so, and sends, when this returns."""


class Producers:
    """Those that are ready, by name: a name is held by one connection at a time."""

    def __init__(
        self,
        topic: TopicName,
        limit: int,
        clock: Clock,
        tasks: Tasks,
        epoch: int | None,
        home: Home,
    ) -> None:
        """`epoch` is the topic's, if it has one."""
        self.limit = limit
        """How many there may be; 0 is no limit.  Those that are there may stay."""
        self.limit_of_address = 0
        """The same for those from one address."""
        self._topic = topic
        self._tasks = tasks
        self._home = home
        self._access: Access[Producer] = Access(epoch, str(topic))
        self._by_name: dict[str, Producer] = {}
        self._barred: dict[str, str] = {}
        self._choosing = Mutex(clock)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        """Whether a producer of this name is ready."""
        return name in self._by_name

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
        if 0 < self.limit <= present and name not in self._by_name:
            raise ProducerBusy(
                f"{self._topic} has its {self.limit} producers: close one, or raise "
                "maxProducersPerTopic"
            )

    def _check_address(self, producer: Producer) -> None:
        """`ProducerBusy` if there are too many from the producer's address already."""
        if self.limit_of_address <= 0:
            return
        host = host_of(producer.connection.address)
        present = (one for one in (*self, *self.waiting) if one.name != producer.name)
        if self.limit_of_address <= sum(host_of(one.connection.address) == host for one in present):
            raise ProducerBusy(
                f"{self._topic} has its {self.limit_of_address} producers from {host}: close one, "
                "or raise maxSameAddressProducersPerTopic"
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
            self._check_address(producer)
            self._access.enter(producer, producer.claim)
            await self._begin(producer)
            return
        await self._evict_dead(producer)
        async with self._choosing.held():
            self.check_room(producer.name)
            self._check_address(producer)
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
                await self._home.store_epoch(epoch)
            _check_open(producer)
        except (BrokerError, StorageError):
            self._access.leave(producer)
            raise
        for other in self._access.take_over(producer, producer.claim):
            if other.ready:
                other.fence()
            else:
                why = f"{self._topic} was taken over by producer {producer.name}"
                other.turn(ProducerFenced(why))
        await self._begin(producer)

    async def _begin(self, producer: Producer) -> None:
        producer.ready = True
        producer.topic_epoch = self._access.epoch
        self._by_name[producer.name] = producer
        try:
            await self._home.welcome(producer)
            _check_open(producer)
        except (BrokerError, StorageError):
            producer.close()
            raise

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
        async with self._choosing.held():
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

    def refuse(self, refusal: BrokerError) -> None:
        """Send all of them away, who comes back is refused; who waits learns why."""
        for waiting in self.waiting:
            waiting.turn(refusal)
        for producer in self:
            producer.disconnect()

    def limit_messages(self, largest: int) -> None:
        """Entries of more bytes are refused from now on; 0 is no limit."""
        for producer in (*self, *self.waiting):
            producer.max_message_size = largest

    def require_encryption(self, required: bool) -> None:
        """Messages that are not encrypted are refused from now on, or no longer.

        Producers that do not encrypt are sent away.
        """
        for producer in self:
            producer.must_encrypt = required
            if required and not producer.encrypts:
                producer.disconnect()


def _check_open(producer: Producer) -> None:
    """`NotReady` if the producer was sent away, or left, while it was waited for something."""
    if producer.closed:
        raise NotReady(f"producer {producer.name} was closed while it was opened; try again")
