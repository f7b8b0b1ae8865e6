"""Gathers the figures of all topics, in turns of the loop.

If there are many topics, most of them have not changed since the last scrape, and the figures
gathered then are used again: see `base/traffic.py: Traffic.changed` and `_is_same`.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from operator import add
from typing import NamedTuple
from urllib.parse import urlsplit

from magnetar_broker.base.durations import Durations
from magnetar_broker.base.lookup_counts import LookupCounts
from magnetar_broker.base.pace import Pace
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Backlog, Consumer
from magnetar_broker.metrics.figures import (
    NO_QUOTAS,
    NOT_YET,
    ConsumerFigures,
    Done,
    Figures,
    Load,
    LookupFigures,
    ProducerFigures,
    Quotas,
    SubscriptionFigures,
    Times,
    TopicFigures,
    Totals,
    plus,
)
from magnetar_broker.metrics.histogram import Counts
from magnetar_broker.metrics.transaction_metrics import counts_of
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.tiering.topic_offloading import offloaded_size
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.measuring import Consuming, Publishing, consuming
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscription
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.run_sizes import RunSizes

logger = logging.getLogger(__name__)

QUIET: tuple[Blocker | None, ...] = (
    Blocker.CAUGHT_UP,
    Blocker.NO_CONSUMER,
    Blocker.NO_PERMITS,
    Blocker.UNACKED_CONSUMER,
    Blocker.UNACKED_SUBSCRIPTION,
)
"""Reasons that end only with a change that the topic reports; others may end with time, or with
events of a connection or another topic."""
FULL = (Blocker.UNACKED_SUBSCRIPTION, Blocker.UNACKED_BROKER)
SAME, COMPARED, GATHERED = 1, 10, 20
"""The cost of looking at a topic, and at each subscription, in units of about a microsecond."""
PIECE = 100
"""The number of such units after which other work of the loop may run."""
SUBSCRIPTIONS = PIECE // GATHERED
"""The number of a topic's subscriptions whose figures are one piece of work."""
SERIES_OF_TOPIC, SERIES_OF_SUBSCRIPTION, SERIES_OF_PRODUCER, SERIES_OF_CONSUMER = 31, 24, 3, 7
"""The approximate number of series for each in the page."""
NOTHING: Totals = (0, 0, 0, 0)
NO_READS = (0.0, 0.0)

After = Callable[[], Awaitable[object]]
"""A function that is called after every piece of work, and pauses if it is time to."""
State = tuple[Blocker | None, int, int]
States = tuple[State, ...]
NO_STATE: State = (None, 0, 0)


class Detail(NamedTuple):
    """The parts of a topic that are shown."""

    alone: bool
    """Whether the topic and its subscriptions are shown; if not, they are only part of a sum."""
    consumers: bool = False
    producers: bool = False


IN_SUMS = Detail(False)


class _Choice:
    """Chooses the topics that are shown one by one: the first ones, up to the limit of series."""

    def __init__(self, settings: Settings) -> None:
        self.by_topic = settings.expose_topic_level_metrics_in_prometheus
        """Whether topics are shown at all, or only namespaces."""
        self._detail = Detail(
            True,
            settings.expose_consumer_level_metrics_in_prometheus,
            settings.expose_producer_level_metrics_in_prometheus,
        )
        self._left: float = settings.magnetar_max_metric_series or inf

    def next(self, series: int) -> Detail:
        """Return the detail in which the next topic is shown, given its number of series."""
        if series > self._left or not self.by_topic:
            return IN_SUMS
        self._left -= series
        return self._detail

    def series_of(self, topic: AnyTopic) -> int:
        """Return the approximate number of series of a topic."""
        series = SERIES_OF_TOPIC + SERIES_OF_SUBSCRIPTION * len(topic.subscriptions)
        if self._detail.producers:
            series += SERIES_OF_PRODUCER * len(topic.producers)
        if self._detail.consumers:
            consumers = sum(len(one.consumers) for one in topic.subscriptions.values())
            series += SERIES_OF_CONSUMER * consumers
        return series


@dataclass(slots=True)
class _Seen:
    """A topic as it was at the last scrape."""

    log: Log | None
    """The topic's log; None for a non-persistent topic."""
    record: LogRecord | None
    waits: int
    waiting: States | None
    """The reasons why its subscriptions deliver nothing, if one may change without a report; () if
    none can, None if the figures can change in other ways."""
    cost: int
    """The cost of comparing the topic."""
    series: int
    detail: Detail
    figures: TopicFigures


@dataclass(slots=True)
class _GatheredTopics:
    """The figures of all topics at one scrape."""

    shown: list[TopicFigures] = field(default_factory=list)
    others: list[TopicFigures] = field(default_factory=list)
    """The figures of topics that are only shown in sums."""
    summed: set[str] = field(default_factory=set)
    """The namespaces that have topics which are only shown in sums."""
    logs: int = 0
    """The number of topics with a log."""


