"""Producers of a topic, and the runs of entries they send."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from magnetar_broker.connection import Connection
from magnetar_broker.errors import ProducerBusy, ProducerFenced
from magnetar_proto.names import TopicName
from magnetar_proto.sends import encode_receipts

MAX_BARRED = 1000


class PublishTarget(Protocol):
    """A topic, as its producers see it."""

    def publish(self, sends: "Sends") -> None:
        """Take a run of entries; it is answered when it is as safe as the topic promises."""

    def remove_producer(self, producer: "Producer") -> None:
        """A producer left."""

    def bar_producer(self, producer: "Producer", why: str) -> None:
        """When the producer comes back, refuse it once."""


class Sends:
    """A run of entries from one producer that arrived together and is answered together."""

    __slots__ = (
        "counts",
        "first_entry",
        "highest_ids",
        "ledger",
        "payloads",
        "producer",
        "sequence_ids",
        "size",
    )

    def __init__(self, producer: "Producer") -> None:
        self.producer = producer
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.counts: list[int] = []
        self.payloads: list[bytes] = []
        self.size = 0
        self.ledger = self.first_entry = -1

    def answer(self, receipts: bytes) -> None:
        """Send the receipts of the whole run; none when it failed or nobody waits for them."""
        producer = self.producer
        if receipts and not producer.closed:
            producer.connection.send(receipts)
        producer.connection.published(len(self.payloads), self.size)
        producer.answered(len(self.payloads))

    def receipts(self) -> bytes:
        """A receipt for every entry, at consecutive positions."""
        return encode_receipts(
            self.producer.id, self.sequence_ids, self.highest_ids, self.ledger, self.first_entry
        )


class Producer:
    """Checked and named; its sends go to the topic as they come."""

    def __init__(
        self, connection: Connection, producer_id: int, topic: PublishTarget, name: str, epoch: int
    ) -> None:
        self.connection = connection
        self.id = producer_id
        self.topic = topic
        self.name = name
        self.epoch = epoch
        self.closed = False
        self.pending = 0
        self._published = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """Calls to make when so many of the published entries are answered."""

    def publish(self, sends: Sends) -> None:
        """Hand a run to the topic, which answers it."""
        entries = len(sends.payloads)
        self.pending += entries
        self._published += entries
        self.topic.publish(sends)

    def answered(self, entries: int) -> None:
        """So many pending entries were answered or will never be."""
        self.pending -= entries
        while self._waiting and self._waiting[0][0] <= self._published - self.pending:
            _, call = self._waiting.popleft()
            call()

    def when_answered(self, call: Callable[[], None]) -> None:
        """Call as soon as everything published so far is answered, and before what comes later."""
        if self.pending or self._waiting:
            self._waiting.append((self._published, call))
        else:
            call()

    def bar(self, why: str) -> None:
        """It sent what can never be accepted: if its client reconnects, it is refused once.

        Clients in C++ (and Python) answer the refusal of a message by reconnecting and
        sending it again, for ever; a refused producer they fail, and its messages with it.
        """
        self.topic.bar_producer(self, why)

    def close(self) -> None:
        """Leave the topic; what is pending is still written, but no longer answered."""
        if not self.closed:
            self.closed = True
            self.topic.remove_producer(self)

    def disconnect(self) -> None:
        """The broker ends this producer; the client is told and will come back."""
        if not self.closed:
            self.close()
            self.connection.close_producer(self.id)


class Producers:
    """A topic's producers by name; a name is held by one connection at a time."""

    def __init__(self, topic: TopicName, limit: int) -> None:
        self._topic = topic
        self._limit = limit
        self._by_name: dict[str, Producer] = {}
        self._barred: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_name.values()))

    async def free(self, name: str, connection: Connection, producer_id: int, epoch: int) -> None:
        """Make the name free, or `ProducerBusy`: its holder lives and is not the same producer.

        `ProducerFenced` if the name was barred: clients give up a producer for nothing less.
        """
        if name in self._barred:
            raise ProducerFenced(self._barred.pop(name))
        while (holder := self._by_name.get(name)) is not None:
            same = holder.connection is connection and holder.id == producer_id
            if same and epoch > holder.epoch:
                holder.close()
                continue
            if holder.connection is connection or await holder.connection.is_alive():
                raise ProducerBusy(
                    f"a producer named {name} is connected to {self._topic} "
                    f"from {holder.connection.address}; use another name or close that one"
                )
            holder.disconnect()  # should it be there after all, it learns to come back
        self.check_room(name)

    def check_room(self, name: str) -> None:
        """`ProducerBusy` if there are too many already; a name that is held needs no room."""
        if 0 < self._limit <= len(self._by_name) and name not in self._by_name:
            raise ProducerBusy(
                f"{self._topic} has its {self._limit} producers (maxProducersPerTopic)"
            )

    def add(self, producer: Producer) -> None:
        """Add a producer whose name is free."""
        self._by_name[producer.name] = producer

    def remove(self, producer: Producer) -> None:
        """A producer left."""
        if self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]

    def bar(self, name: str, why: str) -> None:
        """Refuse the next producer of this name; only the latest names are remembered."""
        self._barred[name] = why
        if len(self._barred) > MAX_BARRED:
            del self._barred[next(iter(self._barred))]

    def disconnect(self) -> None:
        """Send all of them away."""
        for producer in self:
            producer.disconnect()
