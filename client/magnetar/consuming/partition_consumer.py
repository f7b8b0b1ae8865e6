"""The consumer of one partition: permits, resuming, redelivery, and seeking."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    Damaged,
    DecryptionFailed,
    MagnetarError,
    Unreadable,
)
from magnetar.base.log_fields import about
from magnetar.base.settings import Settings
from magnetar.base.statistics import ConsumerStatistics
from magnetar.base.unreadable import DISCARD, FAIL
from magnetar.clock import Timer
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar.connections.registration import Registration
from magnetar.connections.retry import Retry
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.chunks import ChunkJoiner
from magnetar.consuming.inbox import Failure, Inbox
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.options import Subscription
from magnetar.consuming.permits import Permits
from magnetar.consuming.redelivery import Redelivery
from magnetar.consuming.resume_position import ResumePosition
from magnetar.consuming.topic_ends import ask_ends
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.encryption.receiving import Decrypting
from magnetar.messages import Entry, Message, plain_message
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import Delivery, DeliveryRun
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Message[Any] | Entry)


class PartitionConsumer(Generic[T]):
    """One consumer of a topic that is not partitioned, or of one partition.

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
        self._settings = settings
        self._id = consumer_id
        self._inbox = inbox
        self._unpack = unpack
        schema = subscription.schema
        self._reader = None if schema is None or schema.needs_writer else schema
        self.clock = settings.clock
        self._registration = Registration(pool, settings, topic, self._register, inbox.fail)
        self._resume_position = ResumePosition(topic, subscription)
        self.counts = ConsumerStatistics(topic, subscription.name)
        self.is_active: bool | None = None
        """Whether this consumer of a failover subscription is active; None until that is known."""
        self.is_at_end = False
        """Whether the topic was terminated and all its messages acknowledged."""
        most, auto_scale = subscription.queue_size, subscription.auto_scale_queue
        self.permits = Permits(consumer_id, self._registration, inbox, most, auto_scale)
        self.permits.is_paused = subscription.start_paused
        self._interceptors = ConsumerInterceptors(subscription.interceptors)
        self._registrations = 0
        self.is_open = True
        """Whether it has not been closed."""
        self._seeking = False
        chunks = subscription.max_pending_chunked, subscription.chunk_expiry_s
        self._joiner = ChunkJoiner(*chunks) if joins else None
        self._chunk_timer: Timer | None = None
        self._tracker = AckTracker(subscription.batch_index_acks)
        unconfirmed = UnconfirmedAcks(self._tracker)
        self.redelivery = again = Redelivery(
            topic, partition, subscription, unconfirmed, self.counts, self.clock, self.ask_again
        )
        self._decrypting: Decrypting | None = None
        keys, on_failure = subscription.key_reader, subscription.on_undecryptable
        if joins or keys is not None:  # without these, entries are passed on undecoded
            self._decrypting = Decrypting(keys, on_failure, again.left_unacked, self.clock)
        self.ack_sender = AckSender(
            self._registration, consumer_id, subscription, unconfirmed, again, self.clock
        )
        policy = subscription.dead_letter
        self._may_give_up = policy is not None
        self._takes_messages = joins and (policy is None or policy.max_redeliveries > 0)
        if self.redelivery.counts_taken and joins:
            inbox.on_taken(self, self.redelivery.taken)

    # -- for the application's consumer

    async def open(self) -> None:
        """Subscribe; raise the broker's error, or OperationTimeout."""
        await self._registration.open()

    @property
    def is_connected(self) -> bool:
        """Whether it is registered with a broker at the moment."""
        return self._registration.connection is not None

    @property
    def statistics(self) -> ConsumerStatistics:
        """The counts of this consumer."""
        return replace(self.counts, queued_messages=self.permits.queued)

    async def last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) if the topic is empty."""

        async def ask() -> MessageId:
            connection = await self._registration.ready()
            return (await ask_ends(connection, self._id, self.partition)).last

        return await Retry(self._settings).in_time(ask, f"reading the last id of {self.topic}")

    def is_behind(self, last: MessageId) -> bool:
        """Tell whether a consumer without durable subscription has yet to receive this message."""
        return last.entry >= 0 and self._resume_position.is_before(last)

    def ack(self, messages: Iterable[Message], txn: Transaction | None = None) -> None:
        """Acknowledge messages of this partition; `flush_acks` waits until this is stored."""
        self.check_open()
        if self._interceptors:
            messages = list(messages)
            self._interceptors.on_ack(self.topic, [message.id for message in messages])
        (self.ack_sender if txn is None else txn.acks(self.ack_sender)).ack(messages)

    def ack_entries(self, entries: Iterable[Entry]) -> None:
        """Acknowledge whole entries of this partition."""
        self.check_open()
        self.ack_sender.ack_entries(entry.position for entry in entries)

    def ack_id(self, message_id: MessageId, txn: Transaction | None = None) -> None:
        """Acknowledge a message of this partition by its id."""
        self.check_open()
        (self.ack_sender if txn is None else txn.acks(self.ack_sender)).ack_id(message_id)
        self._interceptors.on_ack(self.topic, [message_id])

    def ack_up_to(self, message: Message, txn: Transaction | None = None) -> None:
        """Acknowledge all messages of this partition up to this one."""
        self.check_open()
        (self.ack_sender if txn is None else txn.acks(self.ack_sender)).ack_up_to(message)
        self._interceptors.on_ack_up_to(self.topic, message.id)

    def ack_up_to_id(self, message_id: MessageId, txn: Transaction | None = None) -> None:
        """Acknowledge all messages of this partition up to the one of this id."""
        self.check_open()
        (self.ack_sender if txn is None else txn.acks(self.ack_sender)).ack_up_to_id(message_id)
        self._interceptors.on_ack_up_to(self.topic, message_id)

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
        """Let the broker redeliver all unacknowledged messages now."""
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
        await self.ack_sender.flush(self._settings.operation_timeout_s)

    def pause(self) -> None:
        """Stop asking the broker for messages; those that have been received stay in the queue."""
        self.permits.is_paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self.permits.resume()

    async def seek(self, target: MessageId | int, inclusive: bool | None = None) -> None:
        """Continue with the message of this id, or the first one published at this time (ms).

        `inclusive` is for consumers without durable subscription: False continues behind the
        message, and True with the last message if the target is LATEST.
        """
        await self.flush_acks()
        connection = await self._registration.ready()
        command = pb.CommandSeek(consumer_id=self._id)
        if isinstance(target, int):
            command.message_publish_time = target
        else:
            entry = target[:2] if inclusive is False else target.begins_at
            command.message_id.CopyFrom(MessageId(*entry).to_pb())
        former, registrations = self._resume_position.state(), self._registrations
        self._resume_position.sought(target, inclusive)
        self._seeking = True
        try:
            await connection.request(command)
        except BaseException:
            self._resume_position.restore(former)
            if self._seeking:
                self._seeking = False
                self._register_anew(connection)
            raise
        if self._registrations == registrations and self._registration.connection is connection:
            self._register_anew(connection)
        await self._registration.ready()

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, with `force` also if it has other consumers; then close."""
        connection = await self._registration.ready()
        await connection.request(pb.CommandUnsubscribe(consumer_id=self._id, force=force))
        await self._leave()

    async def close(self) -> None:
        """Flush acknowledgements and deregister."""
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
        """Deregister, while others fill the same inbox; received messages stay in it."""
        self.is_open = False
        self.ack_sender.stop()
        self.redelivery.stop()
        if self._chunk_timer is not None:
            self._chunk_timer.cancel()
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
        """Call `on_gone` when the topic is deleted, instead of waiting for its re-creation."""
        self._registration.on_gone = on_gone

    def end_with_topic(self) -> None:
        """Fail when the topic is deleted, instead of waiting for it to be created again."""
        self._registration.waits_for_topic = False

    async def _deregister(self, connection: Connection) -> None:
        try:
            await connection.request(pb.CommandCloseConsumer(consumer_id=self._id))
        except ConnectionLost:
            return  # which ends the registration as well

    # -- for the inbox

    def taken(self, permits: int) -> None:
        self.permits.taken(permits)

    # -- for the connection

    def entries_rcvd(self, run: DeliveryRun) -> None:
        head = run.head
        if self._seeking:
            return  # entries and permits are of before the seek
        if not self._is_usual(head):
            for number, data in zip(run.entries, run.payloads, strict=True):
                self._entry_rcvd(head._replace(entry=number), data)
            return
        held, ledger, reader = self.redelivery.held, head.ledger, self._reader
        messages: list[Any] = []
        size = 0
        for number, data in zip(run.entries, run.payloads, strict=True):
            message = plain_message(self, self.topic, ledger, number, self.partition, data)
            # promise[without or (held and held.bits((ledger, number)))]: held messages stay out
            if message is None or (held and held.bits((ledger, number))):
                self._plain_rcvd(messages, size)
                messages, size = [], 0
                self._entry_rcvd(head._replace(entry=number), data)
            else:
                message.entry.reader = reader
                messages.append(message)
                size += len(data)
        self._plain_rcvd(messages, size)

    def _is_usual(self, head: Delivery) -> bool:
        """Tell whether the fate of the entry depends on nothing but the entry itself."""
        return not (
            not self._takes_messages
            or head.redelivery_count
            or head.ack_set
            or self._resume_position.is_on
            or self.redelivery.is_stale(head.consumer_epoch)
        )

    def _plain_rcvd(self, messages: list[Any], size: int) -> None:
        """Queue messages that are entries by themselves, of `size` bytes in total."""
        count = len(messages)
        if count:
            self.counts.received(count, count, size, is_redelivered=False)
            self.permits.came(count, count)
            self._inbox.put(messages)
            self.permits.claimed(self._inbox.claim(count))

    def _entry_rcvd(self, delivery: Delivery, data: bytes) -> None:
        position = (delivery.ledger, delivery.entry)
        entry_permits = 1  # the most likely count if the metadata, which holds it, is damaged
        try:
            entry = Entry(
                self.topic,
                (*position, self.partition),
                data,
                redelivery_count=delivery.redelivery_count,
                ack_set=delivery.ack_set,
                source=self,
            )
            entry_permits = entry.permits
            is_redelivered = delivery.redelivery_count > 0
            self.counts.received(1, entry_permits, len(data), is_redelivered)
            # promise: messages of an older epoch are dropped
            if self.redelivery.is_stale(delivery.consumer_epoch):
                items = []
            else:
                if entry.is_encrypted and self._decrypting is not None:
                    self._decrypting.admit(entry)
                if self._joiner is not None and entry.is_chunk:
                    items = self._chunk_rcvd(self._joiner, entry)
                else:
                    items = self._unseen(entry)
        except Unreadable as error:
            self._unreadable_rcvd(error, position, entry_permits)
            return
        if self._may_give_up and items and self.redelivery.gives_up(items):
            items = []
        # promise: after an abort a part of a batch comes once
        if delivery.redelivery_count and self.permits.queued and items:
            self._supersede(items[0], position)
        permits = sum(item.permits for item in items)
        self.permits.came(entry_permits, permits)
        self._inbox.put(items)
        if permits == len(items):
            self.permits.claimed(self._inbox.claim(permits))
        if permits < entry_permits:
            self.permits.left_out(entry_permits - permits)

    def _supersede(self, item: T, position: tuple[int, int]) -> None:
        """Drop the queued messages of a batch that has arrived again, and includes them."""
        if item.batch_index >= 0:
            dropped = self._inbox.drop(self, position)
            self.permits.left_out(self.permits.dropped(dropped))

    def active_changed(self, is_active: bool) -> None:
        # promise: an active consumer that is replaced drops what it holds
        if self.is_active and not is_active and self.redelivery.holds:
            self.permits.left_out(self._drop_queued())  # the consumer that is active now gets them
        self.is_active = is_active
        if self.subscription.on_active_change is not None:
            self.subscription.on_active_change(self.topic, is_active)

    def damaged(self, first: MessageId, entries: int, why: str) -> None:
        # promise: a consumer that stops at damage is told so, behind what it got before
        self._inbox.put_failure(Failure(Damaged(self.topic, first, entries, why), self, 0))

    def end_reached(self) -> None:
        self.is_at_end = True

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        self.ack_sender.detached()
        self._registration.detached(connection, new_owner)

    def _unseen(self, entry: Entry) -> list[T]:
        """Return the contents of the entry that are behind the start and not received before."""
        entry.reader = self._reader
        if not self._resume_position.is_on:
            items = self._unheld(entry)
            if self._joiner is not None and items and items[0].batch_index >= 0:
                self._tracker.delivered(entry)
            return items
        if self._resume_position.is_seen(entry):
            return []
        items = self._unpack(entry)
        first = self._resume_position.first_index(entry.position)
        if first is not None:
            items = [item for item in items if item.batch_index >= first]
        self._resume_position.see(entry.position)
        return items

    def _unheld(self, entry: Entry) -> list[T]:
        """Return the contents of the entry that the application does not have."""
        held = self.redelivery.held
        bits = held.bits(entry.position) if held else 0
        if not bits:  # promise[always]: held parts of a batch stay out after a reconnect
            return self._unpack(entry)
        if not entry.unacked & ~bits:
            return []
        return [item for item in self._unpack(entry) if not bits >> item.batch_index & 1]

    def _chunk_rcvd(self, joiner: ChunkJoiner, chunk: Entry) -> list[T]:
        """Add a chunk; return the joined message, once it is complete."""
        # promise: held chunked messages are left out after a reconnect
        if self.redelivery.held and self.redelivery.held.bits(chunk.position):
            return []
        if self._resume_position.is_on:
            if self._resume_position.is_seen(chunk):
                return []
            self._resume_position.see(chunk.position)
        outcome = joiner.add(chunk, self.clock.now_s())
        self._chunks_given_up(outcome.given_up)
        acks = self.subscription.ack_oldest_chunked
        self._chunks_given_up(outcome.displaced, DISCARD if acks else None)
        self.ack_sender.ack_entries(one.position for one in outcome.superfluous)
        if outcome.orphan:
            self._report(chunk.unreadable(outcome.orphan), [chunk.position], 0)
        if self._chunk_timer is None and joiner:
            self._schedule_expiry(joiner)
        if outcome.entry is None:
            return []
        outcome.entry.reader = self._reader
        self._tracker.delivered(outcome.entry)
        return self._unpack(outcome.entry)

    def _schedule_expiry(self, joiner: ChunkJoiner) -> None:
        due_s = joiner.next_expiry_s()
        if due_s is not None:
            self._chunk_timer = self.clock.at(due_s, partial(self._expire_chunks, joiner))

    def _expire_chunks(self, joiner: ChunkJoiner) -> None:
        self._chunk_timer = None
        self._chunks_given_up(joiner.expired(self.clock.now_s()))
        self._schedule_expiry(joiner)

    def _chunks_given_up(
        self, given_up: list[tuple[list[Entry], str]], action: str | None = None
    ) -> None:
        for chunks, why in given_up:
            if chunks:  # their permits were returned on arrival
                positions = [chunk.position for chunk in chunks]
                self._report(chunks[0].unreadable(why), positions, 0, action)

    def _unreadable_rcvd(self, error: Unreadable, position: tuple[int, int], permits: int) -> None:
        is_new = not self._resume_position.is_on or self._resume_position.see_unreadable(position)
        action = None
        if isinstance(error, DecryptionFailed) and self.subscription.on_undecryptable == DISCARD:
            action = DISCARD
        is_queued = is_new and self._report(error, [position], permits, action)
        self.permits.came(permits, permits if is_queued else 0)
        if not is_queued:
            self.permits.left_out(permits)

    def _report(
        self,
        error: Unreadable,
        positions: list[tuple[int, int]],
        permits: int,
        action: str | None = None,
    ) -> bool:
        """Count and log an unreadable entry; tell whether its error is queued for the application.

        `action` is used in place of the subscription's on_unreadable.
        """
        action = action or self.subscription.on_unreadable
        self.counts.unreadable_entries += 1
        fields = about(
            topic=self.topic,
            subscription=self.subscription.name,
            message_id=error.message_id.text(),
        )
        logger.warning("%s (on_unreadable=%s)", error, action, extra=fields)
        if action == FAIL:
            self._inbox.put_failure(Failure(error, self, permits))
        elif action == DISCARD:
            self.ack_sender.ack_entries(positions)
        return action == FAIL

    # -- registration

    async def _register(self, connection: Connection) -> None:
        self._registrations += 1
        connection.add_consumer(self._id, self)
        was_seeking, self._seeking = self._seeking, False
        try:
            await connection.request(self._subscribe_command())
            if self._resume_position.is_open:
                ends = await ask_ends(connection, self._id, self.partition)
                if self._resume_position.pin(*ends):
                    await connection.request(pb.CommandCloseConsumer(consumer_id=self._id))
                    await connection.request(self._subscribe_command())
        except BaseException:
            connection.remove_consumer(self._id)
            connection.send_only(pb.CommandCloseConsumer(consumer_id=self._id))
            self._seeking = was_seeking
            raise
        if not self._resume_position.is_on or was_seeking:
            # The broker redelivers unacknowledged messages.
            self._drop_queued()
            if was_seeking:
                self.redelivery.sought()
            else:
                self.redelivery.begin_anew()
        # Acknowledgements go first: acknowledged messages are then not redelivered.
        self.ack_sender.send_on(connection)
        self.permits.begin(connection)
        # With queue_size=0, a waiting application asks again after this method has returned.
        self._inbox.wake()

    def _drop_queued(self) -> int:
        """Drop the messages that the application has not taken: they are redelivered.

        Returns the number of their permits that have not been given back.
        """
        dropped = self._inbox.drop(self)
        self._tracker.begin_anew()
        if self._joiner is not None:
            self._joiner.clear()
        return self.permits.dropped(dropped)

    def _register_anew(self, connection: Connection) -> None:
        """End the registration on this connection, if it still exists, and register again."""
        if self._registration.connection is connection and connection.is_open:
            connection.remove_consumer(self._id)
            connection.send_only(pb.CommandCloseConsumer(consumer_id=self._id))
            self.detached(connection, ConnectionLost("the consumer registers again"))

    def _subscribe_command(self) -> pb.CommandSubscribe:
        command = self.subscription.to_pb(self.topic, self._id)
        self._resume_position.describe(command, self.clock.now_ms())
        epoch = self.redelivery.raise_epoch()
        if epoch is not None:
            command.consumer_epoch = epoch
        return command

    # -- redelivery

    def ask_again(self, positions: list[tuple[int, int]] | None) -> None:
        """Request the redelivery of these entries, or of all (None)."""
        connection = self._registration.connection
        if connection is None or not connection.is_open:
            return  # all will be delivered again
        # promise: acknowledgements go before the request to deliver again
        self.ack_sender.send_again()
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
        for ledger, entry in positions or ():
            command.message_ids.add(ledgerId=ledger, entryId=entry, partition=self.partition)
        if positions is None:
            # promise[raise_epoch() -> epoch]: a redelivery raises the epoch
            epoch = self.redelivery.raise_epoch()
            if epoch is not None:
                command.consumer_epoch = epoch
            dropped = self._drop_queued()
            connection.write(encode(command))
            self.permits.left_out(dropped)
        else:
            connection.write(encode(command))
