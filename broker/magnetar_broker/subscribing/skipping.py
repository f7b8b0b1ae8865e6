"""Acknowledging for a subscription what its consumers did not: expiry, skipping, clearing.

Everything here is on disk when it returns.  Consumers that hold what was skipped keep it, may
acknowledge it, and do not get it again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from magnetar_broker.subscribing.parts import whole
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_proto.ids import MessageId
from magnetar_storage.log import Log


class Place(NamedTuple):
    """Between two messages: an entry, and which of its messages are behind, if not all."""

    offset: int
    left: int | None


async def skip_runs(subscription: Subscription, runs: Iterable[range]) -> int:
    """Some entries; returns how many messages that were."""
    before = (await subscription.backlog()).messages
    subscription.skip(*runs)
    await subscription.settled()
    return max(before - (await subscription.backlog()).messages, 0)


async def expire_before(subscription: Subscription, offset: int) -> int:
    """All before an offset, because they are too old; returns how many messages that were."""
    messages = await skip_runs(subscription, [range(offset)])
    if messages:
        subscription.messages_expired += messages
        subscription.last_expired_ms = subscription.topic.log.engine.clock.now_ms()
    return messages


async def skip_messages(subscription: Subscription, messages: int) -> None:
    """The oldest ones, so many; a batch is cut where parts of it can be acknowledged."""
    offset, left = await subscription.nth_unacked(messages)
    if left is None:
        subscription.skip(range(offset))
    elif subscription.topic.limits.batch_index_acks:
        subscription.skip(range(offset), partly=(offset, left))
    else:
        subscription.skip(range(offset + 1))
    await subscription.settled()


async def skip_all(subscription: Subscription) -> None:
    """Everything that there is."""
    subscription.skip(range(subscription.topic.log.end))
    await subscription.settled()


async def expire_through(subscription: Subscription, place: Place) -> None:
    """All before a place, because they are too old; a batch is cut only where that is possible."""
    offset, left = place
    await expire_before(subscription, offset)
    if left is not None and subscription.topic.limits.batch_index_acks:
        subscription.skip(partly=(offset, left))
        await subscription.settled()


async def place_in(log: Log, message: MessageId, behind: bool) -> Place:
    """Where a message is, or the next one after it; `behind` it if that is wanted."""
    offset = log.seek(message.ledger, message.entry)
    if log.offset_of(message.ledger, message.entry) != offset:
        return Place(offset, None)
    messages = await log.messages_before(offset + 1) - await log.messages_before(offset)
    in_batch = message.batch_index >= 0 and messages > 1
    gone = message.batch_index + behind if in_batch else messages * behind
    if gone >= messages:
        return Place(offset + 1, None)
    mask = whole(messages)
    return Place(offset, mask >> gone << gone if gone and mask is not None else None)
