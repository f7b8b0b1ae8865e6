"""The broker's figures at one moment, gathered without keeping the loop from its work."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from magnetar_broker.broker import Broker
from magnetar_broker.non_persistent import NonPersistentSubscription, NonPersistentTopic
from magnetar_broker.subscription import Subscription
from magnetar_broker.topic import Topic
from magnetar_storage.errors import StorageError
from magnetar_storage.world import Clock

logger = logging.getLogger(__name__)

PAUSE_EVERY = 64
"""Subscriptions between two turns that are left to the rest of the broker."""


@dataclass(frozen=True)
class Load:
    """What adds up: of a topic, a namespace or the broker.  Rates are a second."""

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
    backlog: int | None = 0
    """Messages, over all subscriptions; None when one of them could not be counted."""


@dataclass(frozen=True)
class SubscriptionFigures:
    """One subscription; None is what is not known or not kept for its type."""

    name: str
    backlog: int | None
    """Messages that are not acknowledged."""
    consumers: int
    rate_out: float
    throughput_out: float
    messages_out: int | None
    """Sent since the topic was loaded; what is sent again counts again."""
    bytes_out: int | None
    unacked: int | None
    """Messages sent and not acknowledged; kept where consumers share."""
    in_replay: int | None
    """Entries that wait to be delivered again."""
    blocker: str | None
    """Why nothing is being delivered at the moment."""
    dropped: int | None
    """Messages that nobody could take; only where nothing is stored."""


@dataclass(frozen=True)
class TopicFigures:
    """One loaded topic."""

    name: str
    namespace: str
    load: Load
    subscriptions: tuple[SubscriptionFigures, ...]


@dataclass(frozen=True)
class Figures:
    """All of it."""

    cluster: str
    broker: str
    """The host that clients are told to connect to."""
    connections: int
    connections_total: int
    publish_pending_bytes: int
    cache_used_bytes: int
    topics: tuple[TopicFigures, ...]
    by_topic: bool
    """Whether topics are shown one by one, or only their namespaces."""

    def by_namespace(self) -> dict[str, Load]:
        """The load of each namespace with a loaded topic."""
        loads: dict[str, list[Load]] = {}
        for topic in self.topics:
            loads.setdefault(topic.namespace, []).append(topic.load)
        return {namespace: total(of) for namespace, of in loads.items()}


def total(loads: Iterable[Load]) -> Load:
    """The sum; a backlog that is not known makes the sum unknown."""
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
        backlog=sum_or_none(one.backlog for one in of),
    )


def sum_or_none(values: Iterable[int | None]) -> int | None:
    """The sum, None if a value is missing."""
    known = 0
    for value in values:
        if value is None:
            return None
        known += value
    return known


async def gather(broker: Broker) -> Figures:
    """Count now.  Other work goes on meanwhile, so topics are not all of one instant."""
    topics: list[TopicFigures] = []
    since_pause = 0
    for topic in broker.topics:
        topics.append(await _topic(topic))
        since_pause += 1 + len(topic.subscriptions)
        if since_pause >= PAUSE_EVERY:
            since_pause = 0
            await _pause(broker.engine.clock)
    return Figures(
        cluster=broker.settings.cluster_name,
        broker=urlsplit(broker.ownership.service_url).hostname or "",
        connections=broker.connections,
        connections_total=broker.connections_total,
        publish_pending_bytes=broker.publishes.used,
        cache_used_bytes=broker.engine.cache.used,
        topics=tuple(topics),
        by_topic=broker.settings.expose_topic_level_metrics_in_prometheus,
    )


async def _pause(clock: Clock) -> None:
    turn = clock.promise()
    clock.soon(lambda: turn.set_result(None))
    await turn


async def _topic(topic: Topic | NonPersistentTopic) -> TopicFigures:
    present: list[Subscription | NonPersistentSubscription] = [*topic.subscriptions.values()]
    subscriptions = tuple([await _subscription(subscription) for subscription in present])
    rate_in, throughput_in, rate_out, throughput_out = topic.meter.rates
    load = Load(
        topics=1,
        subscriptions=len(subscriptions),
        producers=len(topic.producers),
        consumers=sum(s.consumers for s in subscriptions),
        rate_in=rate_in,
        throughput_in=throughput_in,
        rate_out=rate_out,
        throughput_out=throughput_out,
        messages_in=topic.messages_in,
        bytes_in=topic.bytes_in,
        storage_bytes=topic.log.size if isinstance(topic, Topic) else 0,
        backlog=sum_or_none(s.backlog for s in subscriptions),
    )
    return TopicFigures(str(topic.name), topic.name.namespace_name, load, subscriptions)


async def _subscription(
    subscription: Subscription | NonPersistentSubscription,
) -> SubscriptionFigures:
    backlog = await _backlog(subscription)
    consumers = list(subscription.consumers)
    unacked = in_replay = messages_out = bytes_out = blocker = dropped = None
    if isinstance(subscription, Subscription):
        messages_out = subscription.messages_out + sum(c.messages_out for c in consumers)
        bytes_out = subscription.bytes_out + sum(c.bytes_out for c in consumers)
        in_replay = subscription.dispatcher.in_replay
        blocker = subscription.dispatcher.blocker()
        if not subscription.dispatcher.exclusive_acks:
            unacked = sum(consumer.unacked for consumer in consumers)
    else:
        dropped = subscription.messages_dropped
    return SubscriptionFigures(
        name=subscription.name,
        backlog=backlog,
        consumers=len(consumers),
        rate_out=sum(consumer.meter.rates[0] for consumer in consumers),
        throughput_out=sum(consumer.meter.rates[1] for consumer in consumers),
        messages_out=messages_out,
        bytes_out=bytes_out,
        unacked=unacked,
        in_replay=in_replay,
        blocker=blocker,
        dropped=dropped,
    )


async def _backlog(subscription: Subscription | NonPersistentSubscription) -> int | None:
    try:
        return (await subscription.backlog()).messages
    except StorageError as error:
        logger.warning(
            "the backlog of %s on %s cannot be counted: %s",
            subscription.name, subscription.topic.name, error,
        )  # fmt: skip
        return None
