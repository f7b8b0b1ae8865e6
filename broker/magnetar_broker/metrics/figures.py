"""The figures behind the metrics: a snapshot of every topic, gathered in turns of the loop."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from magnetar_broker.broker import Broker
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscription
from magnetar_broker.topic.topic import Topic
from magnetar_broker.watchdog import Stalls
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.world.runtime import yield_turn

logger = logging.getLogger(__name__)

Number = TypeVar("Number", int, float)

FULL = (Blocker.UNACKED_SUBSCRIPTION, Blocker.UNACKED_BROKER)
PAUSE_EVERY = 20
"""Topics and subscriptions counted before the loop is yielded to other work: some 25 us each."""


@dataclass(frozen=True)
class Load:
    """The figures of a topic that add up to those of a namespace or the broker.  Rates are per
    second."""

    topics: int = 0
    subscriptions: int = 0
    producers: int = 0
    consumers: int = 0
    rate_in: float = 0.0
    throughput_in: float = 0.0
    rate_out: float = 0.0
    throughput_out: float = 0.0
    messages_in: int = 0
    bytes_in: int = 0
    storage_bytes: int = 0
    publish_waits: int = 0
    """How often reading from a connection was paused for a topic's publish rate."""
    backlog: int | None = 0
    """Unacknowledged messages of all subscriptions; None if one could not be counted."""
    backlog_bytes: int | None = 0
    """Unacknowledged bytes of the slowest subscription; summed over topics."""
    backlog_age_seconds: float | None = 0.0
    """Age of the oldest unacknowledged message; 0 if there is none."""


@dataclass(frozen=True)
class SubscriptionFigures:
    """One subscription; None where a figure is unknown or does not apply to its type."""

    name: str
    backlog: Backlog | None
    """What is unacknowledged."""
    age_seconds: float | None
    """Age of the oldest unacknowledged message; 0 if there is none."""
    consumers: int
    rate_out: float
    throughput_out: float
    rate_redelivered: float
    messages_out: int | None
    """Delivered since the topic was loaded, redeliveries included."""
    bytes_out: int | None
    unacked: int | None
    """Messages delivered and not acknowledged; Shared and Key_Shared only."""
    blocked: bool | None
    """Whether it, or one of its consumers, reached the limit of those."""
    in_replay: int | None
    """Entries that wait for redelivery."""
    blocker: str | None
    """Why nothing is delivered at the moment."""
    dropped: int | None
    """Messages dropped for lack of a consumer with permits; non-persistent topics only."""


@dataclass(frozen=True)
class TopicFigures:
    """One loaded topic."""

    name: str
    namespace: str
    load: Load
    subscriptions: tuple[SubscriptionFigures, ...]
    compactions: CompactionFigures | None = None
    """Only where the topic was compacted since it was loaded."""


@dataclass(frozen=True)
class Figures:
    """All figures of one scrape."""

    cluster: str
    broker: str
    """The advertised host."""
    connections: int
    connections_total: int
    publish_pending_bytes: int
    cache_used_bytes: int
    read_bytes: int
    """Read from disk and not sent yet, reads under way included."""
    read_limit_bytes: int
    reads_waiting: int
    read_dropped_bytes: int
    topics: tuple[TopicFigures, ...]
    stalls: tuple[Stalls, ...]
    """Subscriptions that could deliver and do not, by reason."""
    by_topic: bool
    """Whether the page shows every topic, or only namespaces."""

    def by_namespace(self, topics: int) -> Iterator[dict[str, Load]]:
        """The load of every namespace that has a loaded topic, after so many more topics each
        time; the last time after all."""
        loads: dict[str, Load] = {}
        for start in range(0, len(self.topics), topics):
            of: dict[str, list[Load]] = {}
            for topic in self.topics[start : start + topics]:
                of.setdefault(topic.namespace, []).append(topic.load)
            loads |= {name: total((loads.get(name, Load()), *some)) for name, some in of.items()}
            yield loads


def total(loads: Iterable[Load]) -> Load:
    """The sum; an unknown backlog makes the sum of backlogs unknown."""
    of = tuple(loads)
    return Load(
        topics=sum(one.topics for one in of),
        subscriptions=sum(one.subscriptions for one in of),
        producers=sum(one.producers for one in of),
        consumers=sum(one.consumers for one in of),
        rate_in=sum(one.rate_in for one in of),
        throughput_in=sum(one.throughput_in for one in of),
        rate_out=sum(one.rate_out for one in of),
        throughput_out=sum(one.throughput_out for one in of),
        messages_in=sum(one.messages_in for one in of),
        bytes_in=sum(one.bytes_in for one in of),
        storage_bytes=sum(one.storage_bytes for one in of),
        publish_waits=sum(one.publish_waits for one in of),
        backlog=sum_or_none(one.backlog for one in of),
        backlog_bytes=sum_or_none(one.backlog_bytes for one in of),
        backlog_age_seconds=max_or_none((one.backlog_age_seconds for one in of), 0.0),
    )


