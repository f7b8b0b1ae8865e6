"""Acknowledges messages on behalf of consumers: expiry, skipping, clearing.

Everything here is durable when it returns.  Consumers keep skipped messages that they have
received; they may acknowledge them and do not get them again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from magnetar_broker.subscriptions.batch_masks import full_mask
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_proto.ids import MessageId
from magnetar_storage.log.log import Log


class SkipPosition(NamedTuple):
    """A place between two messages."""

    offset: int
    """The first entry that has messages after the place."""
    left: int | None
    """The mask of those messages; None for all of the entry."""


async def skip_runs(subscription: Subscription, runs: Iterable[range]) -> int:
    """Skip some entries; return the number of messages that were skipped."""
    # Count by the difference: runs can contain acknowledged entries and parts of batches.
    before = (await subscription.backlog()).messages
    subscription.skip(*runs)
    await subscription.settled()  # promise: expired messages stay expired after a crash
    return max(before - (await subscription.backlog()).messages, 0)


async def expire_before(subscription: Subscription, offset: int) -> int:
    """Expire all messages before an offset; return their number."""
    messages = await skip_runs(subscription, [range(offset)])
    # Nothing has expired if all of it was acknowledged: the time in statistics stays.
    if messages:
        subscription.messages_expired += messages
        subscription.last_expired_ms = subscription.topic.traffic.now_ms()
    return messages


async def skip_messages(subscription: Subscription, messages: int) -> None:
    """Skip the oldest `messages`.

    A batch is split if `acknowledgmentAtBatchIndexLevelEnabled` is set, else skipped as a whole.
    """
    offset, left = await subscription.counter.nth(messages)
    if left is None:
        subscription.skip(range(offset))
    elif subscription.topic.limits.batch_index_acks:
        subscription.skip(range(offset), partly=(offset, left))
    else:
        subscription.skip(range(offset + 1))
    await subscription.settled()


async def skip_all(subscription: Subscription) -> None:
    """Skip everything."""
    subscription.skip(range(subscription.topic.log.end))
    await subscription.settled()


async def expire_through(subscription: Subscription, place: SkipPosition) -> None:
    """Expire all messages before a place; a batch that cannot be split stays."""
    offset, left = place
    await expire_before(subscription, offset)
    if left is not None and subscription.topic.limits.batch_index_acks:
        subscription.skip(partly=(offset, left))
        await subscription.settled()


async def place_in(log: Log, message: MessageId, behind: bool) -> SkipPosition:
    """Return the place before a message, or after it; without it, the place before the next."""
    offset = log.seek(message.ledger, message.entry)
    # The message is gone or never was: there is no entry of which a part could stay.
    if log.offset_of(message.ledger, message.entry) != offset:
        return SkipPosition(offset, None)
    entries = log.entries
    messages = await entries.messages_before(offset + 1) - await entries.messages_before(offset)
    in_batch = message.batch_index >= 0 and messages > 1
    before = message.batch_index + behind if in_batch else messages * behind
    if before >= messages:
        return SkipPosition(offset + 1, None)
    mask = full_mask(messages)
    return SkipPosition(offset, mask >> before << before if before and mask is not None else None)
