"""The application's producer: routes messages to the partitions of a topic."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from magnetar.closing import Closing
from magnetar.concurrency import gather_all
from magnetar.messages import Outgoing
from magnetar.partition_producer import PartitionProducer, Receipt
from magnetar.routing import Routing
from magnetar.topic_discovery import TopicDiscovery
from magnetar_proto.ids import MessageId


class Producer(Closing):
    """Sends to a topic; created by `Client.producer`, closed by `close` or `async with`.

    Messages of one key go to one partition in order; messages without key take turns, a batch
    at a time.  The option `routing` changes that.
    """

    def __init__(
        self, topic: str, partitions: list[PartitionProducer], routing: Routing | None = None
    ) -> None:
        self.topic = topic
        self._partitions = partitions
        self._routing = routing or Routing()
        self._discovery: TopicDiscovery | None = None

    @property
    def name(self) -> str | None:
        """As chosen, or as the broker has named it; that of the first partition."""
        return self._partitions[0].name

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id that the broker has stored, as far as is known; -1: none."""
        return max(partition.last_sequence_id for partition in self._partitions)

    @property
    def is_connected(self) -> bool:
        """Whether all that were opened are registered with a broker at the moment."""
        return all(partition.is_connected for partition in self._partitions)

    @property
    def partitions(self) -> Sequence[PartitionProducer]:
        """One for each partition: of a topic without partitions, one."""
        return self._partitions

    async def send(
        self,
        value: bytes,
        *,
        key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int = 0,
        deliver_after_s: float = 0,
        **more: Any,
    ) -> MessageId:
        """Send one message and wait until the broker has stored it; waits for room as well.

        Shared subscriptions receive it `deliver_after_s` later.  `more` are further fields of
        Outgoing: ordering_key, deliver_at_ms, sequence_id, is_null.  The id of a message that was
        a duplicate is (-1, -1).
        """
        message = _message(value, key, properties, event_time_ms, deliver_after_s, more)
        return await (await self._add(message))

    async def send_message(self, message: Outgoing) -> MessageId:
        """As `send`, for a message that is more than a value with a key."""
        return await (await self._add(message))

    def send_nowait(
        self,
        value: bytes,
        *,
        key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int = 0,
        deliver_after_s: float = 0,
        **more: Any,
    ) -> Receipt:
        """Send one message; await the receipt or `flush`. QueueFull when there is no room.

        The arguments are those of `send`.
        """
        message = _message(value, key, properties, event_time_ms, deliver_after_s, more)
        return self._route(message).add(message)

    async def send_batch(self, messages: Iterable[bytes | Outgoing]) -> list[MessageId]:
        """Send many in order and wait until all are stored: the fast path.

        Raises the first failure; the others may have been stored.
        """
        receipts = [await self._add(message) for message in messages]
        for partition in self._partitions:
            partition.send_batch_now()
        for receipt in receipts:
            if not receipt.done():
                await receipt.settled()
            receipt.notice()
        return [receipt.id() for receipt in receipts]

    async def flush(self) -> None:
        """Wait until all is stored; raises the first failure that the application has not seen."""
        await gather_all(partition.flush() for partition in self._partitions)

    async def close(self) -> None:
        """Flush and deregister; raises what flushing raises."""
        if self._discovery is not None:
            await self._discovery.close()
        await gather_all(partition.close() for partition in self._partitions)

    async def _add(self, message: bytes | Outgoing) -> Receipt:
        producer = self._route(message)
        while not producer.has_room():
            await producer.room()
            producer = self._route(message)
        return producer.add(message)

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

    def keeps_up(self, discovery: TopicDiscovery) -> None:
        """This adds partitions from now on, until the producer is closed."""
        self._discovery = discovery

    def add(self, partitions: Iterable[PartitionProducer]) -> None:
        """Send to these, which follow those it has, as well."""
        self._partitions.extend(partitions)


def _message(
    value: bytes,
    key: str | bytes | None,
    properties: Mapping[str, str] | None,
    event_time_ms: int,
    deliver_after_s: float,
    more: dict[str, Any],
) -> bytes | Outgoing:
    if key is None and not (properties or event_time_ms or deliver_after_s or more):
        return value
    if deliver_after_s > 0:
        more["deliver_at_ms"] = time.time_ns() // 1_000_000 + round(deliver_after_s * 1000)
    return Outgoing(
        value, key=key, properties=properties or {}, event_time_ms=event_time_ms, **more
    )
