"""A topic's producers by name, with the checks of opening them, and the waiting ones."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from magnetar_broker.base.connection import Connection, host_of
from magnetar_broker.base.errors import (
    BrokerError,
    NotReady,
    ProducerBusy,
    ProducerFenced,
    as_refusal,
    being_unloaded,
)
from magnetar_broker.base.networks import network_of
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.producers.access import Access, AccessState, Mode
from magnetar_broker.producers.appender import RunSink
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock, Tasks
from magnetar_storage.runtime.mutex import Mutex

MAX_BARRED = 1000


class ProducerAdmission(Protocol):
    """The checks of a topic for producers, and its epoch."""

    @property
    def epoch(self) -> int | None:
        """The epoch of the latest exclusive producer; None if there never was one."""

    async def store_epoch(self, epoch: int) -> None:
        """Keep the topic's epoch; durable on return, if anything of the topic is."""

    async def prepare(self) -> None:
        """Prepare for one more producer, or raise the refusal."""

    async def initialize(self, producer: Producer) -> None:
        """Pass the topic's state to a producer that becomes ready, or raise the refusal."""


class Producers:
    """The producers that are ready, by name: one connection at a time holds a name."""

    def __init__(
        self,
        topic: TopicName,
        clock: Clock,
        tasks: Tasks,
        admission: ProducerAdmission,
        sink: RunSink,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`sink` takes what producers publish; `changed` is called when one is added or leaves."""
        self.limit = 0
        """The most producers; 0 means no limit.  Lowering it closes none of those present."""
        self.limit_of_address = 0
        """The most producers from one address; 0 means no limit."""
        self.rules = PublishRules()
        self.sink = sink
        self.topic = topic
        self._clock = clock
        self._tasks = tasks
        self._admission = admission
        self._changed = changed
        self._access: Access[Producer] = Access(admission.epoch, str(topic))
        self._by_name: dict[str, Producer] = {}
        self._barred: dict[str, str] = {}
        self._choosing = Mutex(clock)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        """Return whether a producer of this name is ready."""
        return name in self._by_name

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_name.values()))

    @property
    def waiting(self) -> list[Producer]:
        """The producers that wait until the topic is free, in the order of their requests."""
        return self._access.waiting

    @property
    def epoch(self) -> int | None:
        """The topic's epoch; None if it never had an exclusive producer."""
        return self._access.epoch

    # Opening ------------------------------------------------------------------------------

    def check_room(self, name: str) -> None:
        """Raise `ProducerBusy` at the limit; a name that is present replaces its producer."""
        # Those that wait count: they will be producers without asking again.
        present = len(self._by_name) + len(self.waiting)
        if 0 < self.limit <= present and name not in self._by_name:
            raise ProducerBusy(
                f"{self.topic} has {present} producers and the limit is {self.limit}: close one, "
                "or raise maxProducersPerTopic"
            )

    def _check_address(self, producer: Producer) -> None:
        """Raise `ProducerBusy` if the limit of producers from one address is reached."""
        if self.limit_of_address <= 0:
            return
        host = network_of(host_of(producer.connection.address))
        # Without its predecessor, whose place it takes.
        present = (one for one in (*self, *self.waiting) if one.name != producer.name)
        hosts = [network_of(host_of(one.connection.address)) for one in present]
        if hosts.count(host) >= self.limit_of_address:
            raise ProducerBusy(
                f"{self.topic} has {self.limit_of_address} producers from {host}, the limit of an "
                "address: close one, or raise maxSameAddressProducersPerTopic"
            )

    async def add(
        self, connection: Connection, request: ProducerRequest, check: Check = always
    ) -> Producer:
        """Open a producer; it is `ready` on return, or waits for its turn (`Producer.on_turn`).

        Raises `ProducerBusy` if the name or the topic is taken, or the limit reached;
        `ProducerFenced` if an exclusive producer has the topic, or the name is barred; and refusals
        of the topic itself, such as `TopicTerminated`.
        """
        await self._admission.prepare()
        producer = Producer(connection, self, request, self._clock.now_ms())
        await self._enter(producer, check)
        return producer

    async def _enter(self, producer: Producer, check: Check) -> None:
        if producer.name in self._barred:
            # Fence it, because no milder refusal makes a client fail (`refuse_next`).
            raise ProducerFenced(self._barred.pop(producer.name))
        if producer.claim.mode is Mode.SHARED:
            # Before the name is freed: a producer that is refused must not end another one.
            self._access.check_shared()
            await self._free(producer)
            self.check_room(producer.name)
            self._check_address(producer)
            self._access.enter(producer, producer.claim)
            await self._begin(producer)
            return
        await self._evict_dead(producer)
        async with self._choosing.held():
            check()  # promise: no topic is taken for a producer that has left
            self.check_room(producer.name)
            self._check_address(producer)
            if self._access.enter(producer, producer.claim) is AccessState.SUCCESSOR:
                await self._succeed(producer)

    async def _free(self, producer: Producer) -> None:
        """Free the producer's name, or raise `ProducerBusy`: a living client holds it.

        A reconnecting client is often faster than the broker notices the end of its old
        connection: a holder that does not answer a PING gives the name up.
        """
        name, connection = producer.name, producer.connection
        while (holder := self._by_name.get(name)) is not None:
            same = holder.connection is connection and holder.id == producer.id
            # The client has opened the producer again over the same connection: the old one is
            # gone.
            if same and producer.epoch > holder.epoch:
                holder.close()
                continue
            if holder.connection is connection or await holder.connection.is_alive():
                raise ProducerBusy(
                    f"a producer named {name} is connected to {self.topic} "
                    f"from {holder.connection.address}: use another name or close that producer"
                )
            # It did not answer a PING.  If its client is alive after all, it reconnects.
            holder.disconnect()

    async def _evict_dead(self, producer: Producer) -> None:
        """Close the producer's predecessor of the same name if its connection is dead."""
        holder = self._by_name.get(producer.name)
        if (
            holder is not None
            and holder.connection is not producer.connection
            and producer.claim.mode is not Mode.FENCING
            and not await holder.connection.is_alive()
        ):
            holder.disconnect()

    async def _succeed(self, producer: Producer) -> None:
        """Make a successor the only producer, once its epoch is durable."""
        try:
            epoch = self._access.epoch_for(producer.claim)
            if epoch != self._access.epoch:
                await self._admission.store_epoch(epoch)  # promise: the epoch of a topic is stored
            _check_open(producer)
        except (BrokerError, StorageError):
            self._access.leave(producer)
            raise
        for other in self._access.take_over(producer, producer.claim):
            # One that waits gets the refusal as the answer to its request.
            if other.ready:
                other.fence()
            else:
                why = f"{self.topic} was taken over by producer {producer.name}"
                other.turn(ProducerFenced(why))
        await self._begin(producer)

    async def _begin(self, producer: Producer) -> None:
        producer.ready = producer.takes_runs = True
        producer.topic_epoch = self._access.epoch
        # Now and not earlier: `apply_rules` does not reach a producer that is still being opened.
        # promise: rules that change while a producer is opened reach it
        producer.rules = self.rules
        self._by_name[producer.name] = producer
        self._changed()
        try:
            await self._admission.initialize(producer)
            _check_open(producer)
        except (BrokerError, StorageError):
            producer.close()
            raise

    # Closing ------------------------------------------------------------------------------

    def remove(self, producer: Producer) -> None:
        """Remove a producer that left or waits no more; the first waiting one may become ready."""
        if self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]
            self._changed()
        self._access.leave(producer)
        # In a task of its own: the epoch of the next one must be stored first.
        if not self._by_name and self.waiting:
            self._tasks.spawn(self._promote())

    async def _promote(self) -> None:
        """Make the first producer that waits ready, if the topic is free."""
        async with self._choosing.held():
            while (producer := self._access.next_successor()) is not None:
                try:
                    await self._succeed(producer)
                except (BrokerError, StorageError) as error:
                    producer.turn(as_refusal(error) or NotReady(str(error)))
                else:
                    producer.turn(None)

    def refuse_next(self, name: str, why: str) -> None:
        """Refuse the next producer of this name once; only the latest names are kept."""
        self._barred[name] = why
        if len(self._barred) > MAX_BARRED:
            del self._barred[next(iter(self._barred))]

    async def finish(self) -> None:
        """Ignore what producers send from now on; on return everything before is answered.

        Clients send again what was ignored, after `disconnect`, and only that.  None is opened
        any more, and those that wait are asked to retry.
        """
        self._refuse_waiting(self._closing())
        answered = []
        for producer in self:
            # promise: a topic that is being closed stores nothing out of order
            producer.takes_runs = False
            answered.append(self._clock.promise())
            producer.when_answered(partial(answered[-1].set_result, None))
        for one in answered:  # promise: a close waits for the answers to what was published
            await one

    def _closing(self) -> BrokerError:
        return being_unloaded(self.topic)

    def _refuse_waiting(self, refusal: BrokerError) -> None:
        for waiting in self.waiting:
            waiting.turn(refusal)

    def disconnect(self, new_owner: str = "") -> None:
        """Close all producers; their clients reconnect, and waiting ones are asked to retry."""
        self.refuse(self._closing(), new_owner)

    def refuse(self, refusal: BrokerError, new_owner: str = "") -> None:
        """Close all producers; waiting ones get `refusal`, as the others will on reconnecting."""
        self._refuse_waiting(refusal)
        for producer in self:
            producer.disconnect(new_owner)

    def apply_rules(self, rules: PublishRules) -> None:
        """Apply these rules from the next message on.

        Where encryption is required, producers that do not encrypt are closed.
        """
        self.rules = rules
        for producer in self:
            producer.rules = rules
            if rules.must_encrypt and not producer.encrypts:
                producer.disconnect()


def _check_open(producer: Producer) -> None:
    """Raise `NotReady` if the producer was closed while it was being opened."""
    if producer.closed:
        raise NotReady(f"producer {producer.name} was closed while it was being opened; try again")
