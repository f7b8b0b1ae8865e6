"""Backlog quotas: limits of the size and age of the slowest subscription's backlog.

The backlog is what a durable subscription has not acknowledged.  Delayed messages wait on purpose:
they count by their size, and not by their age.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from magnetar_broker.base.errors import BrokerError, ProducerBlocked, QuotaExceeded
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.dispatch.base import Delays
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.table import BACKLOG_QUOTA_AGE, BACKLOG_QUOTA_SIZE
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.topic_producers import Producers
from magnetar_broker.subscriptions.finding import first_since
from magnetar_broker.subscriptions.skipping import skip_runs
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.subscriptions.topic_subscriptions import Subscriptions
from magnetar_proto.names import TopicName
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import next_in_neither

logger = logging.getLogger(__name__)

EVICTED_TO_PERCENT: Final = 90
"""The share of a quota by size that an eviction leaves as backlog."""
REFUSALS: Final[dict[QuotaAction, type[BrokerError]]] = {
    QuotaAction.PRODUCER_REQUEST_HOLD: ProducerBlocked,
    QuotaAction.PRODUCER_EXCEPTION: QuotaExceeded,
}
"""The refusal of producers, by action."""


class QuotaTopic(Protocol):
    """The parts of a topic that backlog quotas use."""

    name: TopicName
    log: Log
    limits: TopicLimits
    shared_limits: SharedLimits
    policies: PolicyView
    producers: Producers
    evictions: tuple[int, int]
    """The numbers of evictions by size and by age, since the topic was loaded."""

    @property
    def delays(self) -> Delays: ...

    @property
    def subscriptions(self) -> Subscriptions: ...


@dataclass(frozen=True)
class Quota:
    """A type of quota: by size or by age."""

    policy: Policy[BacklogQuota]
    unit: str
    of: Callable[[TopicLimits], BacklogQuota]


class ExceededQuota(NamedTuple):
    """A quota that is exceeded, with the present size or age of the backlog."""

    quota: Quota
    limit: int
    action: QuotaAction
    present: int


SIZE: Final = Quota(BACKLOG_QUOTA_SIZE, "bytes", lambda limits: limits.size_quota)
AGE: Final = Quota(BACKLOG_QUOTA_AGE, "seconds", lambda limits: limits.age_quota)


async def admit_producer(topic: QuotaTopic) -> None:
    """Raise `ProducerBlocked` or `QuotaExceeded` while a quota is reached that stops producers."""
    for excess in await excesses(topic):
        if excess.action in REFUSALS:
            raise REFUSALS[excess.action](_text_of(topic, excess))


async def enforce_quotas(topic: QuotaTopic) -> None:
    """Apply exceeded quotas: disconnect producers, or acknowledge the oldest messages."""
    for excess in await excesses(topic):
        if excess.action in REFUSALS:
            _disconnect_producers(topic, excess)
        elif excess.quota is SIZE:
            await _evict_by_size(topic, excess)
        else:
            await _evict_by_age(topic, excess)


async def excesses(topic: QuotaTopic) -> list[ExceededQuota]:
    """Return the exceeded quotas: size, then age."""
    limits, found = topic.limits, list[ExceededQuota]()
    if limits.keeps_quotas and limits.size_quota.limit >= 0:
        size = backlog_bytes(topic)
        # A limit of 0 is exceeded by any backlog, but not by none.
        if size >= max(limits.size_quota.limit, 1):
            found.append(ExceededQuota(SIZE, *_parts(limits.size_quota), size))
    if limits.keeps_quotas and limits.age_quota.limit > 0:
        seconds = await backlog_seconds(topic)
        if seconds >= limits.age_quota.limit:
            found.append(ExceededQuota(AGE, *_parts(limits.age_quota), seconds))
    return found


def _parts(quota: BacklogQuota) -> tuple[int, QuotaAction]:
    return quota.limit, quota.action


def backlog_bytes(topic: QuotaTopic) -> int:
    """Return the largest backlog of a subscription, in bytes."""
    return max((one.counter.size() for one in held_by(topic)), default=0)


async def backlog_seconds(topic: QuotaTopic) -> int:
    """Return the age in seconds of the oldest message that a subscription waits for; 0 if none.

    It counts from when the message was published, if ages are to be precise, else from when its
    segment was closed.
    """
    log, waiting = topic.log, topic.delays.waiting
    oldest, slowest = log.end, None
    for one in held_by(topic):
        offset = next_in_neither(one.cursor.acked, waiting, one.next_unacked())
        if offset < oldest:
            oldest, slowest = offset, one
    if slowest is None:
        return 0
    # The check of all topics does not wait for one store of objects.
    is_precise = topic.limits.precise_ages and not log.is_remote(oldest)
    since_ms = await slowest.counter.published_ms(oldest) if is_precise else None
    if since_ms is None:
        since_ms = log.closed_ms(oldest)
    return (
        0
        if since_ms is None
        else max(topic.shared_limits.clock_watch.now_ms() - since_ms, 0) // 1000
    )


def held_by(topic: QuotaTopic) -> list[Subscription]:
    """Return the subscriptions whose backlog counts: durable ones, without compaction's."""
    # Readers hold no data: messages that their cursors have not passed are deleted anyway.
    subscriptions = topic.subscriptions.values()
    return [one for one in subscriptions if one.durable and one.name != COMPACTION_CURSOR]


