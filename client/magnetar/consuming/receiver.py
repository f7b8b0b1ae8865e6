"""Receives the entries of one partition from the connection, and queues their messages."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from magnetar.base.errors import Damaged, MagnetarError, Unreadable
from magnetar.connections.connection import Connection
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.chunked_messages import ChunkedMessages
from magnetar.consuming.epochs import Epochs
from magnetar.consuming.inbox import Failure
from magnetar.consuming.queued_messages import QueuedMessages
from magnetar.consuming.redelivery import Redelivery
from magnetar.consuming.resume_position import ResumePosition
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.unacked_messages import UnackedMessages
from magnetar.consuming.unreadable_entries import UnreadableEntries
from magnetar.encryption.receiving import Decrypting
from magnetar.messages import Entry, Message, plain_message
from magnetar_proto.deliveries import Delivery, DeliveryRun
from magnetar_proto.ids import MessageId

T = TypeVar("T", bound=Message[Any] | Entry)


class Receiver(Generic[T]):
    """Queues messages that are new to the application, and returns the permits of the others.

    `unpack` converts an entry to items of the queue: its messages, or the entry itself.  Without
    `chunked`, chunks are entries like others.
    """

    def __init__(
        self,
        subscriber: Subscriber[T],
        unpack: Callable[[Entry], list[T]],
        ack_sender: AckSender,
        tracker: AckTracker,
        resume_position: ResumePosition,
        epochs: Epochs,
        unacked: UnackedMessages,
        queued: QueuedMessages[T],
        redelivery: Redelivery,
        unreadable: UnreadableEntries,
        chunked: ChunkedMessages | None,
    ) -> None:
        self.is_active: bool | None = None
        """Whether this consumer of a failover subscription is active; None until that is known."""
        self.is_at_end = False
        """Whether the topic is terminated and all its messages are acknowledged."""
        self.is_seeking = False
        """Whether arriving entries precede a seek; they are dropped and return no permits."""
        self._subscriber = subscriber
        self._inbox = subscriber.inbox
        self._counts = subscriber.counts
        self._options = options = subscriber.options
        self._unpack = unpack
        schema = options.schema
        # A schema that needs that of the writer decodes later: `Inbox.prepare` waits for it.
        self._reader = None if schema is None or schema.needs_writer else schema
        self._ack_sender = ack_sender
        self._tracker = tracker
        self._resume_position = resume_position
        self._epochs = epochs
        self._unacked = unacked
        self._queued = queued
        self._permits = queued.permits
        self._redelivery = redelivery
        self._unreadable = unreadable
        self._chunked = chunked
        joins, policy = chunked is not None, options.dead_letter
        self._may_give_up = policy is not None
        self._takes_messages = joins and (policy is None or policy.max_redeliveries > 0)
        self._decrypting: Decrypting | None = None
        if joins or options.key_reader is not None:  # else entries are passed on undecoded
            left_out, clock = redelivery.left_unacked, subscriber.clock
            self._decrypting = Decrypting(
                options.key_reader, options.on_undecryptable, left_out, clock
            )

    # -- for the connection

    def entries_rcvd(self, run: DeliveryRun) -> None:
        head = run.head
        if self.is_seeking:
            return  # they precede the seek; the registration after it begins with new permits
        # The entries of a run have the head in common, so it decides for all of them.
        if not self._is_usual(head):
            for number, data in zip(run.entries, run.payloads, strict=True):
                self._entry_rcvd(head._replace(entry=number), data)
            return
        subscriber = self._subscriber
        source, topic, partition = subscriber.source, subscriber.topic, subscriber.partition
        delivered, ledger, reader = self._unacked.delivered, head.ledger, self._reader
        messages: list[Any] = []
        size = 0
        for number, data in zip(run.entries, run.payloads, strict=True):
            message = plain_message(source, topic, ledger, number, partition, data)
            # promise[without or (delivered and delivered.bits((ledger, number)))]: held messages
            #   stay out
            if message is None or (delivered and delivered.bits((ledger, number))):
                self._plain_rcvd(messages, size)  # before this entry, to keep the order
                messages, size = [], 0
                self._entry_rcvd(head._replace(entry=number), data)
            else:
                message.entry.reader = reader
                messages.append(message)
                size += len(data)
        self._plain_rcvd(messages, size)

    def active_changed(self, is_active: bool) -> None:
        # promise: an active consumer that is replaced drops what it holds
        if self.is_active and not is_active and self._unacked.holds:
            # The consumer that is active now gets them.
            self._permits.left_out(self._queued.drop())
        self.is_active = is_active
        if self._options.on_active_change is not None:
            self._options.on_active_change(self._subscriber.topic, is_active)

    def damaged(self, first: MessageId, entries: int, why: str) -> None:
        stops = not self._options.is_shared
        error = Damaged(self._subscriber.topic, first, entries, why, stops)
        # promise: a consumer that stops at damage is told so, after what it got before
        self._inbox.put_failure(Failure(error, self._subscriber.source, 0))

    def end_reached(self) -> None:
        self.is_at_end = True

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        self._ack_sender.detached()
        self._subscriber.registration.detached(connection, new_owner)

    # -- entries

    def _is_usual(self, head: Delivery) -> bool:
        """Tell whether the fate of the entry depends on nothing but the entry itself."""
        # A redelivered entry may be a dead letter or replace queued messages, an ack set leaves a
        # part of the batch out, and readers skip what lies before their position.
        return not (
            not self._takes_messages
            or head.redelivery_count
            or head.ack_set
            or self._resume_position.is_on
            or self._epochs.is_stale(head.consumer_epoch)
        )

    def _plain_rcvd(self, messages: list[Any], size: int) -> None:
        """Queue messages that are entries by themselves, of `size` bytes in total."""
        count = len(messages)
        if count:
            self._counts.received(count, count, size, is_redelivered=False)
            self._permits.entry_received(count, count)
            self._inbox.put(messages)
            # Permits of messages that a waiting application is about to take: the broker can send
            # others while it works on these.
            self._permits.claimed(self._inbox.claim(count))

    def _entry_rcvd(self, delivery: Delivery, data: bytes) -> None:
        position = (delivery.ledger, delivery.entry)
        entry_permits = 1  # the most likely count if the metadata, which holds it, is damaged
        try:
            entry = Entry(
                self._subscriber.topic,
                (*position, self._subscriber.partition),
                data,
                redelivery_count=delivery.redelivery_count,
                ack_set=delivery.ack_set,
                source=self._subscriber.source,
            )
            entry_permits = entry.permits
            is_redelivered = delivery.redelivery_count > 0
            self._counts.received(1, entry_permits, len(data), is_redelivered)
            items: list[T] = []
            # promise[always]: messages of an older epoch are dropped
            if not self._epochs.is_stale(delivery.consumer_epoch):
                items = self._items_of(entry)
        except Unreadable as error:
            self._unreadable_rcvd(error, position, entry_permits)
            return
        if self._may_give_up and items and self._redelivery.gives_up(items):
            items = []
        # promise: after an abort a part of a batch comes once
        if delivery.redelivery_count and self._permits.queued and items:
            self._queued.supersede(items[0], position)
        permits = sum(item.permits for item in items)
        self._permits.entry_received(entry_permits, permits)
        self._inbox.put(items)
        if permits == len(items):  # `claim` counts items: an undecoded batch is one of many permits
            self._permits.claimed(self._inbox.claim(permits))
        if permits < entry_permits:  # messages that were acknowledged, held or moved away
            self._permits.left_out(entry_permits - permits)

    def _unreadable_rcvd(self, error: Unreadable, position: tuple[int, int], permits: int) -> None:
        resume = self._resume_position
        # A reader that has reconnected gets the entry again, but reports it once.
        is_new = not resume.is_on or resume.see_unreadable(position)
        is_queued = is_new and self._unreadable.report(error, [position], permits)
        self._permits.entry_received(permits, permits if is_queued else 0)
        if not is_queued:
            self._permits.left_out(permits)

    # -- the items of an entry

    def _items_of(self, entry: Entry) -> list[T]:
        """Return the items of an entry that are new to the application; may raise Unreadable."""
        if entry.is_encrypted and self._decrypting is not None:
            self._decrypting.admit(entry)
        if self._chunked is not None and entry.is_chunk:
            return self._chunk_rcvd(self._chunked, entry)
        entry.reader = self._reader
        if self._resume_position.is_on:
            return self._behind_start(entry)
        items = self._undelivered(entry)
        if self._chunked is not None and items and items[0].batch_index >= 0:
            self._tracker.delivered(entry)
        return items

    def _behind_start(self, entry: Entry) -> list[T]:
        """Return the contents of the entry that are after the position of a reader."""
        if self._resume_position.is_seen(entry):
            return []
        items = self._unpack(entry)
        first = self._resume_position.first_index(entry.position)
        if first is not None:
            items = [item for item in items if item.batch_index >= first]
        self._resume_position.see(entry.position)
        return items

    def _undelivered(self, entry: Entry) -> list[T]:
        """Return the contents of the entry that the application does not have."""
        delivered = self._unacked.delivered
        bits = delivered.bits(entry.position) if delivered else 0
        if not bits:  # promise[always]: held parts of a batch stay out after a reconnect
            return self._unpack(entry)
        if not entry.unacked & ~bits:
            return []  # the application has every message that is left of the batch
        return [item for item in self._unpack(entry) if not bits >> item.batch_index & 1]

    def _chunk_rcvd(self, chunked: ChunkedMessages, chunk: Entry) -> list[T]:
        """Add a chunk; return the joined message, once it is complete."""
        delivered = self._unacked.delivered
        # promise: held chunked messages are left out after a reconnect
        if delivered and delivered.bits(chunk.position):
            return []
        if self._resume_position.is_on:
            if self._resume_position.is_seen(chunk):
                return []
            # Chunks of readers are kept over a reconnect, so none is needed twice.
            self._resume_position.see(chunk.position)
        joined = chunked.add(chunk)
        if joined is None:
            return []
        joined.reader = self._reader
        self._tracker.delivered(joined)
        return self._unpack(joined)
