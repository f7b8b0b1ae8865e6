"""The consumer of the official client."""

import magnetar
from magnetar.base.background import Facade
from magnetar.compat.checks import check_or_none
from magnetar.compat.exceptions import (
    CumulativeAcknowledgementNotAllowedError,
    InvalidConfiguration,
    OperationNotSupported,
    translated,
)
from magnetar.compat.messages import Message, MessageId
from magnetar.compat.policies import ConsumerBatchReceivePolicy
from magnetar.compat.receiving import Receiving, position


class Positions:
    """The targets of seeks, by topic: messages before the target are not for the application.

    A durable subscription is moved to a whole entry: messages in it before the target are dropped.
    """

    def __init__(self, inclusive: bool) -> None:
        self._inclusive = inclusive
        self._sought: dict[str, magnetar.MessageId] = {}

    def sought(self, topics: list[str], target: magnetar.MessageId | int) -> None:
        """Set the position from which these topics are received."""
        for topic in topics:
            self._sought.pop(topic, None)
            if not (isinstance(target, int) or target.is_earliest or target.is_latest):
                self._sought[topic] = target

    def is_wanted(self, message: magnetar.Message) -> bool:
        """Tell whether the application receives the message."""
        sought = self._sought.get(message.topic) if self._sought else None
        if sought is None:
            return True
        # The id of an entry stands for all messages in it.
        end = sought[: 3 if sought.batch_index >= 0 else 2]
        here = message.id[: len(end)]
        # promise[without or (here == end and not self._inclusive)]: an exclusive seek leaves out
        #   the message that it names
        if here < end or (here == end and not self._inclusive):
            return False
        if here > end:
            del self._sought[message.topic]
        return True


class Consumer(Receiving):
    """Receives from a subscription; created by `Client.subscribe`."""

    _facade: Facade[magnetar.Consumer]
    _name: str
    _is_shared: bool
    _policy: ConsumerBatchReceivePolicy
    _positions: Positions

    def topic(self) -> str:
        """Return the full name of the topic, the names of several topics, or the pattern."""
        return self._facade.wrapped.topic

    def subscription_name(self) -> str:
        return self._facade.wrapped.subscription

    def consumer_name(self) -> str:
        return self._name

    @translated
    def unsubscribe(self) -> None:
        """Delete the subscription; the consumer is closed."""
        self._stop_listening()
        self._facade.run(self._facade.wrapped.unsubscribe)
        self._client._forget(self)

    @translated
    def receive(self, timeout_millis: int | None = None) -> Message:
        """Return the next message; Timeout if none comes in time."""
        check_or_none(int, timeout_millis, "timeout_millis")
        self._check_no_listener("receive")
        timeout_s = None if timeout_millis is None else timeout_millis / 1000
        return self._message(self._facade.run(self._next, timeout_s))

    @translated
    def batch_receive(self) -> list[Message]:
        """Return the messages that come until a limit of the batch receive policy is reached."""
        self._check_no_listener("batch_receive")
        return [self._message(message) for message in self._facade.run(self._next_ones)]

    @translated
    def acknowledge(self, message: Message | MessageId) -> None:
        """Acknowledge a message, or the message of an id."""
        consumer = self._facade.wrapped
        if isinstance(message, Message):
            self._facade.do(consumer.ack, message._received())
        else:
            self._facade.do(consumer.ack_id, *_named(message))

    @translated
    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """Acknowledge all messages of the partition up to and including this one."""
        if self._is_shared:
            raise CumulativeAcknowledgementNotAllowedError(
                f"{self.subscription_name()} is shared: use acknowledge"
            )
        consumer = self._facade.wrapped
        if isinstance(message, Message):
            self._facade.do(consumer.ack_up_to, message._received())
        else:
            self._facade.do(consumer.ack_up_to_id, *_named(message))

    @translated
    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """Let a message, or the message of an id, be redelivered after the delay."""
        consumer = self._facade.wrapped
        if isinstance(message, Message):
            self._facade.do(consumer.nack, message._received())
        else:
            self._facade.do(consumer.nack_id, *_named(message))

    @translated
    def pause_message_listener(self) -> None:
        """Stop calling the listener until `resume_message_listener`."""
        listening = self._listening
        if listening is None:
            raise InvalidConfiguration("the consumer has no message listener")
        self._facade.do(listening.pause)

    @translated
    def resume_message_listener(self) -> None:
        """Resume the calls of the listener."""
        listening = self._listening
        if listening is None:
            raise InvalidConfiguration("the consumer has no message listener")
        self._facade.do(listening.resume)

    @translated
    def redeliver_unacknowledged_messages(self) -> None:
        """Request the redelivery of all unacknowledged messages."""
        self._facade.do(self._facade.wrapped.redeliver_all)

    @translated
    def seek(self, messageid: MessageId | magnetar.MessageId | int) -> None:
        """Continue after a message, or with messages published at a time in milliseconds or later.

        With the option start_message_id_inclusive it continues with the message itself.
        """
        target = position(messageid)
        topic = messageid._topic if isinstance(messageid, MessageId) else None
        self._facade.run(self._seek, target, topic)

    @translated
    def close(self) -> None:
        """Close the consumer; the subscription stays at the broker."""
        self._stop_listening()
        self._client._forget(self)
        self._facade.run(self._facade.wrapped.close)

    def is_connected(self) -> bool:
        """Tell whether the consumer is registered with the broker at the moment."""
        return self._facade.wrapped.is_connected

    @translated
    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message."""
        found = self._facade.run(self._facade.wrapped.last_message_ids)
        if len(found) != 1:
            raise OperationNotSupported(
                f"{self.topic()} has {len(found)} partitions, each with a last message of its own"
            )
        ((topic, last),) = found.items()
        return MessageId._of(last, topic)

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._facade.do(self._listening.close)

    # -- in the event loop

    async def _next(self, timeout_s: float | None = None) -> magnetar.Message:
        consumer = self._facade.wrapped
        while True:
            message = await consumer.receive(timeout_s)
            if self._positions.is_wanted(message):
                return message
            consumer.ack(message)

    async def _next_ones(self) -> list[magnetar.Message]:
        policy = self._policy
        now_s = self._facade.wrapped.inbox.clock.now_s
        end_s = now_s() + policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        found: list[magnetar.Message] = []
        size = 0
        while not (0 < policy.max_num_message <= len(found) or 0 < policy.max_num_bytes <= size):
            try:
                message = await self._next(None if end_s is None else max(end_s - now_s(), 0))
            except magnetar.OperationTimeout:
                break
            found.append(message)
            size += len(message.data)
        return found

    async def _seek(self, target: magnetar.MessageId | int, topic: str | None) -> None:
        consumer = self._facade.wrapped
        await consumer.seek(target, topic)
        self._positions.sought([topic] if topic else consumer.topics, target)


def _named(message_id: MessageId) -> tuple[magnetar.MessageId, str | None]:
    if not isinstance(message_id, MessageId):
        raise TypeError(f"{message_id!r} is neither a message nor a message id")
    return message_id._id, message_id._topic
