"""The parts of a partition's consumer, and their connections to each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.chunked_messages import ChunkedMessages
from magnetar.consuming.chunks import ChunkJoiner
from magnetar.consuming.epochs import Epochs
from magnetar.consuming.open_transactions import OpenTransactions
from magnetar.consuming.permits import Permits
from magnetar.consuming.queued_messages import QueuedMessages
from magnetar.consuming.receiver import Receiver
from magnetar.consuming.redelivery import Redelivery
from magnetar.consuming.redelivery_requests import RedeliveryRequests
from magnetar.consuming.resume_position import ResumePosition
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.unacked_messages import UnackedMessages
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.consuming.unreadable_entries import UnreadableEntries
from magnetar.messages import Entry, Message
from magnetar_proto.names import TopicName

T = TypeVar("T", bound=Message[Any] | Entry)


@dataclass(frozen=True, slots=True)
class ConsumerParts(Generic[T]):
    """The parts of a partition's consumer that `PartitionConsumer` uses itself."""

    permits: Permits
    tracker: AckTracker
    resume_position: ResumePosition
    epochs: Epochs
    unacked: UnackedMessages
    ack_sender: AckSender
    transactions: OpenTransactions
    queued: QueuedMessages[T]
    redelivery: Redelivery
    chunked: ChunkedMessages | None
    receiver: Receiver[T]


def assemble(
    subscriber: Subscriber[T], unpack: Callable[[Entry], list[T]], joins: bool
) -> ConsumerParts[T]:
    """Create the parts of a partition's consumer, and connect them.

    `unpack` converts an entry to items of the inbox: its messages, or the entry itself.  Chunks
    are joined if `joins`.
    """
    options = subscriber.options
    is_kept = TopicName.parse(subscriber.topic).is_persistent
    permits = Permits(
        subscriber.id,
        subscriber.registration,
        subscriber.inbox,
        options.queue_size,
        options.auto_scale_queue,
    )
    permits.is_paused = options.start_paused
    resume_position = ResumePosition(subscriber.topic, options)
    epochs = Epochs(is_kept and options.has_epochs)

    tracker = AckTracker(options.batch_index_acks)
    unconfirmed = UnconfirmedAcks(tracker)
    unacked = UnackedMessages(options, is_kept, unconfirmed, subscriber.counts)
    ack_sender = AckSender(subscriber, unconfirmed, unacked)

    joiner = ChunkJoiner(options.max_pending_chunked, options.chunk_expiry_s) if joins else None
    queued = QueuedMessages(subscriber, permits, tracker, joiner)
    requests = RedeliveryRequests(subscriber, ack_sender, epochs, queued)
    redelivery = Redelivery(subscriber, unacked, unconfirmed, requests, epochs)
    transactions = OpenTransactions(subscriber, unconfirmed, unacked, redelivery)

    unreadable = UnreadableEntries(subscriber, ack_sender)
    chunked = None
    if joiner is not None:
        chunked = ChunkedMessages(subscriber, joiner, unreadable, ack_sender)
    receiver = Receiver(
        subscriber, unpack, ack_sender, tracker, resume_position, epochs, unacked, queued,
        redelivery, unreadable, chunked,
    )  # fmt: skip
    if unacked.counts_taken and joins:
        subscriber.inbox.on_taken(subscriber.source, redelivery.taken)
    return ConsumerParts(
        permits, tracker, resume_position, epochs, unacked, ack_sender, transactions, queued,
        redelivery, chunked, receiver,
    )  # fmt: skip
