"""The producer for applications: it routes messages to the partitions of a topic."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

from magnetar.base.closing import Closing
from magnetar.base.concurrency import gather_all
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.statistics import ProducerStatistics, total
from magnetar.base.values import V
from magnetar.clock import EVENT_LOOP, Clock
from magnetar.connections.topic_discovery import TopicDiscovery
from magnetar.encryption.sending import Encrypting
from magnetar.messages import MessageSchema, Outgoing
from magnetar.producing.interceptors import ProducerInterceptors
from magnetar.producing.partition_producer import PartitionProducer
from magnetar.producing.receipts import Receipt
from magnetar.producing.routing import Routing
from magnetar.producing.sendable import checked
from magnetar.schema.base import Schema
from magnetar.transactions.transaction import Transaction
from magnetar_proto.ids import MessageId


class Producer(Closing, Generic[V]):
    """Sends to a topic; created by `Client.producer`, closed by `close` or `async with`.

    Messages with the same key go to the same partition in order; others go to the partitions in
    turn, a batch at a time.  The option `routing` changes that.
    """

    def __init__(
        self,
        topic: str,
        partitions: list[PartitionProducer],
        routing: Routing | None = None,
        schema: Schema[V] | None = None,
        encrypting: Encrypting | None = None,
        interceptors: ProducerInterceptors | None = None,
        clock: Clock = EVENT_LOOP,
    ) -> None:
        self.topic = topic
        self.clock = clock
        self._schema = schema
        self._versions: dict[SchemaInfo, bytes] = {}
        """The versions of the schemas of single messages."""
        self._partitions = partitions
        self._routing = routing or Routing()
        self._encrypting = encrypting
        self._interceptors = interceptors or ProducerInterceptors(topic, ())
        self._intercepts = bool(self._interceptors)
        self._discovery: TopicDiscovery | None = None

    @property
    def name(self) -> str | None:
        """The name, chosen or assigned by the broker; that of the first partition."""
        return self._partitions[0].name

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id known to be stored; -1 if none is known."""
        return max(partition.last_sequence_id for partition in self._partitions)

    @property
    def is_connected(self) -> bool:
        """Whether all opened partitions are registered with a broker now."""
        return all(partition.is_connected for partition in self._partitions)

    @property
    def statistics(self) -> ProducerStatistics:
        """The counts since the producer was opened; each of `partitions` has its own."""
        return total(self.topic, [partition.statistics for partition in self._partitions])

    @property
    def partitions(self) -> Sequence[PartitionProducer]:
        """The producers of the partitions; one for a topic without partitions."""
        return self._partitions

    async def send(
        self,
        value: V,
        *,
        key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int = 0,
        deliver_after_s: float = 0,
        txn: Transaction | None = None,
        **more: Any,
    ) -> MessageId:
        """Send one message, and wait until the broker has stored it; waits for room as well.

        Shared subscriptions receive it `deliver_after_s` later.  `more` are further fields of
        Outgoing: ordering_key, deliver_at_ms, sequence_id, is_null, schema.  The id of a duplicate
        message is (-1, -1).  ValueError if the value does not fit the schema.  With `txn` consumers
        receive it once the transaction is committed.  If this is cancelled while it waits for the
        receipt, the message is sent, and is part of the transaction, nonetheless.
        """
        message = self._message(value, key, properties, event_time_ms, deliver_after_s, more)
        return await (await self._add(await self._ready(message), txn))

    async def send_message(self, message: Outgoing[V], txn: Transaction | None = None) -> MessageId:
        """Send a message with any attributes; otherwise the same as `send`."""
        return await (await self.enqueue(message, txn))

    def send_nowait(
        self,
        value: V,
        *,
        key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int = 0,
        deliver_after_s: float = 0,
        txn: Transaction | None = None,
        **more: Any,
    ) -> Receipt:
        """Send one message without waiting: await the receipt, or `flush`. QueueFull without room.

        The arguments are those of `send`; call `register` before for a schema of its own.
        """
        message = self._encoded(
            self._message(value, key, properties, event_time_ms, deliver_after_s, more)
        )
        return self._add_nowait(message, txn)

    def send_message_nowait(self, message: Outgoing[V], txn: Transaction | None = None) -> Receipt:
        """Send a message with any attributes; otherwise the same as `send_nowait`."""
        return self._add_nowait(self._encoded(message), txn)

    async def enqueue(self, message: Outgoing[V], txn: Transaction | None = None) -> Receipt:
        """Send one message as soon as there is room for it; await the receipt or `flush`."""
        return await self._add(await self._ready(message), txn)

    async def send_batch(
        self, messages: Iterable[V | Outgoing[V]], txn: Transaction | None = None
    ) -> list[MessageId]:
        """Send many messages in order, and wait until all are stored: the fastest way.

        Raises the first error; other messages may have been stored.
        """
        receipts = [await self._add(await self._ready(message), txn) for message in messages]
        for partition in self._partitions:
            partition.send_batch_now()
        for receipt in receipts:
            if not receipt.done():
                await receipt.settled()
            receipt.notice()
        return [receipt.id() for receipt in receipts]

    async def flush(self) -> None:
        """Wait until all messages are stored; raise the first error not seen by the application."""
        await gather_all(partition.flush() for partition in self._partitions)

    async def close(self) -> None:
        """Flush and deregister; raise the error of `flush`."""
        if self._discovery is not None:
            await self._discovery.close()
        try:
            await gather_all(partition.close() for partition in self._partitions)
        finally:
            if self._encrypting is not None:
                await self._encrypting.close()
            self._interceptors.close()

    async def register(self, schema: MessageSchema[Any]) -> bytes:
        """Register a schema of single messages, and return its version on the topic.

        IncompatibleSchema if the broker refuses the schema.
        """
        if schema.info not in self._versions:
            self._versions[schema.info] = await self._partitions[0].register(schema.info)
        return self._versions[schema.info]

    async def _ready(self, message: V | Outgoing[V]) -> bytes | Outgoing:
        """Return the message, encoded; its schema is registered first if necessary."""
        if isinstance(message, Outgoing) and message.schema is not None:
            await self.register(message.schema)
        return self._encoded(message)

    def _encoded(self, message: V | Outgoing[V]) -> bytes | Outgoing:
        if self._schema is None and not (isinstance(message, Outgoing) and message.schema):
            return checked(message)
        if not isinstance(message, Outgoing):
            message = Outgoing(message)
        if message.schema is None:
            assert self._schema is not None
            return checked(self._schema.encode_message(message))
        version = self._versions.get(message.schema.info)
        if version is None:
            raise ValueError("the message has a schema of its own: await `register` of it first")
        encoded = message.schema.encode_message(message)
        return checked(replace(encoded, schema_version=version))

    def _add_nowait(self, message: bytes | Outgoing, txn: Transaction | None) -> Receipt:
        if self._intercepts:
            intercepted = self._interceptors.before_send(message)
            with self._interceptors.sending(intercepted):
                receipt = self._route(intercepted).add(intercepted, txn)
            return self._told(intercepted, receipt)
        return self._route(message).add(message, txn)

    async def _add(self, message: bytes | Outgoing, txn: Transaction | None) -> Receipt:
        if self._intercepts:
            intercepted = self._interceptors.before_send(message)
            with self._interceptors.sending(intercepted):
                receipt = (await self._with_room(intercepted)).add(intercepted, txn)
            return self._told(intercepted, receipt)
        producer = self._route(message)
        if not producer.has_room():
            producer = await self._with_room(message)
        return producer.add(message, txn)

    async def _with_room(self, message: bytes | Outgoing) -> PartitionProducer:
        producer = self._route(message)
        while not producer.has_room():
            await producer.room()
            producer = self._route(message)
        return producer

    def _told(self, message: Outgoing, receipt: Receipt) -> Receipt:
        """Let the interceptors receive the outcome of the receipt; return the receipt."""

        def tell(receipt: Receipt) -> None:
            error = receipt.error
            stored = receipt.stored_id() if error is None else None
            self._interceptors.on_receipt(message, stored, error)

        receipt.on_done(tell)
        return receipt

    def _route(self, message: bytes | Outgoing) -> PartitionProducer:
        count = len(self._partitions)
        routing = self._routing
        if count == 1 and routing.router is None:
            return self._partitions[0]
        index = routing.of_message(message, count)
        if index is not None:
            return self._partitions[index]
        producer = self._partitions[routing.turn(count)]
        if producer.is_between_batches():
            producer = self._partitions[routing.next_turn(count)]
        return producer

    # -- for the client

    def attach_background(self, discovery: TopicDiscovery) -> None:
        """Attach the discovery that adds partitions; closing the producer closes it."""
        self._discovery = discovery

    def add(self, partitions: Iterable[PartitionProducer]) -> None:
        """Add the producers of new partitions, which follow the present ones."""
        self._partitions.extend(partitions)

    def _message(
        self,
        value: V,
        key: str | bytes | None,
        properties: Mapping[str, str] | None,
        event_time_ms: int,
        deliver_after_s: float,
        more: dict[str, Any],
    ) -> V | Outgoing[V]:
        if key is None and not (properties or event_time_ms or deliver_after_s or more):
            return value
        if deliver_after_s > 0:
            more["deliver_at_ms"] = self.clock.now_ms() + round(deliver_after_s * 1000)
        return Outgoing(
            value, key=key, properties=properties or {}, event_time_ms=event_time_ms, **more
        )
