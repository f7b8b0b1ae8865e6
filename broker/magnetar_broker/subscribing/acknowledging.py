"""What an ACK does to a subscription's cursor, and to what its consumers hold."""

from collections.abc import Sequence
from typing import Protocol

from magnetar_broker.dispatch.base import Dispatcher
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_broker.subscribing.parts import mask_of
from magnetar_broker.subscribing.subscribed_topic import SubscribedTopic
from magnetar_storage.cursor import Cursor


class Acknowledged(Protocol):
    """A subscription, as far as that goes."""

    topic: SubscribedTopic
    cursor: Cursor
    dispatcher: Dispatcher


def ack_each(
    subscription: Acknowledged, consumer: Consumer, ids: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    """Single ones: ledger, entry, ack set.  Whole entries of a ledger, as nearly all are, go
    together; positions that are not there are passed over."""
    at_ledger, entries = -1, list[int]()
    for ledger, entry, ack_set in ids:
        if ack_set:
            _ack_batch(subscription, consumer, ledger, entry, ack_set)
        elif ledger == at_ledger:
            entries.append(entry)
        else:
            _ack_whole(subscription, consumer, at_ledger, entries)
            at_ledger, entries = ledger, [entry]
    _ack_whole(subscription, consumer, at_ledger, entries)


def _ack_whole(
    subscription: Acknowledged, consumer: Consumer, ledger: int, entries: list[int]
) -> None:
    if not entries:
        return
    log, cursor = subscription.topic.log, subscription.cursor
    run = range(entries[0], entries[0] + len(entries))
    if entries[-1] == run[-1] and entries == list(run):
        offsets: Sequence[int] = log.offsets_of(ledger, run.start, run.stop)
        cursor.ack(offsets)
    else:
        offsets = log.offsets_among(ledger, entries)
        cursor.ack_scattered(offsets)
    if offsets:
        subscription.dispatcher.acked_whole(consumer, offsets)


def _ack_batch(
    subscription: Acknowledged,
    consumer: Consumer,
    ledger: int,
    entry: int,
    ack_set: tuple[int, ...],
) -> None:
    topic, cursor = subscription.topic, subscription.cursor
    offset = topic.log.offset_of(ledger, entry)
    if offset is None or not topic.limits.batch_index_acks:
        return
    mask = mask_of(topic.log, offset, ack_set)
    if mask is None:
        return
    cursor.ack_batch(offset, mask)
    left = cursor.partial.get(offset, 0).bit_count()
    subscription.dispatcher.acked(consumer, offset, left)


def ack_up_to(
    subscription: Acknowledged, ledger: int, entry: int, ack_set: tuple[int, ...]
) -> None:
    """Everything to an entry, which is there, or to some of its batch; else nothing."""
    topic, cursor = subscription.topic, subscription.cursor
    offset = topic.log.offset_of(ledger, entry)
    if offset is None:
        return
    if not ack_set:
        cursor.ack_up_to(offset)
        return
    cursor.ack_up_to(offset - 1)
    mask = mask_of(topic.log, offset, ack_set) if topic.limits.batch_index_acks else None
    if mask is not None:
        cursor.ack_batch(offset, mask)
