"""The consumer of one partition: registration, and the operations of the application."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.errors import Closed, ConnectionLost
from magnetar.base.settings import Settings
from magnetar.base.statistics import ConsumerStatistics
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar.connections.registration import Registration
from magnetar.connections.retry import Retry
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.assembly import assemble
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.options import Subscription
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.topic_ends import ask_ends
from magnetar.consuming.transaction_acks import TransactionAcks
from magnetar.messages import Entry, Message
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId

T = TypeVar("T", bound=Message[Any] | Entry)


class PartitionConsumer(Generic[T]):
    """A consumer of an unpartitioned topic or of one partition.

    `unpack` converts an entry to items of the inbox: its messages, or the entry itself.  Chunks are
    joined if `joins`.
    """

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        consumer_id: int,
        topic: str,
        partition: int,
        subscription: Subscription,
        inbox: Inbox[T],
        unpack: Callable[[Entry], list[T]],
        joins: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.subscription = subscription
        self.counts = ConsumerStatistics(topic, subscription.name)
        self.is_open = True
        """Whether the consumer is not closed."""
        self._settings = settings
        self._clock = settings.clock
        self._id = consumer_id
        self._inbox = inbox
        self._registration = Registration(pool, settings, topic, self._register, inbox.fail)
        self._registrations = 0
        self._interceptors = ConsumerInterceptors(subscription.interceptors)
        subscriber = Subscriber(
            consumer_id,
            topic,
            partition,
            subscription,
            self._registration,
            inbox,
            self,
            self.counts,
            settings.clock,
        )
        parts = assemble(subscriber, unpack, joins)
        self.permits = parts.permits
        self.redelivery = parts.redelivery
        self._tracker = parts.tracker
        self._resume_position = parts.resume_position
        self._epochs = parts.epochs
        self._unacked = parts.unacked
        self._ack_sender = parts.ack_sender
        self._transactions = parts.transactions
        self._queued = parts.queued
        self._chunked = parts.chunked
        self._receiver = parts.receiver

    # -- for the application's consumer

    async def open(self) -> None:
        """Subscribe; raise the broker's error, or OperationTimeout."""
        await self._registration.open()

    @property
    def is_connected(self) -> bool:
        """Whether the consumer is registered with a broker now."""
        return self._registration.connection is not None

    @property
    def is_active(self) -> bool | None:
        """Whether this consumer of a failover subscription is active; None until that is known."""
        return self._receiver.is_active

    @property
    def is_at_end(self) -> bool:
        """Whether the topic is terminated and all its messages are acknowledged."""
        return self._receiver.is_at_end

    @property
    def statistics(self) -> ConsumerStatistics:
        """The counts of this consumer."""
        return replace(self.counts, queued_messages=self.permits.queued)

    async def last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) if the topic is empty."""

        async def ask() -> MessageId:
            connection = await self._registration.ready()
            return (await ask_ends(connection, self._id, self.partition)).last

        what = f"reading the last id of {self.topic}"
        return await Retry(self._settings).in_time(ask, what, self._registration)

    def is_behind(self, last: MessageId) -> bool:
        """Tell whether a consumer without durable subscription has yet to receive this message."""
        return last.entry >= 0 and self._resume_position.is_before(last)

    def ack(self, messages: Iterable[Message], txn: Transaction | None = None) -> None:
        """Acknowledge messages of this partition; `flush_acks` waits until this is stored."""
        self.check_open()
        if self._interceptors:
            messages = list(messages)
            self._interceptors.on_ack(self.topic, [message.id for message in messages])
        self._acks_of(txn).ack(messages)

    def ack_entries(self, entries: Iterable[Entry]) -> None:
        """Acknowledge whole entries of this partition."""
        self.check_open()
        self._ack_sender.ack_entries(entry.position for entry in entries)

    def ack_id(self, message_id: MessageId, txn: Transaction | None = None) -> None:
        """Acknowledge the message with this id."""
        self.check_open()
        self._acks_of(txn).ack_id(message_id)
        self._interceptors.on_ack(self.topic, [message_id])

    def ack_up_to(self, message: Message, txn: Transaction | None = None) -> None:
        """Acknowledge all messages of this partition up to and including this one."""
        self.check_open()
        self._acks_of(txn).ack_up_to(message)
        self._interceptors.on_ack_up_to(self.topic, message.id)

    def ack_up_to_id(self, message_id: MessageId, txn: Transaction | None = None) -> None:
        """Acknowledge all messages of this partition up to and including the one with this id."""
        self.check_open()
        self._acks_of(txn).ack_up_to_id(message_id)
        self._interceptors.on_ack_up_to(self.topic, message_id)

    def _acks_of(self, txn: Transaction | None) -> AckSender | TransactionAcks:
        return self._ack_sender if txn is None else txn.acks(self._transactions)

    def nack_id(self, message_id: MessageId) -> None:
        """Let the broker redeliver the entry of this id, after the delay."""
        self._check_durable()
        for position in self._tracker.entries_of(message_id):
            self.redelivery.nack_entry(position)

    def nack(self, messages: Iterable[Message]) -> None:
        """Let the broker redeliver messages, after the delay of the subscription."""
        self._check_durable()
        self.redelivery.nack(messages)

    def redeliver_all(self) -> None:
        """Request the redelivery of all unacknowledged messages now."""
        self._check_durable()
        self.redelivery.all()

    def _check_durable(self) -> None:
        self.check_open()
        if self.subscription.start is not None:
            raise ValueError(
                f"{self.topic}: without a durable subscription nothing is delivered again; use seek"
            )

    def check_open(self) -> None:
        """Raise the error that has ended this consumer, if any."""
        if self._registration.error is not None:
            raise self._registration.error

    async def flush_acks(self) -> None:
        """Wait until the broker has confirmed every acknowledgement; raise an error if not."""
        await self._ack_sender.flush(self._settings.operation_timeout_s)

    def pause(self) -> None:
        """Stop asking the broker for messages; those that have been received stay in the queue."""
        self.permits.is_paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self.permits.resume()

    async def seek(self, target: MessageId | int, inclusive: bool | None = None) -> None:
        """Continue with the message of this id, or the first one published from this time (ms) on.

        `inclusive` is for consumers without durable subscription: False continues after the
        message, and True with the last message if the target is LATEST.
        """
        # Acknowledgements that arrive after the seek would acknowledge what it gives back.
        await self.flush_acks()
        connection = await self._registration.ready_in_time("seeking in")
        command = pb.CommandSeek(consumer_id=self._id)
        if isinstance(target, int):
            command.message_publish_time = target
        else:
            entry = target[:2] if inclusive is False else target.begins_at
            command.message_id.CopyFrom(MessageId(*entry).to_pb())
        former, registrations = self._resume_position.state(), self._registrations
        self._resume_position.sought(target, inclusive)
        self._receiver.is_seeking = True
        try:
            await connection.request(command)
        except BaseException:
            # Refused, or the outcome is unknown: register at the former position, because what has
            # arrived in the meantime was dropped.
            self._resume_position.restore(former)
            if self._receiver.is_seeking:
                self._receiver.is_seeking = False
                self._register_again(connection)
            raise
        # Unless the broker has ended the registration: messages from before the seek may follow.
        if self._registrations == registrations and self._registration.connection is connection:
            self._register_again(connection)
        await self._registration.ready_in_time("subscribing again after a seek in")

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, and close; with `force` even if it has other consumers."""
        connection = await self._registration.ready_in_time("unsubscribing from")
        await connection.request(pb.CommandUnsubscribe(consumer_id=self._id, force=force))
        await self._leave()

    async def close(self) -> None:
        """Send pending acknowledgements, and deregister."""
        if not self.is_open:
            return
        try:
            await self.flush_acks()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._inbox.fail(Closed(f"the consumer of {self.topic} is closed"))
        await self.leave()

    async def leave(self) -> None:
        """Deregister, but leave received messages in the inbox, which others continue to fill."""
        self.is_open = False
        self._ack_sender.stop()
        self.redelivery.stop()
        if self._chunked is not None:
            self._chunked.stop()
        connection = await self._registration.close()
        self._inbox.forget(self)
        self.permits.end()
        if connection is not None:
            connection.remove_consumer(self._id)
            await self._deregister(connection)

    def forked(self, error: Closed) -> None:
        """Close in a forked child; received messages are the parent's."""
        self.is_open = False
        self._registration.forked(error)
        self._inbox.drop(self)
        self._inbox.fail(error)

    def leave_deleted(self, on_gone: Callable[[], None]) -> None:
        """Call `on_gone` when the topic is deleted, in place of waiting for its re-creation."""
        self._registration.on_gone = on_gone

    def end_with_topic(self) -> None:
        """Fail when the topic is deleted, in place of waiting for its re-creation."""
        self._registration.waits_for_topic = False

    async def _deregister(self, connection: Connection) -> None:
        try:
            await connection.request(pb.CommandCloseConsumer(consumer_id=self._id))
        except ConnectionLost:
            return  # which ends the registration as well

    # -- for the inbox

    def taken(self, permits: int) -> None:
        self.permits.taken(permits)

    # -- registration

    async def _register(self, connection: Connection) -> None:
        self._registrations += 1
        # Before the answer, which messages follow immediately.
        connection.add_consumer(self._id, self._receiver)
        was_seeking, self._receiver.is_seeking = self._receiver.is_seeking, False
        try:
            await connection.request(self._subscribe_command())
            if self._resume_position.is_open:
                ends = await ask_ends(connection, self._id, self.partition)
                if self._resume_position.pin(*ends):  # the start is another one: register there
                    await connection.request(pb.CommandCloseConsumer(consumer_id=self._id))
                    await connection.request(self._subscribe_command())
        except BaseException:
            # The broker may have registered it, or may still do so: the next attempt, perhaps at
            # another broker, must not find the subscription taken.
            connection.remove_consumer(self._id)
            connection.send_only(pb.CommandCloseConsumer(consumer_id=self._id))
            self._receiver.is_seeking = was_seeking
            raise
        if not self._resume_position.is_on or was_seeking:
            # The broker redelivers unacknowledged messages.
            self._queued.drop()
            if was_seeking:
                self._unacked.sought()
            else:
                self._unacked.begin_again()
        # Acknowledgements go first: acknowledged messages are then not redelivered.
        self._ack_sender.send_on(connection)
        self.permits.begin(connection)
        # With queue_size=0, a waiting application asks again after this method has returned.
        self._inbox.wake()

    def _register_again(self, connection: Connection) -> None:
        """End the registration on this connection if it still exists, and register again."""
        if self._registration.connection is connection and connection.is_open:
            connection.remove_consumer(self._id)
            connection.send_only(pb.CommandCloseConsumer(consumer_id=self._id))
            self._receiver.detached(connection, ConnectionLost("the consumer registers again"))

    def _subscribe_command(self) -> pb.CommandSubscribe:
        command = self.subscription.to_pb(self.topic, self._id)
        self._resume_position.describe(command, self._clock.now_ms())
        epoch = self._epochs.raise_epoch()
        if epoch is not None:
            command.consumer_epoch = epoch
        return command
