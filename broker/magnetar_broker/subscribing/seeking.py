"""Moving a subscription's cursor to where somebody wants to go on."""

from typing import Protocol

from magnetar_broker.dispatch.base import Dispatcher
from magnetar_broker.dispatch.compacted import CompactedReading, Start
from magnetar_broker.errors import UnknownTrouble
from magnetar_broker.subscribing.parts import mask_of
from magnetar_broker.subscribing.subscribed_topic import SubscribedTopic
from magnetar_proto.ids import MessageId
from magnetar_storage.cursor import Cursor
from magnetar_storage.cursor_log import DurableCursor
from magnetar_storage.world import Promise

RETURN_SECONDS = 60.0
"""How long a reader that a seek has sent away may take to come back to its new place."""


class Movable(Protocol):
    """A subscription, as far as that goes."""

    name: str
    topic: SubscribedTopic
    cursor: Cursor
    dispatcher: Dispatcher
    moving: Promise | None
    """While a seek runs: done when it ends."""
    reading: CompactedReading | None
    """Where it reads compacted, if it does."""

    def forget_if_unused(self) -> None:
        """A non-durable subscription ends with its last consumer, but not while it is moved."""


async def seek_to_id(subscription: Movable, position: MessageId, ack_set: tuple[int, ...]) -> None:
    """Continue with this message; `ack_set` tells which of its batch are still wanted."""
    log = subscription.topic.log
    if position.is_latest:
        await seek(subscription, log.end)
        return
    offset = log.seek(position.ledger, position.entry)
    if subscription.reading is not None:
        offset = await subscription.topic.compaction.offset_at(position)
    exact = log.offset_of(position.ledger, position.entry) == offset
    await seek(subscription, offset, mask_of(log, offset, ack_set) if ack_set and exact else None)


async def seek_to_time(subscription: Movable, timestamp_ms: int) -> None:
    """Continue with the first message published at or after a time."""
    offset = await subscription.topic.first_since(timestamp_ms)
    if subscription.reading is not None and offset <= subscription.topic.log.first_offset:
        offset = 0
    await seek(subscription, offset)


async def seek(subscription: Movable, offset: int, mask: int | None = None) -> None:
    """Make `offset` the next entry; who may hold others is disconnected and comes back.

    `mask` says which messages of that entry are still wanted.  Durable on return.
    """
    if subscription.moving is not None:
        raise UnknownTrouble(f"subscription {subscription.name} is being moved by another seek")
    clock = subscription.topic.log.engine.clock
    subscription.moving = clock.promise()
    try:
        _move(subscription, offset, mask)
        if isinstance(subscription.cursor, DurableCursor):
            subscription.topic.cursors.changed(subscription.cursor)
            await _keep_start(subscription, subscription.cursor)
            await subscription.topic.cursors.durable()
    finally:
        moving, subscription.moving = subscription.moving, None
        moving.set_result(None)
        if not isinstance(subscription.cursor, DurableCursor):
            clock.later(RETURN_SECONDS, subscription.forget_if_unused)


def _move(subscription: Movable, offset: int, mask: int | None) -> None:
    log, cursor, dispatcher = subscription.topic.log, subscription.cursor, subscription.dispatcher
    cursor.reset(offset - 1)
    log.skip_holes(cursor)
    if subscription.reading is not None:
        subscription.reading.start = Start(offset, cursor.mark_delete)
    if mask is not None:
        cursor.ack_batch(offset, mask)
    for consumer in dispatcher.receivers():
        consumer.disconnect()
    dispatcher.rewind()
    dispatcher.dispatch()


async def _keep_start(subscription: Movable, cursor: DurableCursor) -> None:
    """A durable subscription knows after a restart, too, where reading compacted begins."""
    if subscription.reading is not None and subscription.reading.start is not None:
        start = subscription.reading.start.as_properties()
        await subscription.topic.cursors.set_properties(cursor, cursor.properties | start)
