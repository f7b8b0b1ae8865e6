"""The application's producer: routes messages to the partitions of a topic."""

import base64
from collections.abc import Iterable, Mapping, Sequence

from magnetar.closing import Closing
from magnetar.concurrency import gather_all
from magnetar.messages import Outgoing
from magnetar.partition_producer import PartitionProducer, Receipt
from magnetar_proto.hashes import murmur3_32
from magnetar_proto.ids import MessageId


class Producer(Closing):
    """Sends to a topic; created by `Client.producer`, closed by `close` or `async with`.

    Messages of one key go to one partition in order; messages without key take turns, a batch
    at a time.
    """

    def __init__(self, topic: str, partitions: Sequence[PartitionProducer]) -> None:
        self.topic = topic
        self._partitions = partitions
        self._turn = 0

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
    ) -> MessageId:
        """Send one message and wait until the broker has stored it; waits for room as well."""
        message = _message(value, key, properties, event_time_ms)
        return await (await self._add(message))

    def send_nowait(
        self,
        value: bytes,
        *,
        key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int = 0,
    ) -> Receipt:
        """Send one message; await the receipt or `flush`. QueueFull when there is no room."""
        message = _message(value, key, properties, event_time_ms)
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
        await gather_all(partition.close() for partition in self._partitions)

    async def _add(self, message: bytes | Outgoing) -> Receipt:
        producer = self._route(message)
        while not producer.has_room():
            await producer.room()
            producer = self._route(message)
        return producer.add(message)

    def _route(self, message: bytes | Outgoing) -> PartitionProducer:
        count = len(self._partitions)
        if count == 1:
            return self._partitions[0]
        if isinstance(message, Outgoing) and message.key is not None:
            return self._partitions[partition_of(message.key, count)]
        producer = self._partitions[self._turn]
        if producer.is_between_batches():
            self._turn = (self._turn + 1) % count
            producer = self._partitions[self._turn]
        return producer


def partition_of(key: str | bytes, count: int) -> int:
    """The partition of a key: murmur3 of its text; byte keys are hashed in base64."""
    text = base64.b64encode(key) if isinstance(key, bytes) else key.encode()
    return murmur3_32(text) % count


def _message(
    value: bytes,
    key: str | bytes | None,
    properties: Mapping[str, str] | None,
    event_time_ms: int,
) -> bytes | Outgoing:
    if key is None and not properties and not event_time_ms:
        return value
    return Outgoing(value, key=key, properties=properties or {}, event_time_ms=event_time_ms)
