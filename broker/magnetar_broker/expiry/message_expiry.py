"""Expiry of messages by TTL, and of unused subscriptions."""

import logging
from typing import Protocol

from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.policies.table import SUBSCRIPTION_EXPIRATION
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.subscriptions.finding import first_since
from magnetar_broker.subscriptions.idleness import Idleness
from magnetar_broker.subscriptions.skipping import expire_before
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.subscriptions.topic_subscriptions import Subscriptions
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.attached_state import IDLENESS
from magnetar_storage.cursors.cursor_log import CursorLog, DurableCursor
from magnetar_storage.log.log import Log

logger = logging.getLogger(__name__)


class Expiring(Protocol):
    """The parts of a topic that message expiry uses."""

    name: TopicName
    log: Log
    cursors: CursorLog
    limits: TopicLimits
    shared_limits: SharedLimits
    policies: PolicyView
    idleness: Idleness | None

    @property
    def subscriptions(self) -> Subscriptions: ...


async def expire_messages(topic: Expiring) -> None:
    """Acknowledge messages older than the topic's TTL for every subscription."""
    seconds = topic.limits.message_ttl_seconds
    if seconds > 0:
        await expire_older(topic, seconds, expiring_subscriptions(topic))


def expiring_subscriptions(topic: Expiring) -> list[Subscription]:
    """Return all subscriptions whose messages expire: all but compaction's."""
    # Pulsar does the same: that cursor holds what is to be compacted, and expiry would release it.
    return [one for one in topic.subscriptions.values() if one.name != COMPACTION_CURSOR]


async def expire_older(topic: Expiring, seconds: int, subscriptions: list[Subscription]) -> None:
    """Acknowledge messages older than `seconds` for some subscriptions; durable on return."""
    behind = [one for one in subscriptions if one.next_unacked() < topic.log.end]
    if not behind:
        return
    # promise[1000 -> 500]: the time to live is in seconds
    since_ms = topic.shared_limits.clock_watch.now_ms() - seconds * 1000
    # The subscription furthest behind has the oldest message: if that is young enough, all are.
    oldest_ms = await min(behind, key=Subscription.next_unacked).counter.oldest_ms(estimates=True)
    if oldest_ms is not None and oldest_ms >= since_ms:
        return  # the usual case, without a search
    # Messages that an open transaction holds back were delivered to nobody: they do not expire.
    offset = min(await _first_young(topic.log, since_ms), topic.log.visible_end)
    for subscription in behind:
        if subscription.next_unacked() < offset:
            await expire_before(subscription, offset)


async def _first_young(log: Log, since_ms: int) -> int:
    """Return the offset of the first message that is young enough.

    Messages of a ledger that is only in a store of objects expire together, when the last one is
    old enough: one store that does not answer would hold up the expiry of all topics.
    """
    offset = log.closed_before(since_ms)
    # promise[offset < log.end and log.is_remote(offset) -> False]: expiry reads no store of objects
    if offset < log.end and log.is_remote(offset):
        return offset
    return await first_since(log, since_ms, offset)


async def expire_subscriptions(topic: Expiring, seconds: int) -> None:
    """Delete durable subscriptions that have been idle for too long.

    Call it every `seconds`: idle time counts only these calls, neither clock changes nor the time
    while the topic was not loaded.
    """
    minutes = topic.limits.subscription_expiration_minutes
    if minutes <= 0:
        return
    idleness = topic.idleness
    if idleness is None:
        idleness = topic.idleness = Idleness.attached(topic.cursors)
    durable = [
        (one, one.cursor)
        for one in expiring_subscriptions(topic)
        if isinstance(one.cursor, DurableCursor)
    ]
    for subscription, cursor in durable:
        idleness.look(cursor, subscription.joined, bool(subscription.consumers), seconds)
    idleness.keep({cursor.number for cursor in topic.cursors.cursors.values()})
    if idleness.worth_writing(minutes * 60):
        topic.cursors.state_changed(IDLENESS)
    for subscription, cursor in durable:
        if idleness.seconds(cursor) >= minutes * 60 and not subscription.consumers:
            await _end(topic, subscription, minutes)


async def _end(topic: Expiring, subscription: Subscription, minutes: int) -> None:
    origin = topic.policies.resolve(SUBSCRIPTION_EXPIRATION, topic.name).origin
    logger.info(
        "subscription %s of %s is deleted after %d idle minutes "
        "(subscriptionExpirationTime of the %s)",
        subscription.name, topic.name, minutes, origin,
    )  # fmt: skip
    await subscription.delete()
