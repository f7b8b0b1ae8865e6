"""The application's consumer: one queue for all partitions of a topic."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from magnetar.closing import Closing
from magnetar.concurrency import gather_all
from magnetar.inbox import Inbox
from magnetar.messages import Message
from magnetar.partition_consumer import PartitionConsumer

_source_of = attrgetter("source")


class Consumer(Closing):
    """Receives from a subscription; created by `Client.subscribe`, closed by `close`."""

    def __init__(
        self,
        topic: str,
        subscription: str,
        partitions: Sequence[PartitionConsumer[Message]],
        inbox: Inbox[Message],
    ) -> None:
        self.topic = topic
        self.subscription = subscription
        self._partitions = partitions
        self._inbox = inbox

    @property
    def unreadable(self) -> int:
        """How many entries could not be decoded since the consumer was opened."""
        return sum(partition.unreadable for partition in self._partitions)

    async def receive(self, timeout_s: float | None = None) -> Message:
        """The next message; None waits for ever, else OperationTimeout when none came.

        Raises `Unreadable`, once, in the place of an entry that cannot be decoded, unless
        `on_unreadable` leaves such entries out.
        """
        return (await self._inbox.take(1, timeout_s))[0]

    async def receive_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[Message]:
        """All that have arrived, at most `max_messages`; waits for the first as `receive`."""
        return await self._inbox.take(max_messages, timeout_s)

    def ack(self, messages: Message | Iterable[Message]) -> None:
        """Acknowledge one or many, individually; `flush` waits until the broker stored it."""
        if isinstance(messages, Message):
            messages.source.ack((messages,))
            return
        for source, run in groupby(messages, _source_of):
            source.ack(run)

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all of the message's partition up to it; not for shared subscriptions."""
        message.source.ack_up_to(message)

    async def flush(self) -> None:
        """Wait until the broker confirmed every acknowledgement; raises if it refused one."""
        await gather_all(partition.flush_acks() for partition in self._partitions)

    async def close(self) -> None:
        """Flush acknowledgements and leave the subscription, which stays at the broker."""
        await gather_all(partition.close() for partition in self._partitions)
