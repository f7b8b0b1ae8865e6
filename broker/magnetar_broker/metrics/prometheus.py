"""The page for Prometheus: the broker's figures under Pulsar's metric names.

`pulsar_*` names and labels are those of Pulsar 4.x; `magnetar_*` are our own.  A value that is
unknown is left out, since a zero would be wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from magnetar_broker.base.version import VERSION
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.metrics.figures import Figures, Load, SubscriptionFigures, total
from magnetar_broker.metrics.histogram import Counts
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.metrics.loop import LoopFigures
from magnetar_broker.metrics.process import process_registry

Labels = dict[str, str]
Measured = Sequence[tuple[Labels, object]]
"""Objects of one kind, each with its labels."""


class Row(NamedTuple):
    """One metric: its name (a counter's ends in _total), its help, and how to read its value."""

    name: str
    text: str
    value: Callable[..., float | None]
    """None if unknown: the sample is left out."""


LOAD_ROWS: tuple[Row, ...] = (
    Row("subscriptions_count", "Subscriptions", lambda load: load.subscriptions),
    Row("producers_count", "Connected producers", lambda load: load.producers),
    Row("consumers_count", "Connected consumers", lambda load: load.consumers),
    Row("rate_in", "Messages published per second", lambda load: load.rate_in),
    Row("rate_out", "Messages delivered per second", lambda load: load.rate_out),
    Row("throughput_in", "Bytes published per second", lambda load: load.throughput_in),
    Row("throughput_out", "Bytes delivered per second", lambda load: load.throughput_out),
    Row("storage_size", "Bytes of stored entries", lambda load: load.storage_bytes),
)
"""Metrics of topics or namespaces, and with the prefix pulsar_broker_ of the whole broker."""

BACKLOG_ROW = Row(
    "msg_backlog", "Unacknowledged messages of all subscriptions", lambda load: load.backlog
)
BACKLOG_STORAGE_ROWS: tuple[Row, ...] = (
    Row("storage_backlog_size", "Unacknowledged bytes of the slowest subscription",
        lambda load: load.backlog_bytes),
    Row("storage_backlog_age_seconds", "Age of the oldest unacknowledged message in seconds",
        lambda load: load.backlog_age_seconds),
)  # fmt: skip
TOPICS_ROW = Row("topics_count", "Loaded topics", lambda load: load.topics)

TOTAL_ROWS: tuple[Row, ...] = (
    Row("publish_rate_limit_times", "How often reading from a client paused for the publish rate",
        lambda load: load.publish_waits),
    Row("in_messages_total", "Messages published since the topic was loaded",
        lambda load: load.messages_in),
    Row("in_bytes_total", "Bytes published since the topic was loaded",
        lambda load: load.bytes_in),
)  # fmt: skip

SUBSCRIPTION_ROWS: tuple[Row, ...] = (
    Row("back_log", "Unacknowledged messages",
        lambda one: one.backlog and one.backlog.messages),
    Row("back_log_no_delayed", "Unacknowledged messages without delayed ones",
        lambda one: one.backlog and one.backlog.without_delayed),
    Row("delayed", "Delayed messages whose delivery time has not come",
        lambda one: one.backlog and one.backlog.delayed),
    Row("storage_backlog_size", "Unacknowledged bytes",
        lambda one: one.backlog and one.backlog.size),
    Row("storage_backlog_age_seconds", "Age of the oldest unacknowledged message in seconds",
        lambda one: one.age_seconds),
    Row("unacked_messages", "Messages delivered and not acknowledged", lambda one: one.unacked),
    Row("blocked_on_unacked_messages", "1 while the limit of unacknowledged messages is reached",
        lambda one: one.blocked),
    Row("in_replay", "Entries that wait for redelivery", lambda one: one.in_replay),
    Row("msg_rate_out", "Messages delivered per second", lambda one: one.rate_out),
    Row("msg_throughput_out", "Bytes delivered per second", lambda one: one.throughput_out),
    Row("msg_rate_redeliver", "Messages redelivered per second",
        lambda one: one.rate_redelivered),
    Row("consumers_count", "Connected consumers", lambda one: one.consumers),
)  # fmt: skip

SUBSCRIPTION_TOTAL_ROWS: tuple[Row, ...] = (
    Row("out_messages_total", "Messages delivered since the topic was loaded",
        lambda one: one.messages_out),
    Row("out_bytes_total", "Bytes delivered since the topic was loaded",
        lambda one: one.bytes_out),
    Row("subscription_msg_dropped_total", "Messages dropped: no consumer had permits",
        lambda one: one.dropped),
)  # fmt: skip

COMPACTION_ROWS: tuple[Row, ...] = (
    Row("compaction_succeed_count", "Successful compactions since the topic was loaded",
        lambda one: one.succeeded),
    Row("compaction_failed_count", "Failed compactions since the topic was loaded",
        lambda one: one.failed),
    Row("compaction_duration_time_in_mills", "Duration of the last compaction in milliseconds",
        lambda one: one.duration_ms),
    Row("compaction_compacted_entries_count", "Entries that the last compaction kept",
        lambda one: one.entries),
    Row("compaction_compacted_entries_size", "Bytes that the last compaction kept",
        lambda one: one.size),
)  # fmt: skip
"""Metrics of topics that were compacted since they were loaded."""

STALL_ROWS: tuple[Row, ...] = (
    Row("stalled", "Subscriptions that are stalled: they could deliver and do not; by reason",
        lambda one: one.now),
    Row("stalled_total", "How often subscriptions became stalled; by reason",
        lambda one: one.total),
)  # fmt: skip

BLOCKER_ROW = Row(
    "magnetar_subscription_blocker",
    "Why a subscription delivers nothing at the moment, in the label; always 1",
    lambda one: 1 if one.blocker else None,
)

CONNECTION_ROWS: tuple[Row, ...] = (
    Row("pulsar_active_connections", "Open connections", lambda figures: figures.connections),
    Row("pulsar_connection_created_total_count", "Connections since the start",
        lambda figures: figures.connections_total),
)  # fmt: skip

BROKER_ROWS: tuple[Row, ...] = (
    Row("pulsar_ml_cache_used_size", "Bytes in the cache of recent entries",
        lambda figures: figures.cache_used_bytes),
    Row("magnetar_read_bytes",
        "Bytes of entries read from disk and not sent yet, reads under way included",
        lambda figures: figures.read_bytes),
    Row("magnetar_read_limit_bytes", "The limit of magnetar_read_bytes",
        lambda figures: figures.read_limit_bytes),
    Row("magnetar_reads_waiting", "Subscriptions whose read waits for that limit",
        lambda figures: figures.reads_waiting),
    Row("magnetar_read_dropped_bytes_total",
        "Bytes read and dropped for that limit before all were sent",
        lambda figures: figures.read_dropped_bytes),
    Row("magnetar_publish_pending_bytes", "Published bytes that are not durable yet",
        lambda figures: figures.publish_pending_bytes),
)  # fmt: skip


def families(figures: Figures) -> Iterator[Metric]:
    """The figures as metrics; each name occurs once."""
    cluster = {"cluster": figures.cluster}
    yield _family(Row("pulsar_version_info", "The broker's version", lambda _: 1),
                  [({**cluster, "version": VERSION}, figures)])  # fmt: skip
    connection = {**cluster, "broker": figures.broker, "metric": "broker_connection"}
    yield from _table("", CONNECTION_ROWS, [(connection, figures)])
    yield from _table("", BROKER_ROWS, [(cluster, figures)])
    broker = total(topic.load for topic in figures.topics)
    yield from _table("pulsar_broker_", (TOPICS_ROW, *LOAD_ROWS, BACKLOG_ROW), [(cluster, broker)])
    yield from _stalls(figures)
    yield from _load_families(figures)
    if figures.by_topic:
        subscriptions = _subscriptions(figures)
        yield from _table("pulsar_subscription_", SUBSCRIPTION_ROWS, subscriptions)
        yield from _table("pulsar_", SUBSCRIPTION_TOTAL_ROWS, subscriptions)
        blocked = [(names | {"blocker": one.blocker or ""}, one) for names, one in subscriptions]
        yield from _table("", (BLOCKER_ROW,), blocked)
        yield from _table("pulsar_", COMPACTION_ROWS, _compactions(figures))


def _compactions(figures: Figures) -> list[tuple[Labels, CompactionFigures]]:
    return [
        (_topic_labels(figures.cluster, topic.namespace, topic.name), topic.compactions)
        for topic in figures.topics
        if topic.compactions is not None
    ]


def _stalls(figures: Figures) -> Iterator[Metric]:
    cluster = {"cluster": figures.cluster}
    stalls = [({**cluster, "blocker": one.blocker}, one) for one in figures.stalls]
    yield from _table("magnetar_subscription_", STALL_ROWS, stalls)


def _load_families(figures: Figures) -> Iterator[Metric]:
    """Loads by topic or by namespace; the number of topics is always by namespace."""
    namespaces: list[tuple[Labels, Load]] = [
        ({"cluster": figures.cluster, "namespace": namespace}, load)
        for namespace, load in figures.by_namespace().items()
    ]
    yield from _table("pulsar_", (TOPICS_ROW,), namespaces)
    measured: Measured
    backlogs: Measured
    if figures.by_topic:
        measured = backlogs = [
            (_topic_labels(figures.cluster, topic.namespace, topic.name), topic.load)
            for topic in figures.topics
        ]
    else:
        measured = namespaces
        backlogs = [(labels | {"remote_cluster": "local"}, load) for labels, load in namespaces]
    yield from _table("pulsar_", (*LOAD_ROWS, *BACKLOG_STORAGE_ROWS, *TOTAL_ROWS), measured)
    yield from _table("pulsar_", (BACKLOG_ROW,), backlogs)


def _subscriptions(figures: Figures) -> list[tuple[Labels, SubscriptionFigures]]:
    return [
        (
            _topic_labels(figures.cluster, topic.namespace, topic.name)
            | {"subscription": subscription.name},
            subscription,
        )
        for topic in figures.topics
        for subscription in topic.subscriptions
    ]


def _topic_labels(cluster: str, namespace: str, topic: str) -> Labels:
    return {"cluster": cluster, "namespace": namespace, "topic": topic}


def _table(prefix: str, rows: Iterable[Row], measured: Measured) -> Iterator[Metric]:
    for row in rows if measured else ():
        yield _family(row._replace(name=prefix + row.name), measured)


def _family(row: Row, measured: Measured) -> Metric:
    """One metric of all objects; these have the same label names."""
    names = list(measured[0][0])
    kind = CounterMetricFamily if row.name.endswith("_total") else GaugeMetricFamily
    family = kind(row.name, row.text, labels=names)
    for labels, thing in measured:
        value = row.value(thing)
        if value is not None:
            family.add_metric(list(labels.values()), value)
    return family


def _journal(journal: JournalFigures, labels: Labels) -> Iterator[Metric]:
    yield _histograms("magnetar_journal_round_records", "Records that shared one fsync",
                      [(labels, journal.records)])  # fmt: skip
    yield _histograms("magnetar_journal_fsync_seconds", "Seconds to write and sync a round",
                      [(labels, journal.seconds)])  # fmt: skip
    yield _family(Row("magnetar_journal_bytes_total", "Bytes of records made durable",
                      lambda figures: figures.bytes_total), [(labels, journal)])  # fmt: skip


def _loop(loop: LoopFigures, cluster: Labels) -> Iterator[Metric]:
    stretches = [({**cluster, "cause": cause}, counts) for cause, counts in loop.items()]
    yield _histograms("magnetar_loop_stretch_seconds",
                      "Seconds for which the event loop did one thing; by cause",
                      stretches)  # fmt: skip


def _histograms(name: str, text: str, measured: Sequence[tuple[Labels, Counts]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=list(measured[0][0]))
    for labels, counts in measured:
        buckets = [(bound, float(count)) for bound, count in counts.buckets]
        family.add_metric(list(labels.values()), buckets, counts.sum)
    return family


class Exposition(Collector):
    """All metrics of one scrape, in the order of the page."""

    def __init__(self, figures: Figures, journal: JournalFigures, loop: LoopFigures) -> None:
        self._figures = figures
        self._journal = journal
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        yield from families(self._figures)
        cluster = {"cluster": self._figures.cluster}
        yield from _journal(self._journal, cluster)
        yield from _loop(self._loop, cluster)
        for metric in PROCESS.collect():
            for at, sample in enumerate(metric.samples):
                labels = {**cluster, **sample.labels}
                metric.samples[at] = sample._replace(labels=labels)
            yield metric


def render(figures: Figures, journal: JournalFigures, loop: LoopFigures) -> bytes:
    """The page in Prometheus's text format.  Reads only its arguments: fit for a thread."""
    return generate_latest(Exposition(figures, journal, loop))


PROCESS: Final = process_registry()