def _text_of(topic: QuotaTopic, excess: ExceededQuota) -> str:
    origin = topic.policies.resolve(excess.quota.policy, topic.name).origin
    unit = excess.quota.unit
    return (
        f"the backlog of {topic.name} is {excess.present} {unit} and the quota is {excess.limit} "
        f"(backlogQuota of the {origin}): acknowledge, skip or expire messages, or raise the quota"
    )


def _disconnect_producers(topic: QuotaTopic, excess: ExceededQuota) -> None:
    if not len(topic.producers) and not topic.producers.waiting:
        return
    text = _text_of(topic, excess)
    logger.warning("producers are disconnected: %s", text)
    topic.producers.refuse(REFUSALS[excess.action](text))


async def _evict_by_size(topic: QuotaTopic, excess: ExceededQuota) -> None:
    for one in held_by(topic):
        if one.counter.size() >= max(excess.limit, 1):
            offset = one.counter.offset_leaving(excess.limit * EVICTED_TO_PERCENT // 100)
            # Keep what is after the first entry of an open transaction: nobody could read it yet.
            offset = min(offset, topic.log.visible_end)
            await _evict(topic, one, [range(offset)], excess)


async def _evict_by_age(topic: QuotaTopic, excess: ExceededQuota) -> None:
    log = topic.log
    since_ms = topic.shared_limits.clock_watch.now_ms() - excess.limit * 1000
    closed = log.closed_before(since_ms + 1)
    offset = await first_since(log, since_ms + 1) if topic.limits.precise_ages else closed
    offset = min(offset, log.visible_end)
    for one in held_by(topic):
        first = one.next_unacked()
        if first < offset:
            runs = [range(*run) for run in topic.delays.waiting.missing(first, offset)]
            await _evict(topic, one, runs, excess)


async def _evict(
    topic: QuotaTopic, one: Subscription, runs: list[range], excess: ExceededQuota
) -> None:
    messages = await skip_runs(one, runs)
    if messages:
        logger.warning(
            "%d messages were acknowledged by eviction for subscription %s: %s",
            messages, one.name, _text_of(topic, excess),
        )  # fmt: skip
        by_size, by_age = topic.evictions
        # promise[SIZE -> AGE]: evictions are counted by the quota that caused them
        is_size = excess.quota is SIZE
        topic.evictions = by_size + is_size, by_age + (not is_size)
