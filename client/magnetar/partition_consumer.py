"""Receives from one partition: permits, where to resume, and acknowledgements."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from magnetar.acks import Ack, AckTracker
from magnetar.attachment import Attachment
from magnetar.connection import Connection
from magnetar.errors import (
    Closed,
    ConnectionLost,
    MagnetarError,
    OperationTimeout,
    Unreadable,
)
from magnetar.inbox import Failure, Inbox
from magnetar.messages import LAST_BATCH_INDEX, Entry, Message
from magnetar.pool import Pool
from magnetar.retry import Retry
from magnetar.settings import Settings
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.deliveries import Delivery, encode_flow
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

MAX_ACKS = 1000
"""Entries acknowledged by one command; as many waiting are sent at once."""
WHOLE_ENTRY = LAST_BATCH_INDEX + 1
"""A batch index behind every message of an entry."""

FAIL, SKIP, DISCARD = "fail", "skip", "discard"
ON_UNREADABLE = (FAIL, SKIP, DISCARD)
"""What may happen to an entry that cannot be decoded.

fail: `receive` raises `Unreadable` in its place; the next call continues behind it.
skip: it is left out.
discard: it is left out and acknowledged, so that the broker does not deliver it again.

With fail and skip it stays unacknowledged: the broker delivers it again to the next consumer.
Each one is counted, and logged with its message id and the reason.
"""

T = TypeVar("T", bound=Message | Entry)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Options of a subscription; ValueError names the value that is not possible."""

    name: str
    type: int = pb.CommandSubscribe.Exclusive
    consumer_name: str | None = None
    initial_position: int = pb.CommandSubscribe.Latest
    """Where a durable subscription starts when it is new."""
    start: MessageId | None = None
    """Where a reader starts, each time; None for a durable subscription."""
    start_inclusive: bool = False
    queue_size: int = 1000
    """The limit of messages received ahead of the application.

    0 asks each partition for one message when `receive` finds none, and never before.
    """
    on_unreadable: str = FAIL
    """What happens to an entry that cannot be decoded; see `ON_UNREADABLE`."""
    ack_delay_ms: float = 100.0
    """How long an acknowledgement waits for others, to be sent in one command."""
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.queue_size < 0:
            raise ValueError(f"queue_size is {self.queue_size}: it must not be negative")
        if self.on_unreadable not in ON_UNREADABLE:
            raise ValueError(
                f"on_unreadable {self.on_unreadable!r} is unknown; "
                f"known are {', '.join(ON_UNREADABLE)}"
            )