class Gatherer:
    """Gathers figures, for one scrape at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._other_totals: dict[str, Totals] = {}

    async def gather(
        self,
        service_url: str,
        is_wanted: Callable[[], bool] = lambda: True,
        after: After | None = None,
    ) -> Figures:
        """Take the figures.  Other work of the loop runs in between, so topics differ in time.

        `service_url` is the address that the broker advertises.  Once `is_wanted` returns False,
        the topics that are left are left out.  Without `after` there is a pause of a millisecond
        after every piece of work.
        """
        choice = _Choice(self._broker.settings)
        after = after or Pace(self._broker.engine.clock, 0).after
        topics = await self._gather_topics(choice, is_wanted, after)
        return self._figures(urlsplit(service_url).hostname or "", choice.by_topic, topics)

    async def _gather_topics(
        self, choice: _Choice, is_wanted: Callable[[], bool], after: After
    ) -> _GatheredTopics:
        """Take the figures of topics, for `gather`."""
        gathered = _GatheredTopics()
        used = 0
        for topic in self._broker.topics:
            traffic = topic.traffic
            seen = traffic.seen if isinstance(traffic.seen, _Seen) else None
            # promise[without not traffic.changed and]: the figures of a topic that has changed are
            #   taken again
            is_same = seen is not None and not traffic.changed and _is_same(topic, seen)
            series = seen.series if seen is not None and is_same else choice.series_of(topic)
            detail = choice.next(series)
            # promise[without and seen.detail == detail]: a topic that was in a sum is counted alone
            #   when it is shown alone
            if seen is not None and is_same and seen.detail == detail:
                used += seen.cost
            else:
                before = NOTHING if seen is None else seen.figures.load.totals
                seen = await self._look_at(topic, series, detail, before, after)
                used += GATHERED * (1 + len(topic.subscriptions))
            gathered.logs += seen.log is not None
            if detail.alone or not choice.by_topic:
                gathered.shown.append(seen.figures)
            else:
                gathered.others.append(seen.figures)
                gathered.summed.add(seen.figures.namespace)
            if used >= PIECE:
                used = 0
                await after()
                if not is_wanted():
                    break
        else:  # Only at the end it is known which namespaces have other topics.
            self._forget(gathered.summed)
        return gathered

    def _figures(self, host: str, by_topic: bool, gathered: _GatheredTopics) -> Figures:
        """Return the figures of the broker at the advertised host `host`, with its topics."""
        broker, settings = self._broker, self._broker.settings
        engine, unread = broker.engine, broker.topic_host.shared_limits.unread
        return Figures(
            cluster=settings.cluster_name,
            broker=host,
            connections=broker.connections,
            connections_total=broker.connections_total,
            limits_reached=dict(broker.reached.counts),
            authentication=(
                None if broker.authenticator is None else broker.authenticator.outcomes.counts()
            ),
            connections_accepted=broker.connections_accepted,
            connections_refused=broker.connections_refused,
            lookups=_lookups_of(broker.lookups),
            loads=_done(broker.topic_host.loads),
            damaged_entries=engine.damage.entries,
            damaged_set_aside=engine.damage.set_aside,
            scrubbed_bytes=broker.scrubber.scrubbed_bytes,
            connections_half_open=broker.admission.half_open,
            publish_pending_bytes=broker.publishes.used,
            cache_used_bytes=engine.cache.used,
            cache_entries=engine.cache.entries,
            cache_evicted=engine.cache.evicted,
            logs=gathered.logs,
            runs={"cache": _runs_of(engine.cached_runs), "disk": _runs_of(engine.read_runs)},
            read_bytes=engine.reading.held + engine.reading_copies.held,
            read_limit_bytes=engine.reading.limit + engine.reading_copies.limit,
            reads_waiting=engine.reading.waiting + engine.reading_copies.waiting,
            read_dropped_bytes=engine.reading.dropped + engine.reading_copies.dropped,
            unread_bytes=unread.kept_bytes,
            unread_limit_bytes=max(0, unread.limit_bytes),
            unread_deleted_bytes=unread.deleted_bytes,
            topics=gathered.shown,
            stalls=tuple(broker.watchdog.stalls()),
            by_topic=by_topic,
            others=gathered.others,
            other_totals=dict(self._other_totals),
            ended=broker.topics.ended_totals(),
            now_ms=engine.clock.now_ms(),
            window_seconds=settings.stats_update_frequency_in_secs,
            copies=broker.engine.copies.counts,
            transactions=counts_of(broker.coordinators),
            split_partitions=settings.split_topic_and_partition_label_in_prometheus,
        )

    async def _look_at(
        self, topic: AnyTopic, series: int, detail: Detail, before: Totals, after: After
    ) -> _Seen:
        """Gather the figures of a topic, which had these totals at the last scrape."""
        # First, so that the next scrape sees changes that are made while this waits.
        topic.traffic.changed = False
        log = topic.log if isinstance(topic, Topic) else None
        record = None if log is None else log.record
        waits, is_steady = _waits_of(topic), _is_steady(topic)
        figures, states = await _topic(topic, detail, after)
        waiting = _waiting_of(topic, states) if is_steady else None
        if not detail.alone:
            # promise[before -> NOTHING]: topics shown in sums are counted once
            self._count_other(figures, before)
        cost = (COMPARED if waiting else SAME) * (1 + len(topic.subscriptions))
        seen = _Seen(log, record, waits, waiting, cost, series, detail, figures)
        topic.traffic.seen = seen
        return seen

    def _count_other(self, figures: TopicFigures, before: Totals) -> None:
        """Add the new totals, since the last scrape, of a topic that is only shown in sums."""
        messages_in, bytes_in, messages_out, bytes_out = figures.load.totals
        counted = (
            messages_in - before[0],
            bytes_in - before[1],
            messages_out - before[2],
            bytes_out - before[3],
        )
        sums = self._other_totals.get(figures.namespace, NOTHING)
        self._other_totals[figures.namespace] = plus(sums, counted)

    def _forget(self, summed: set[str]) -> None:
        """Forget the sums of namespaces that have none of the other topics any more."""
        for namespace in self._other_totals.keys() - summed:
            del self._other_totals[namespace]


def _done(durations: Durations) -> Done:
    return Done(durations.count, durations.total_ms, durations.under_way)


def _runs_of(sizes: RunSizes) -> Counts:
    buckets = [("+Inf" if most is None else str(most), runs) for most, runs in sizes.up_to()]
    return Counts(tuple(buckets), sizes.entries)


def _lookups_of(lookups: LookupCounts) -> LookupFigures:
    done = _done(lookups.durations)
    return LookupFigures(done, lookups.answered, lookups.redirected, lookups.failed)


def _is_same(topic: AnyTopic, seen: _Seen) -> bool:
    """Return whether the figures of a topic that reports no change are still the same."""
    if (
        (seen.log is not None and seen.log.record is not seen.record)
        or (topic.rates is not None and _waits_of(topic) != seen.waits)
        or seen.waiting is None
    ):
        return False
    return not seen.waiting or (
        _is_steady(topic) and _waiting_of(topic, _states_of(topic)) == seen.waiting
    )


def _waits_of(topic: AnyTopic) -> int:
    return 0 if topic.rates is None else topic.rates.publish_waits


def _states_of(topic: AnyTopic) -> States:
    """Return the states of all subscriptions of a topic."""
    return tuple([_state_of(one) for one in topic.subscriptions.by_name.values()])


def _state_of(subscription: Subscription | NonPersistentSubscription) -> State:
    """Return the blocker, the read offset, and the entries in replay of a subscription."""
    if not isinstance(subscription, Subscription):
        return NO_STATE
    dispatcher = subscription.dispatcher
    return dispatcher.blocker(), dispatcher.read_offset, dispatcher.in_replay


def _is_steady(topic: AnyTopic) -> bool:
    """Return whether the figures of a topic change only with what it reports, and its states."""
    return not isinstance(topic, Topic) or not (
        topic.delays.waiting or topic.compactions is not None
    )


def _waiting_of(topic: AnyTopic, states: States) -> States:
    """Return the states if one of them may change without a report, else ()."""
    if isinstance(topic, Topic):
        for reason, _, _ in states:
            if reason not in QUIET:
                return states
    return ()


async def _topic(topic: AnyTopic, detail: Detail, after: After) -> tuple[TopicFigures, States]:
    """Return the figures of a topic, and the states of its subscriptions."""
    present: list[Subscription | NonPersistentSubscription]
    present = [*topic.subscriptions.by_name.values()]
    gathered, states = list[SubscriptionFigures](), list[State]()
    for start in range(0, len(present), SUBSCRIPTIONS):
        if start:
            await after()
        for one in present[start : start + SUBSCRIPTIONS]:
            states.append(_state_of(one))
            gathered.append(await _subscription(topic.name, one, states[-1], detail))
    subscriptions = tuple(gathered)
    # promise[without _quotas_of(topic),]: the page has the limits of backlogs
    figures = TopicFigures(
        str(topic.name),
        topic.name.namespace_name,
        _load_of(topic, subscriptions),
        subscriptions if detail.alone else (),
        topic.compactions if isinstance(topic, Topic) else None,
        _producers(topic) if detail.producers else (),
        _writes_of(topic),
        _quotas_of(topic),
        topic.evictions if isinstance(topic, Topic) else (0, 0),
    )
    return figures, tuple(states)


def _load_of(topic: AnyTopic, subscriptions: tuple[SubscriptionFigures, ...]) -> Load:
    """Return the figures of a topic, including the sums over its subscriptions."""
    consumers = unacked = in_replay = 0
    redelivered = acked = expired = 0.0
    backlog: int | None = 0
    delayed: int | None = 0
    size: int | None = 0
    oldest_ms: float | None = inf
    rate_in, throughput_in, rate_out, throughput_out = topic.meter.rates
    read, read_from_disk = topic.reads.meter.rates if isinstance(topic, Topic) else NO_READS
    for one in subscriptions:
        consumers += one.consumers
        redelivered += one.rates.redelivered
        acked += one.rates.acked
        expired += one.rates.expired
        unacked += one.unacked or 0
        in_replay += one.in_replay or 0
        known, ms = one.backlog, one.oldest_ms
        if known is None or backlog is None or delayed is None or size is None:
            backlog = delayed = size = None
        else:
            backlog += known.messages
            delayed += known.delayed
            size = max(size, known.size)
        oldest_ms = None if ms is None or oldest_ms is None else min(oldest_ms, ms)
    return Load(
        1,
        len(subscriptions),
        len(topic.producers),
        consumers,
        rate_in,
        throughput_in,
        rate_out,
        throughput_out,
        redelivered,
        acked,
        expired,
        read,
        read_from_disk,
        *topic.totals(),
        topic.log.size if isinstance(topic, Topic) else 0,
        offloaded_size(topic.log.segments) if isinstance(topic, Topic) else 0,
        _waits_of(topic),
        unacked,
        in_replay,
        backlog,
        delayed,
        size,
        oldest_ms,
    )


async def _subscription(
    topic: TopicName,
    subscription: Subscription | NonPersistentSubscription,
    state: State,
    detail: Detail,
) -> SubscriptionFigures:
    backlog = await _backlog(topic, subscription)
    consumers = list(subscription.consumers)
    unacked = blocked = in_replay = messages_out = bytes_out = dropped = None
    expired = throttled = None
    blocker, _, replayed = state
    times = NOT_YET
    oldest_ms: float | None = inf
    if isinstance(subscription, Subscription):
        dispatcher = subscription.dispatcher
        messages_out, bytes_out = subscription.sent()
        in_replay = replayed
        expired, throttled = subscription.messages_expired, subscription.throttled
        times = Times(
            subscription.last_expired_ms,
            subscription.acks.acked_ms,
            subscription.flow_ms,
            subscription.sent_ms,
            subscription.acks.advanced_ms,
        )
        if not dispatcher.exclusive_acks:
            unacked, blocked = 0, blocker in FULL
            for consumer in consumers:
                unacked += consumer.unacked
                blocked = blocked or consumer.blocked
        if backlog is None or backlog.entries:
            oldest_ms = await subscription.counter.oldest_ms(estimates=True)
    else:
        dropped = subscription.messages_dropped
    return SubscriptionFigures(
        subscription.name,
        backlog,
        oldest_ms,
        len(consumers),
        consuming(subscription),
        messages_out,
        bytes_out,
        unacked,
        blocked,
        in_replay,
        blocker,
        dropped,
        expired,
        times,
        throttled,
        _members(consumers) if detail.consumers else (),
    )


def _members(consumers: list[Consumer]) -> tuple[ConsumerFigures, ...]:
    """Return the figures of consumers; those with one name and id, of several clients, are one."""
    found: dict[tuple[str, int], ConsumerFigures] = {}
    for one in consumers:
        rates = Consuming(*one.meter.rates)
        figures = ConsumerFigures(one.name, one.id, rates, one.unacked, one.blocked, one.permits)
        twin = found.get((one.name, one.id))
        if twin is not None:
            figures = figures._replace(
                rates=Consuming(*map(add, twin.rates, rates)),
                unacked=twin.unacked + figures.unacked,
                blocked=twin.blocked or figures.blocked,
                permits=twin.permits + figures.permits,
            )
        found[one.name, one.id] = figures
    return tuple(found.values())


def _writes_of(topic: AnyTopic) -> tuple[float, ...]:
    writes = topic.appender.writes if isinstance(topic, Topic) else None
    return () if writes is None else writes.window


def _quotas_of(topic: AnyTopic) -> Quotas:
    if not isinstance(topic, Topic):
        return NO_QUOTAS
    size, age = topic.limits.size_quota.limit, topic.limits.age_quota.limit
    if size < 0 and age <= 0:
        return NO_QUOTAS
    return Quotas(None if size < 0 else size, None if age <= 0 else age)


def _producers(topic: AnyTopic) -> tuple[ProducerFigures, ...]:
    return tuple(
        ProducerFigures(one.name, one.id, Publishing(*one.meter.rates)) for one in topic.producers
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
