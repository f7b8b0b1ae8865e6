"""Giving back what a topic need not keep, as `retention` decides."""

from typing import Protocol

from magnetar_broker.delays import TopicDelays
from magnetar_broker.lifetime.retention import Need, Verdict, deletable_to, released_to, verdicts
from magnetar_broker.limits import TopicLimits
from magnetar_broker.publishing.deduplication import Deduplication
from magnetar_broker.subscribing.subscriptions import Subscriptions
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.log import Log
from magnetar_storage.thinnable import needed_by


class Tidied(Protocol):
    """A topic, as far as what it keeps."""

    log: Log
    cursors: CursorLog
    limits: TopicLimits
    deduplication: Deduplication
    delays: TopicDelays


class Truncated(Tidied, Protocol):
    """The same with its subscriptions."""

    @property
    def subscriptions(self) -> Subscriptions: ...


def judged(topic: Tidied) -> list[Verdict]:
    """What becomes of each of a topic's segments, the oldest first."""
    log = topic.log
    # Not only those of `subscriptions`: a cursor that is being created counts as well.
    needs = [Need(cursor.name, cursor.mark_delete) for cursor in topic.cursors.cursors.values()]
    max_age_ms, now_ms = log.engine.roll.max_age_ms, log.engine.clock.now_ms()
    return verdicts(
        log.segments, log.first_offset, log.size, needs, topic.limits.retention, max_age_ms, now_ms
    )


async def tidy(topic: Tidied) -> None:
    """Roll over a segment that is old, and give back what may go."""
    log = topic.log
    log.roll_if_due()
    await log.rolled()
    if log.segments and log.segments[0].entries is not None:
        released = released_to(judged(topic), log.first_offset)
        released = await topic.deduplication.released_to(released)
        deletable = deletable_to(judged(topic), log.first_offset)  # somebody may have gone back
        await log.trim(min(deletable, released))
        await log.reclaim(needed_by(topic.cursors.cursors.values()), released)
    await topic.delays.tidy()


async def truncate(topic: Truncated) -> None:
    """Acknowledge everything for everybody, and delete every closed segment, retained or not.

    What is published meanwhile stays.
    """
    log, end = topic.log, topic.log.end
    for subscription in topic.subscriptions.values():
        subscription.skip(range(end))
    await topic.cursors.durable()
    await log.trim(await topic.deduplication.released_to(end))