class PartitionConsumer(Generic[T]):
    """One consumer on one topic that is not partitioned, or on one partition.

    `unpack` makes of an entry what the inbox holds: its messages, or the entry itself.
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
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._id = consumer_id
        self._partition = partition
        self._subscription = subscription
        self._inbox = inbox
        self._unpack = unpack
        self._loop = asyncio.get_running_loop()
        self._attachment = Attachment(pool, settings, topic, self._register, self._inbox.fail)
        # Ids of a topic that is not persistent do not define an order.
        self._resumes = subscription.start is not None and TopicName.parse(topic).is_persistent
        self._resume_at = subscription.start
        self._seen = _seen_before(subscription)
        self.unreadable = 0
        """How many entries could not be decoded."""
        self._queued_permits = 0
        self._owed_permits = 0
        self._granted_permits = 0
        """With queue_size=0: what the broker may still send; below zero after a batch."""
        if subscription.queue_size == 0:
            inbox.on_demand(self._demand)
        self._acks = AckTracker()
        self._ack_timer: asyncio.TimerHandle | None = None
        self._unconfirmed: set[asyncio.Future[Any]] = set()
        self._ack_error: MagnetarError | None = None

    # -- for the application's consumer

    async def open(self) -> None:
        """Subscribe; raises what the broker answered, or OperationTimeout."""
        await self._attachment.open()

    async def last_message_id(self) -> MessageId:
        """The id of the topic's last message; (-1, -1) when there is none."""

        async def ask() -> MessageId:
            return await self._ask_last_id(await self._attachment.ready())

        return await Retry(self._settings).in_time(ask, f"reading the last id of {self.topic}")

    async def _ask_last_id(self, connection: Connection) -> MessageId:
        reply = await connection.request(pb.CommandGetLastMessageId(consumer_id=self._id))
        found = MessageId.from_pb(reply.last_message_id)
        return MessageId(found.ledger, found.entry, found.batch_index, self._partition)

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages of this partition; `flush_acks` waits until the broker has it."""
        self._check_open()
        self._acks.ack(messages)
        self._schedule_acks()

    def ack_entries(self, entries: Iterable[Entry]) -> None:
        """Acknowledge whole entries of this partition."""
        self._check_open()
        for entry in entries:
            self._acks.ack_entry(entry.position)
        self._schedule_acks()

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all messages of this partition up to this one."""
        self._check_open()
        self._acks.ack_up_to(message)
        self._schedule_acks()

    def _check_open(self) -> None:
        if self._attachment.error is not None:
            raise self._attachment.error

    async def flush_acks(self) -> None:
        """Wait until the broker confirmed every acknowledgement; raises if it refused one."""
        limit_s = self._settings.operation_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while self._acks or self._unconfirmed:
                    await self._attachment.ready()
                    self._send_acks()
                    if self._unconfirmed:
                        await asyncio.wait(self._unconfirmed)
        except TimeoutError:
            raise OperationTimeout(
                f"{self.topic}: acknowledgements were not confirmed within {limit_s:g} s; "
                "their messages may be delivered again"
            ) from None
        error, self._ack_error = self._ack_error, None
        if error is not None:
            raise error

    async def close(self) -> None:
        """Flush acknowledgements and deregister."""
        try:
            await self.flush_acks()
        finally:
            if self._ack_timer is not None:
                self._ack_timer.cancel()
            connection = await self._attachment.close()
            self._inbox.fail(Closed(f"the consumer of {self.topic} is closed"))
            if connection is not None:
                connection.remove_consumer(self._id)
                await self._deregister(connection)

    async def _deregister(self, connection: Connection) -> None:
        try:
            await connection.request(pb.CommandCloseConsumer(consumer_id=self._id))
        except ConnectionLost:
            return  # which ends the registration as well

    # -- for the inbox

    def taken(self, permits: int) -> None:
        self._queued_permits -= permits
        if self._subscription.queue_size:
            self._return_permits(permits)

    def _return_permits(self, permits: int) -> None:
        self._owed_permits += permits
        if self._owed_permits * 2 < self._subscription.queue_size:
            return
        connection = self._attachment.connection
        if connection is not None:
            connection.write(encode_flow(self._id, self._owed_permits))
            self._owed_permits = 0

    def _demand(self) -> None:
        """With queue_size=0: have the broker send one entry, unless it was asked already."""
        connection = self._attachment.connection
        if connection is not None and self._granted_permits <= 0:
            # A batch takes more permits than were granted: make up for the difference.
            connection.write(encode_flow(self._id, 1 - self._granted_permits))
            self._granted_permits = 1

    def _left_out(self, permits: int) -> None:
        """Messages of an entry were received that the application never takes."""
        if self._subscription.queue_size:
            self._return_permits(permits)
        else:
            self._inbox.wake()

    # -- for the connection

    def entry_rcvd(self, delivery: Delivery, data: bytes) -> None:
        position = (delivery.ledger, delivery.entry)
        entry_permits = 1  # the most likely count if the metadata, which holds it, is damaged
        try:
            entry = Entry(
                self.topic,
                (*position, self._partition),
                data,
                redelivery_count=delivery.redelivery_count,
                ack_set=delivery.ack_set,
                source=self,
            )
            entry_permits = entry.permits
            items = self._unseen(entry)
        except Unreadable as error:
            self._unreadable_rcvd(error, position, entry_permits)
            return
        permits = sum(item.permits for item in items)
        self._queued_permits += permits
        self._granted_permits -= entry_permits
        self._inbox.put(items)
        if permits < entry_permits:
            self._left_out(entry_permits - permits)

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        # A broker answers no ACK for a consumer that it has closed: they are sent again.
        for answer in list(self._unconfirmed):
            answer.cancel()
        self._attachment.detached(connection, new_owner)

    def _unseen(self, entry: Entry) -> list[T]:
        """What the entry holds, without what lies before the start or was received before."""
        if not self._resumes:
            return self._unpack(entry)
        if self._is_seen(entry.position):
            return []
        items = self._unpack(entry)
        if entry.position == self._seen[:2]:
            items = [item for item in items if item.batch_index > self._seen[2]]
        self._see(entry.position)
        return items

    def _is_seen(self, position: tuple[int, int]) -> bool:
        return self._resumes and (*position, LAST_BATCH_INDEX) <= self._seen

    def _see(self, position: tuple[int, int]) -> None:
        self._seen = (*position, WHOLE_ENTRY)
        self._resume_at = MessageId(*position)

    def _unreadable_rcvd(self, error: Unreadable, position: tuple[int, int], permits: int) -> None:
        self._granted_permits -= permits
        if self._is_seen(position):
            self._left_out(permits)
            return
        if self._resumes:
            self._see(position)
        self.unreadable += 1
        logger.warning("%s (on_unreadable=%s)", error, self._subscription.on_unreadable)
        if self._subscription.on_unreadable == FAIL:
            self._queued_permits += permits
            self._inbox.put_failure(Failure(error, self, permits))
            return
        if self._subscription.on_unreadable == DISCARD:
            self._acks.ack_entry(position)
            self._schedule_acks()
        self._left_out(permits)

    # -- registration

    async def _register(self, connection: Connection) -> None:
        connection.add_consumer(self._id, self)
        try:
            await connection.request(self._subscribe_command())
            if self._resumes and self._resume_at == LATEST:
                await self._pin_latest(connection)
        except BaseException:
            connection.remove_consumer(self._id)
            connection.send_only(pb.CommandCloseConsumer(consumer_id=self._id))
            raise
        if not self._resumes:
            # The broker delivers again what is not acknowledged.
            self._queued_permits -= self._inbox.drop(self)
            self._acks.begin_anew()
        # Acknowledgements come first: what they name is then not delivered again.
        self._send_acks_on(connection)
        self._owed_permits = 0
        self._granted_permits = 0
        permits = self._subscription.queue_size - self._queued_permits
        if permits > 0:
            connection.write(encode_flow(self._id, permits))
        # With queue_size=0 an application that waits asks again, once this method has returned.
        self._inbox.wake()

    def _subscribe_command(self) -> pb.CommandSubscribe:
        subscription = self._subscription
        command = pb.CommandSubscribe(
            topic=self.topic,
            subscription=subscription.name,
            subType=subscription.type,  # type: ignore[arg-type]
            consumer_id=self._id,
            consumer_name=subscription.consumer_name,
            durable=subscription.start is None,
            initialPosition=subscription.initial_position,  # type: ignore[arg-type]
        )
        if self._resume_at is not None:
            command.start_message_id.CopyFrom(MessageId(*self._resume_at[:2]).to_pb())
        for name, text in subscription.properties.items():
            command.subscription_properties.add(key=name, value=text)
        return command

    async def _pin_latest(self, connection: Connection) -> None:
        # "Latest" must mean the same after a reconnect, so it becomes an id before any delivery.
        last = await self._ask_last_id(connection)
        self._seen = (last.ledger, last.entry, WHOLE_ENTRY)
        self._resume_at = EARLIEST if last.entry < 0 else last

    # -- acknowledgements

    def _schedule_acks(self) -> None:
        if len(self._acks) >= MAX_ACKS:
            self._send_acks()
        elif self._ack_timer is None:
            delay_s = self._subscription.ack_delay_ms / 1000
            self._ack_timer = self._loop.call_later(delay_s, self._send_acks)

    def _send_acks(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._attachment.connection is not None:
            self._send_acks_on(self._attachment.connection)

    def _send_acks_on(self, connection: Connection) -> None:
        if not connection.is_open:
            return
        cumulative = self._acks.take_cumulative()
        if cumulative is not None:
            self._send_ack(connection, pb.CommandAck.Cumulative, [cumulative])
        acks = self._acks.take()
        for first in range(0, len(acks), MAX_ACKS):
            self._send_ack(connection, pb.CommandAck.Individual, acks[first : first + MAX_ACKS])

    def _send_ack(self, connection: Connection, kind: int, acks: list[Ack]) -> None:
        request_id, answer = connection.expect()
        self._unconfirmed.add(answer)
        answer.add_done_callback(lambda done: self._ack_answered(connection, kind, acks, done))
        connection.write(encode_ack(self._id, kind, acks, request_id))

    def _ack_answered(
        self, connection: Connection, kind: int, acks: list[Ack], answer: asyncio.Future[Any]
    ) -> None:
        self._unconfirmed.discard(answer)
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or (error is not None and not connection.is_open):
            self._acks.restore(acks, is_cumulative=kind == pb.CommandAck.Cumulative)
        elif error is not None:
            logger.warning("%s refused an acknowledgement: %s", self.topic, error)
            if isinstance(error, MagnetarError):
                self._ack_error = error


def _seen_before(subscription: Subscription) -> tuple[int, int, int]:
    """Ledger, entry and batch index of the last message that must not be delivered."""
    start = subscription.start
    if start is None or start.is_earliest or start.is_latest:
        return EARLIEST[:3]
    if subscription.start_inclusive:
        return start.ledger, start.entry, start.batch_index - 1
    return start.ledger, start.entry, start.batch_index if start.batch_index >= 0 else WHOLE_ENTRY
