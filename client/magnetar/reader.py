"""Readers, which follow a topic from a position and leave nothing at the broker."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Generic

from magnetar.base.closing import Closing
from magnetar.base.concurrency import gather_all
from magnetar.base.statistics import ConsumerStatistics, total
from magnetar.base.values import V
from magnetar.connections.topic_discovery import TopicDiscovery
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.partition_consumer import PartitionConsumer
from magnetar.messages import Entry, Message
from magnetar_proto.ids import MessageId


class Reader(Closing, Generic[V]):
    """Reads messages, in order in each partition; created by `Client.reader`, closed by `close`.

    `async for message in reader` reads until the reader is closed.
    """

    def __init__(
        self,
        topic: str,
        partitions: Sequence[PartitionConsumer[Message[V]]],
        inbox: Inbox[Message[V]],
    ) -> None:
        self.topic = topic
        self.inbox = inbox
        self._partitions = list(partitions)
        self._discovery: TopicDiscovery | None = None

    @property
    def topics(self) -> list[str]:
        """The topics and partitions that the reader reads now."""
        return [partition.topic for partition in self._partitions]

    @property
    def unreadable(self) -> int:
        """The number of entries that could not be decoded since the reader was opened."""
        return sum(partition.counts.unreadable_entries for partition in self._partitions)

    @property
    def statistics(self) -> ConsumerStatistics:
        """The counts since the reader was opened, summed over its topics."""
        return total(self.topic, [partition.statistics for partition in self._partitions])

    async def read(self, timeout_s: float | None = None) -> Message[V]:
        """Return the next message; OperationTimeout if none comes in time; None: no limit.

        Raises `Unreadable`, once, in place of an entry that cannot be decoded, unless
        `on_unreadable` leaves out such entries.
        """
        return (await self.read_batch(1, timeout_s))[0]

    async def read_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[Message[V]]:
        """Return the messages that have arrived, at most `max_messages`; waits for one."""
        messages = await self.inbox.take(max_messages, timeout_s)
        # The broker counts unacknowledged messages as the backlog of the reader.
        for last in {message.topic: message for message in messages}.values():
            last.source.ack_up_to(last)
        return messages

    async def __aiter__(self) -> AsyncIterator[Message[V]]:
        while True:
            yield await self.read()

    async def has_message_available(self) -> bool:
        """Tell whether the broker has, or had just now, a message that was not read."""
        if self.inbox:
            return True
        partitions = list(self._partitions)  # more may come meanwhile
        lasts = await gather_all(partition.last_message_id() for partition in partitions)
        return bool(self.inbox) or any(
            partition.is_behind(last) for partition, last in zip(partitions, lasts, strict=True)
        )

    @property
    def is_connected(self) -> bool:
        """Whether all partitions of the reader are registered with a broker now."""
        return all(partition.is_connected for partition in self._partitions)

    async def seek(self, target: MessageId | int, inclusive: bool | None = None) -> None:
        """Continue with the message of this id, or the first one published from this time (ms) on.

        With `inclusive=False` it continues after the message, and with True at the last message if
        the target is LATEST, which otherwise is after it.  EARLIEST, LATEST and a time apply to
        all partitions, another id to its own; ValueError if the reader does not have it.
        """
        partitions = list(self._partitions)
        if not (isinstance(target, int) or target.is_earliest or target.is_latest):
            if len(partitions) > 1:
                partitions = [one for one in partitions if one.partition == target.partition]
            if len(partitions) != 1:
                raise ValueError(
                    f"{target} is in {len(partitions)} partitions of {self.topic}: expected one"
                )
        await gather_all(partition.seek(target, inclusive) for partition in partitions)

    async def last_message_ids(self) -> list[MessageId]:
        """Return the id of the last message of each partition; (-1, -1) if it is empty."""
        return await gather_all(partition.last_message_id() for partition in self._partitions)

    async def close(self) -> None:
        """Close the reader; nothing of it stays at the broker."""
        if self._discovery is not None:
            await self._discovery.close()
        await gather_all(partition.close() for partition in self._partitions)

    # -- for the client

    def attach_background(self, discovery: TopicDiscovery) -> None:
        """Attach the discovery that adds partitions; closing the reader closes it."""
        self._discovery = discovery

    def add(self, partitions: Iterable[PartitionConsumer[Message[V]]]) -> None:
        """Begin to read further partitions."""
        # promise[self._partitions.extend(partitions) -> return]: partitions that a topic gets later
        #   are read
        self._partitions.extend(partitions)


class EntryReader(Closing):
    """Reads the stored entries of one partition, with batches unopened; acknowledges nothing.

    It fails when its topic is deleted: the places of another topic of that name are not those that
    were read.
    """

    def __init__(self, partition: PartitionConsumer[Entry], inbox: Inbox[Entry]) -> None:
        partition.end_with_topic()
        self.topic = partition.topic
        self._partition = partition
        self._inbox = inbox

    async def receive_entries(
        self, max_entries: int = 1000, timeout_s: float | None = None
    ) -> list[Entry]:
        """Return at most `max_entries` entries; OperationTimeout if not one comes in time."""
        return await self._inbox.take(max_entries, timeout_s)

    async def last_message_id(self) -> MessageId:
        """Return the id of the partition's last message; (-1, -1) if it is empty."""
        return await self._partition.last_message_id()

    async def close(self) -> None:
        """Close the reader; nothing of it stays at the broker."""
        await self._partition.close()
