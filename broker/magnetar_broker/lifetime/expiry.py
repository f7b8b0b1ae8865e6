"""Messages that are too old count as acknowledged, and subscriptions that nobody uses end."""

import logging
from typing import Protocol

from magnetar_broker.compaction.rules import COMPACTION_CURSOR
from magnetar_broker.lifetime.idleness import Idleness
from magnetar_broker.limits import TopicLimits
from magnetar_broker.policies import SUBSCRIPTION_EXPIRATION, Policies
from magnetar_broker.subscribing.skipping import expire_before
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.subscribing.subscriptions import Subscriptions
from magnetar_proto.names import TopicName
from magnetar_storage.cursor_log import CursorLog, DurableCursor
from magnetar_storage.log import Log
from magnetar_storage.sides import IDLENESS

logger = logging.getLogger(__name__)


class Expiring(Protocol):
    """A topic, as far as what expires of it."""

    name: TopicName
    log: Log
    cursors: CursorLog
    limits: TopicLimits
    policies: Policies
    idleness: Idleness | None

    @property
    def subscriptions(self) -> Subscriptions: ...

    async def first_since(self, timestamp_ms: int) -> int: ...


async def expire_messages(topic: Expiring) -> None:
    """Acknowledge for every subscription what is older than the topic's messages may get."""
    seconds = topic.limits.message_ttl_seconds
    if seconds > 0:
        await expire_older(topic, seconds, everybody(topic))


def everybody(topic: Expiring) -> list[Subscription]:
    """Every subscription whose messages expire: not the broker's own."""
    return [one for one in topic.subscriptions.values() if one.name != COMPACTION_CURSOR]


async def expire_older(topic: Expiring, seconds: int, subscriptions: list[Subscription]) -> None:
    """The same for some subscriptions and any age; durable on return."""
    behind = [one for one in subscriptions if one.next_unacked() < topic.log.end]
    if not behind:
        return
    since_ms = topic.log.engine.clock.now_ms() - seconds * 1000
    oldest_ms = await min(behind, key=Subscription.next_unacked).oldest_ms()
    if oldest_ms is not None and oldest_ms >= since_ms:
        return  # as nearly always: nothing was searched
    offset = await topic.first_since(since_ms)
    for subscription in behind:
        if subscription.next_unacked() < offset:
            await expire_before(subscription, offset)


async def expire_subscriptions(topic: Expiring, seconds: int) -> None:
    """Delete durable subscriptions that nobody has used for too long.

    To be called every so many seconds: only these count, not what a clock says, nor the time
    while the topic was not loaded.
    """
    minutes = topic.limits.subscription_expiration_minutes
    if minutes <= 0:
        return
    idleness = topic.idleness
    if idleness is None:
        idleness = topic.idleness = Idleness()
        topic.cursors.adopt(IDLENESS, idleness)
    durable = [
        (one, one.cursor) for one in everybody(topic) if isinstance(one.cursor, DurableCursor)
    ]
    for subscription, cursor in durable:
        idleness.look(cursor, subscription.joined, bool(subscription.consumers), seconds)
    idleness.keep({cursor.number for cursor in topic.cursors.cursors.values()})
    if idleness.worth_writing(minutes * 60):
        topic.cursors.side_changed(IDLENESS)
    for subscription, cursor in durable:
        if idleness.seconds(cursor) >= minutes * 60 and not subscription.consumers:
            await _end(topic, subscription, minutes)


async def _end(topic: Expiring, subscription: Subscription, minutes: int) -> None:
    origin = topic.policies.resolve(SUBSCRIPTION_EXPIRATION, topic.name).origin
    logger.info(
        "subscription %s of %s is deleted: nobody has used it for %d minutes "
        "(subscriptionExpirationTime of the %s)",
        subscription.name, topic.name, minutes, origin,
    )  # fmt: skip
    await topic.subscriptions.remove(subscription)
