"""The application's consumer: one queue for all partitions of its topics."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Generic

from magnetar.base.closing import Closing
from magnetar.base.concurrency import gather_all
from magnetar.base.statistics import ConsumerStatistics, total
from magnetar.base.values import V
from magnetar.connections.topic_discovery import TopicDiscovery
from magnetar.connections.topic_watch import TopicWatch
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.partition_consumer import PartitionConsumer
from magnetar.dead_letters import RETRY, DeadLetters
from magnetar.messages import Message
from magnetar.transactions.transaction import Transaction
from magnetar_proto.ids import MessageId

_source_of = attrgetter("source")


class Consumer(Closing, Generic[V]):
    """Receives from a subscription; created by `Client.subscribe`, closed by `close`.

    `async for message in consumer` receives messages until the consumer is closed.
    """

    def __init__(
        self,
        topic: str,
        subscription: str,
        inbox: Inbox[Message[V]],
        dead_letters: DeadLetters | None = None,
        leaves_deleted: bool = False,
        interceptors: ConsumerInterceptors | None = None,
    ) -> None:
        self.topic = topic
        self.subscription = subscription
        self.inbox = inbox
        self._by_topic: dict[str, list[PartitionConsumer[Message[V]]]] = {}
        self._dead_letters = dead_letters
        self._leaves_deleted = leaves_deleted
        self._interceptors = interceptors or ConsumerInterceptors(())
        self._background: Sequence[TopicDiscovery | TopicWatch] = ()

    @property
    def _partitions(self) -> list[PartitionConsumer[Message[V]]]:
        return list(chain.from_iterable(self._by_topic.values()))

    @property
    def topics(self) -> list[str]:
        """The topics and partitions that the consumer receives from now."""
        return [partition.topic for partition in self._partitions]

    @property
    def unreadable(self) -> int:
        """The number of entries that could not be decoded since the consumer was opened."""
        return sum(partition.counts.unreadable_entries for partition in self._partitions)

    @property
    def statistics(self) -> ConsumerStatistics:
        """The counts since the consumer was opened, summed over its topics."""
        parts = [partition.statistics for partition in self._partitions]
        return total(self.topic, parts or [ConsumerStatistics(self.topic, self.subscription)])

    @property
    def active_topics(self) -> list[str]:
        """The partitions of a failover subscription in which this consumer is active."""
        return [partition.topic for partition in self._partitions if partition.is_active]

    @property
    def is_connected(self) -> bool:
        """Whether all partitions of the consumer are registered with a broker now."""
        return all(partition.is_connected for partition in self._partitions)

    @property
    def is_at_end(self) -> bool:
        """Whether all topics of the consumer are terminated and all their messages acknowledged."""
        return all(partition.is_at_end for partition in self._partitions)

    async def receive(self, timeout_s: float | None = None) -> Message[V]:
        """Return the next message; OperationTimeout if none comes in time; None: no limit.

        Raises `Unreadable`, once, in place of an entry that cannot be decoded, unless
        `on_unreadable` leaves out such entries.
        """
        return (await self.receive_batch(1, timeout_s))[0]

    async def receive_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[Message[V]]:
        """Return the messages that have arrived, at most `max_messages`; waits for one."""
        messages = await self.inbox.take(max_messages, timeout_s)
        if self._interceptors:
            return self._interceptors.before_consume(messages)
        return messages

    async def __aiter__(self) -> AsyncIterator[Message[V]]:
        while True:
            yield await self.receive()

    # -- acknowledgement

    def ack(
        self, messages: Message[Any] | Iterable[Message[Any]], txn: Transaction | None = None
    ) -> None:
        """Acknowledge messages individually; `flush` waits until the broker has stored this.

        With `txn` the acknowledgement takes effect when the transaction is committed.
        """
        if isinstance(messages, Message):
            messages.source.ack((messages,), txn)
            return
        for source, run in groupby(messages, _source_of):
            source.ack(run, txn)

    def ack_up_to(self, message: Message[Any], txn: Transaction | None = None) -> None:
        """Acknowledge all messages of the partition up to this one; not in shared subscriptions."""
        message.source.ack_up_to(message, txn)

    def ack_id(
        self, message_id: MessageId, topic: str | None = None, txn: Transaction | None = None
    ) -> None:
        """Acknowledge a message by its id; name its topic if the consumer has several.

        With `txn` it takes effect when the transaction is committed.  ValueError if no partition
        matches, or if the id is in a batch that this consumer has not received.
        """
        self._partition_of(message_id, topic).ack_id(message_id, txn)

    def ack_up_to_id(
        self, message_id: MessageId, topic: str | None = None, txn: Transaction | None = None
    ) -> None:
        """Acknowledge all messages of a partition up to the one with this id; see `ack_id`.

        If the id is in a batch that this consumer has not received, nothing of that batch is
        acknowledged; with `txn` this raises ValueError.
        """
        self._partition_of(message_id, topic).ack_up_to_id(message_id, txn)

    async def flush(self) -> None:
        """Wait until the broker has confirmed every acknowledgement; raise an error if not."""
        await gather_all(partition.flush_acks() for partition in self._partitions)

    # -- redelivery

    def nack(self, messages: Message[Any] | Iterable[Message[Any]]) -> None:
        """Let messages be redelivered after `nack_delay_s` or `nack_backoff`.

        All unacknowledged messages of a batch are redelivered with it.  A subscription that is not
        shared redelivers everything from the first unacknowledged message on.
        """
        if isinstance(messages, Message):
            messages.source.nack((messages,))
            return
        for source, run in groupby(messages, _source_of):
            source.nack(run)

    def nack_id(self, message_id: MessageId, topic: str | None = None) -> None:
        """Let the entry of an id be redelivered after `nack_delay_s`; see `ack_id`."""
        self._partition_of(message_id, topic).nack_id(message_id)

    def redeliver_all(self) -> None:
        """Request the redelivery of all unacknowledged messages now."""
        for partition in self._partitions:
            partition.redeliver_all()

    async def reconsume_later(
        self, message: Message[Any], delay_s: float, properties: Mapping[str, str] | None = None
    ) -> None:
        """Move a message to the retry topic, from which it is delivered again after the delay.

        After `max_redeliveries` such rounds it is moved to the dead letter topic.  `properties` are
        added to those of the message.  Requires `retry=True`, and for the delay a shared type.
        If the message cannot be moved, this raises an error, and it stays unacknowledged.
        """
        await self._retries().retry(message, delay_s, properties or {}, up_to=False)

    async def reconsume_later_cumulative(
        self, message: Message[Any], delay_s: float, properties: Mapping[str, str] | None = None
    ) -> None:
        """Move a message like `reconsume_later`, and acknowledge its partition up to it."""
        await self._retries().retry(message, delay_s, properties or {}, up_to=True)

    def _retries(self) -> DeadLetters:
        if self._dead_letters is None or RETRY not in self._dead_letters.names:
            raise ValueError(f"{self.subscription} has no retry topic: subscribe with retry=True")
        return self._dead_letters

    # -- flow and position

    def pause(self) -> None:
        """Stop asking the broker for messages; those that have arrived are still received."""
        for partition in self._partitions:
            partition.pause()

    def resume(self) -> None:
        """Continue after `pause`, or after the option start_paused."""
        for partition in self._partitions:
            partition.resume()

    async def seek(self, target: MessageId | int, topic: str | None = None) -> None:
        """Continue with the message of this id, or the first one published from this time (ms) on.

        EARLIEST, LATEST and a time apply to all topics, or to `topic` alone; another id applies to
        its partition.  All messages from there on are redelivered, also acknowledged ones.
        """
        if isinstance(target, int) or target.is_earliest or target.is_latest:
            partitions = [one for one in self._partitions if topic in (None, one.topic)]
            partitions = partitions or self._by_topic.get(str(topic), [])
            if not partitions:
                raise ValueError(f"{topic} is not received here: expected {', '.join(self.topics)}")
            await gather_all(partition.seek(target) for partition in partitions)
        else:
            await self._partition_of(target, topic).seek(target)

    async def last_message_ids(self) -> dict[str, MessageId]:
        """Return the id of the last message of each topic or partition; (-1, -1) if it is empty."""
        partitions = self._partitions
        ids = await gather_all(partition.last_message_id() for partition in partitions)
        return {one.topic: last for one, last in zip(partitions, ids, strict=True)}

    def _partition_of(
        self, message_id: MessageId, topic: str | None
    ) -> PartitionConsumer[Message[V]]:
        found = [
            one
            for one in self._partitions
            if topic in (None, one.topic)
            and (one.partition == message_id.partition or len(self._partitions) == 1)
        ]
        if len(found) != 1:
            raise ValueError(
                f"{message_id} with topic {topic} fits {len(found)} of {', '.join(self.topics)}: "
                "name the topic or partition it is from"
            )
        return found[0]

    # -- closing

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, and close; BrokerError if it has other consumers.

        With `force`, other consumers are disconnected.
        """
        await self._end_background()
        await gather_all(partition.unsubscribe(force) for partition in self._partitions)
        self._interceptors.close()

    async def close(self) -> None:
        """Flush acknowledgements and close; the subscription stays at the broker."""
        await self._end_background()
        try:
            await gather_all(partition.close() for partition in self._partitions)
        finally:
            self._interceptors.close()

    async def _end_background(self) -> None:
        for one in self._background:
            await one.close()
        if self._dead_letters is not None:
            await self._dead_letters.close()

    # -- for the client

    def attach_background(self, *background: TopicDiscovery | TopicWatch) -> None:
        """Attach the tasks that change the consumer's partitions; they end when it is closed."""
        self._background = background

    @property
    def sources(self) -> list[str]:
        """The full names of the consumer's topics, without partitions."""
        return list(self._by_topic)

    def partitioned_topics(self) -> list[str]:
        """Return the partitioned topics of the consumer, which may get more partitions."""
        return [
            topic
            for topic, parts in self._by_topic.items()
            if parts[0].partition >= 0 and parts[0].topic != topic
        ]

    def partitions_of(self, topic: str) -> list[str]:
        """Return the partitions that are received of a topic; the topic itself if it has none."""
        return [partition.topic for partition in self._by_topic.get(topic, ())]

    def add(self, topic: str, partitions: Iterable[PartitionConsumer[Message[V]]]) -> None:
        """Begin to receive from these partitions of a topic."""
        known = self._by_topic.setdefault(topic, [])
        for partition in partitions:
            partition.redelivery.dead_letters = self._dead_letters
            if self._leaves_deleted:
                partition.leave_deleted(self._topic_gone)
            known.append(partition)

    def _topic_gone(self) -> None:
        for one in self._background:
            if isinstance(one, TopicDiscovery):
                one.wake()

    async def remove(self, topics: Iterable[str]) -> None:
        """Stop receiving from these topics, which were deleted."""
        gone = [part for topic in topics for part in self._by_topic.pop(topic, ())]
        await gather_all(partition.leave() for partition in gone)