def sum_or_none(values: Iterable[int | None]) -> int | None:
    """The sum; None if a value is None."""
    known = 0
    for value in values:
        if value is None:
            return None
        known += value
    return known


def max_or_none(values: Iterable[Number | None], least: Number) -> Number | None:
    """The largest value, at least `least`; None if a value is None."""
    largest = least
    for value in values:
        if value is None:
            return None
        largest = max(largest, value)
    return largest


async def gather(
    broker: Broker, service_url: str, is_wanted: Callable[[], bool] = lambda: True
) -> Figures:
    """Take the figures.  The loop is yielded in between, so topics differ slightly in time.

    `service_url` is the address that the broker advertises.  Topics that were not looked at are
    left out once `is_wanted` answers False.
    """
    topics: list[TopicFigures] = []
    since_yield = 0
    for topic in broker.topics:
        topics.append(await _topic(topic, broker.engine.clock.now_ms()))
        since_yield += 1 + len(topic.subscriptions)
        if since_yield >= PAUSE_EVERY:
            since_yield = 0
            await yield_turn(broker.engine.clock)
            if not is_wanted():
                break
    return Figures(
        cluster=broker.settings.cluster_name,
        broker=urlsplit(service_url).hostname or "",
        connections=broker.connections,
        connections_total=broker.connections_total,
        publish_pending_bytes=broker.publishes.used,
        cache_used_bytes=broker.engine.cache.used,
        read_bytes=broker.engine.reading.held,
        read_limit_bytes=broker.engine.reading.limit,
        reads_waiting=broker.engine.reading.waiting,
        read_dropped_bytes=broker.engine.reading.dropped,
        topics=tuple(topics),
        stalls=tuple(broker.watchdog.stalls()),
        by_topic=broker.settings.expose_topic_level_metrics_in_prometheus,
    )


async def _topic(topic: Topic | NonPersistentTopic, now_ms: int) -> TopicFigures:
    present: list[Subscription | NonPersistentSubscription] = [*topic.subscriptions.values()]
    subscriptions = tuple([await _subscription(topic.name, one, now_ms) for one in present])
    rate_in, throughput_in, rate_out, throughput_out = topic.meter.rates
    backlogs = [subscription.backlog for subscription in subscriptions]
    load = Load(
        topics=1,
        subscriptions=len(subscriptions),
        producers=len(topic.producers),
        consumers=sum(s.consumers for s in subscriptions),
        rate_in=rate_in,
        throughput_in=throughput_in,
        rate_out=rate_out,
        throughput_out=throughput_out,
        messages_in=topic.appender.messages_in,
        bytes_in=topic.appender.bytes_in,
        storage_bytes=topic.log.size if isinstance(topic, Topic) else 0,
        publish_waits=0 if topic.rates is None else topic.rates.publish_waits,
        backlog=sum_or_none(b.messages if b is not None else None for b in backlogs),
        backlog_bytes=max_or_none((b.size if b is not None else None for b in backlogs), 0),
        backlog_age_seconds=max_or_none((s.age_seconds for s in subscriptions), 0.0),
    )
    compactions = topic.compactions if isinstance(topic, Topic) else None
    return TopicFigures(
        str(topic.name), topic.name.namespace_name, load, subscriptions, compactions
    )


async def _subscription(
    topic: TopicName, subscription: Subscription | NonPersistentSubscription, now_ms: int
) -> SubscriptionFigures:
    backlog = await _backlog(topic, subscription)
    consumers = list(subscription.consumers)
    unacked = blocked = in_replay = messages_out = bytes_out = blocker = dropped = None
    age_seconds: float | None = 0.0
    if isinstance(subscription, Subscription):
        messages_out, bytes_out = subscription.sent()
        in_replay = subscription.dispatcher.in_replay
        blocker = subscription.dispatcher.blocker()
        if not subscription.dispatcher.exclusive_acks:
            unacked = sum(consumer.unacked for consumer in consumers)
            blocked = blocker in FULL or any(consumer.blocked for consumer in consumers)
        if backlog is None or backlog.entries:
            oldest_ms = await subscription.counter.oldest_ms()
            age_seconds = None if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000
    else:
        dropped = subscription.messages_dropped
    return SubscriptionFigures(
        name=subscription.name,
        backlog=backlog,
        age_seconds=age_seconds,
        consumers=len(consumers),
        rate_out=sum(consumer.meter.rates[0] for consumer in consumers),
        throughput_out=sum(consumer.meter.rates[1] for consumer in consumers),
        rate_redelivered=sum(consumer.meter.rates[2] for consumer in consumers),
        messages_out=messages_out,
        bytes_out=bytes_out,
        unacked=unacked,
        blocked=blocked,
        in_replay=in_replay,
        blocker=blocker,
        dropped=dropped,
    )


async def _backlog(
    topic: TopicName, subscription: Subscription | NonPersistentSubscription
) -> Backlog | None:
    try:
        return await subscription.backlog()
    except StorageError as error:
        logger.warning(
            "the backlog of %s on %s cannot be counted: %s",
            subscription.name, topic, error,
        )  # fmt: skip
        return None
