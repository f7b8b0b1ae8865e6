"""Acknowledging for a subscription what its consumers did not: expiry, skipping, clearing.

Everything here is on disk when it returns.  Consumers that hold what was skipped keep it, may
acknowledge it, and do not get it again.
"""

from collections.abc import Iterable

from magnetar_broker.subscription import Subscription


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
