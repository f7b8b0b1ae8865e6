"""The page for Prometheus: the broker's figures under Pulsar's metric names.

`pulsar_*` names and labels are those of Pulsar 4.x; `magnetar_*` are our own.  A value that is
unknown is left out, since a zero would be wrong.

The page is made in parts of limited work, so that the event loop can do other things in between:
with many topics all of it takes hundreds of milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import nan
from typing import Final, NamedTuple, TypeVar

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from magnetar_broker.base.version import VERSION
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.metrics.figures import (
    Figures,
    Load,
    SubscriptionFigures,
    TopicFigures,
    total,
)
from magnetar_broker.metrics.histogram import Counts
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.metrics.loop import LoopFigures
from magnetar_broker.metrics.process import process_registry

T = TypeVar("T")
Labels = dict[str, str]
Measured = Sequence[tuple[str, object]]
"""Objects of one kind, each with its labels as text."""
SLICE = 250
"""Samples, or objects, in one part of the page."""


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

VERSION_ROW = Row("pulsar_version_info", "The broker's version", lambda _: 1)
WORKERS_ROW = Row(
    "magnetar_workers",
    "Processes that serve topics: `up` if their metrics are in this page, else `down`",
    lambda number: number,
)
JOURNAL_BYTES_ROW = Row(
    "magnetar_journal_bytes_total",
    "Bytes of records made durable",
    lambda journal: journal.bytes_total,
)


def parts(
    figures: Figures, journal: JournalFigures, loop: LoopFigures, with_unknown: bool = False
) -> Iterator[bytes]:
    """The page without the process's own metrics; each name occurs once.

    Some parts are empty: their work was to prepare others.  A sum over topics that is unknown has
    no sample; `with_unknown` it is NaN, so that sums of this page with others are unknown too.
    """
    cluster = {"cluster": figures.cluster}
    version = _text_of({**cluster, "version": VERSION})
    yield from _table("", (VERSION_ROW,), [(version, figures)])
    connection = {**cluster, "broker": figures.broker, "metric": "broker_connection"}
    yield from _table("", CONNECTION_ROWS, [(_text_of(connection), figures)])
    yield from _table("", BROKER_ROWS, [(_text_of(cluster), figures)])
    yield from _stalls(figures)
    namespaces: dict[str, Load] = {}
    for summed in figures.by_namespace(SLICE):
        namespaces = summed
        yield b""
    broker = [(_text_of(cluster), total(namespaces.values()))]
    rows = (TOPICS_ROW, *LOAD_ROWS, BACKLOG_ROW)
    yield from _table("pulsar_broker_", rows, broker, with_unknown)
    yield from _of_namespaces(figures, namespaces, with_unknown)
    if figures.by_topic:
        yield from _of_topics(figures)
        yield from _of_subscriptions(figures)
    yield from _of_journal(journal, cluster)
    yield of_loop(loop, figures.cluster)


def of_loop(loop: LoopFigures, cluster: str) -> bytes:
    """The metrics of an event loop."""
    return _histograms("magnetar_loop_stretch_seconds",
                       "Seconds for which the event loop did one thing; by cause",
                       [({"cluster": cluster, "cause": cause}, counts)
                        for cause, counts in loop.items()])  # fmt: skip


def of_workers(cluster: str, answered: int, workers: int) -> bytes:
    """The metric of the workers of a broker of several processes, and how many have answered."""
    states = [(_text_of({"cluster": cluster, "state": state}), number)
              for state, number in (("up", answered), ("down", workers - answered))]  # fmt: skip
    return b"".join(_table("", (WORKERS_ROW,), states))


def process_part(cluster: str) -> bytes:
    """The metrics of the process: fit for a thread, since it reads files."""
    return generate_latest(_Process({"cluster": cluster}))


def _stalls(figures: Figures) -> Iterator[bytes]:
    cluster = {"cluster": figures.cluster}
    stalls = [(_text_of({**cluster, "blocker": one.blocker}), one) for one in figures.stalls]
    yield from _table("magnetar_subscription_", STALL_ROWS, stalls)


def _of_namespaces(
    figures: Figures, namespaces: dict[str, Load], with_unknown: bool
) -> Iterator[bytes]:
    """The number of topics of each; other loads only if these are not shown by topic."""
    measured = [
        ({"cluster": figures.cluster, "namespace": namespace}, load)
        for namespace, load in namespaces.items()
    ]
    loads = [(_text_of(labels), load) for labels, load in measured]
    yield from _table("pulsar_", (TOPICS_ROW,), loads)
    if not figures.by_topic:
        rows = (*LOAD_ROWS, *BACKLOG_STORAGE_ROWS, *TOTAL_ROWS)
        yield from _table("pulsar_", rows, loads, with_unknown)
        local = {"remote_cluster": "local"}
        backlogs = [(_text_of(labels | local), load) for labels, load in measured]
        yield from _table("pulsar_", (BACKLOG_ROW,), backlogs, with_unknown)


def _of_topics(figures: Figures) -> Iterator[bytes]:
    loads: list[tuple[str, Load]] = []
    compactions: list[tuple[str, CompactionFigures]] = []
    for some in _slices(figures.topics):
        for topic in some:
            text = _text_of(_topic_labels(figures.cluster, topic))
            loads.append((text, topic.load))
            if topic.compactions is not None:
                compactions.append((text, topic.compactions))
        yield b""
    rows = (*LOAD_ROWS, *BACKLOG_STORAGE_ROWS, *TOTAL_ROWS, BACKLOG_ROW)
    yield from _table("pulsar_", rows, loads)
    yield from _table("pulsar_", COMPACTION_ROWS, compactions)
    yield from _freed(loads)


def _of_subscriptions(figures: Figures) -> Iterator[bytes]:
    measured: list[tuple[str, SubscriptionFigures]] = []
    blocked: list[tuple[str, SubscriptionFigures]] = []
    every = ((topic, one) for topic in figures.topics for one in topic.subscriptions)
    while some := list(islice(every, SLICE)):
        for topic, one in some:
            names = {**_topic_labels(figures.cluster, topic), "subscription": one.name}
            measured.append((_text_of(names), one))
            blocked.append((_text_of({**names, "blocker": one.blocker or ""}), one))
        yield b""
    yield from _table("pulsar_subscription_", SUBSCRIPTION_ROWS, measured)
    yield from _table("pulsar_", SUBSCRIPTION_TOTAL_ROWS, measured)
    yield from _table("", (BLOCKER_ROW,), blocked)
    yield from _freed(measured)
    yield from _freed(blocked)


def _freed(measured: list[T]) -> Iterator[bytes]:
    """Free them in slices: freeing all at once would take long."""
    while measured:
        del measured[-SLICE:]
        yield b""


def _topic_labels(cluster: str, topic: TopicFigures) -> Labels:
    return {"cluster": cluster, "namespace": topic.namespace, "topic": topic.name}


def _text_of(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _slices(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), SLICE):
        yield things[start : start + SLICE]


def _table(
    prefix: str, rows: Iterable[Row], measured: Measured, with_unknown: bool = False
) -> Iterator[bytes]:
    """A metric for each row, of all objects; `with_unknown`, values that are None are NaN."""
    for row in rows if measured else ():
        name = prefix + row.name
        kind = "counter" if name.endswith("_total") else "gauge"
        yield f"# HELP {name} {row.text}\n# TYPE {name} {kind}\n".encode()
        for some in _slices(measured):
            samples = [
                f"{name}{{{labels}}} {float(nan if value is None else value)!r}\n"
                for labels, thing in some
                if (value := row.value(thing)) is not None or with_unknown
            ]
            yield "".join(samples).encode()


def _of_journal(journal: JournalFigures, cluster: Labels) -> Iterator[bytes]:
    yield _histograms("magnetar_journal_round_records", "Records that shared one fsync",
                      [(cluster, journal.records)])  # fmt: skip
    yield _histograms("magnetar_journal_fsync_seconds", "Seconds to write and sync a round",
                      [(cluster, journal.seconds)])  # fmt: skip
    yield from _table("", (JOURNAL_BYTES_ROW,), [(_text_of(cluster), journal)])


def _histograms(name: str, text: str, measured: Sequence[tuple[Labels, Counts]]) -> bytes:
    family = HistogramMetricFamily(name, text, labels=list(measured[0][0]))
    for labels, counts in measured:
        buckets = [(bound, float(count)) for bound, count in counts.buckets]
        family.add_metric(list(labels.values()), buckets, counts.sum)
    return generate_latest(_Families([family]))


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class _Process(Collector):
    def __init__(self, cluster: Labels) -> None:
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        for metric in PROCESS.collect():
            for at, sample in enumerate(metric.samples):
                labels = {**sample.labels, **self._cluster}
                metric.samples[at] = sample._replace(labels=labels)
            yield metric


PROCESS: Final = process_registry()
