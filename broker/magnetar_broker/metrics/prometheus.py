"""The page for Prometheus: the broker's figures under Pulsar's metric names.

An unknown value is left out, because a zero would be wrong.

The page is made in parts of limited work, so that the event loop can do other work in between.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from magnetar_broker.authentication.outcomes import OutcomeCounts
from magnetar_broker.base.version import VERSION, commit
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.metrics.figures import (
    NO_QUOTAS,
    ConsumerFigures,
    Figures,
    Load,
    ProducerFigures,
    Quotas,
    SubscriptionFigures,
    age_seconds,
    plus,
    total,
)
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.metrics.loop import LoopFigures
from magnetar_broker.metrics.rows import (
    ACCEPTED_ROW,
    AGE_NAME,
    AGE_TEXT,
    BACKLOG_ROW,
    BLOCKER_ROW,
    BROKER_ROWS,
    CACHE_ROWS,
    COMPACTION_ROWS,
    CONNECTION_ROWS,
    CONSUMER_ROWS,
    DROPPED_ROW,
    EVICTIONS_ROW,
    JOURNAL_BYTES_ROW,
    LIMIT_ROW,
    LOAD_ROWS,
    LOG_ROWS,
    LOOKUP_ROWS,
    MEAN_SIZE_ROW,
    NAMESPACE_ROWS,
    OUT_ROWS,
    PRODUCER_ROWS,
    QUOTA_ROWS,
    REFUSED_ROW,
    SCHEMA_FAILED_ROW,
    SCHEMA_ROWS,
    SHOWN_ROW,
    SPACE_ROWS,
    STALL_ROWS,
    STORAGE_ROWS,
    STRAY_OBJECTS_ROWS,
    SUBSCRIPTION_ROWS,
    THROTTLED_ROWS,
    TLS_ROWS,
    TOPICS_ROW,
    TOTAL_ROWS,
    USAGE_ROWS,
    VERSION_ROW,
    WORKERS_ROW,
)
from magnetar_broker.metrics.text import SLICE, Row, escaped, histograms, labels_of, summary, table
from magnetar_broker.metrics.tls import TlsFigures
from magnetar_broker.metrics.transaction_metrics import of_transactions
from magnetar_broker.metrics.usage import Usage
from magnetar_broker.metrics.writes import Window, of_broker, of_writes, summed
from magnetar_broker.schemas.counts import SchemaCounts, Work
from magnetar_broker.throttling.dispatch_throttle import ThrottleEvents
from magnetar_broker.topic.measuring import Consuming
from magnetar_storage.space.disk_space import SpaceFigures

T = TypeVar("T")
R = TypeVar("R")
OTHER = "other"
"""The name that stands for topics, and for their subscriptions, that are only shown in sums."""
PARTITION = "-partition-"
QUOTA_TYPES = ("size", "time")
SCHEMA_WORK: Final[Mapping[Work, str]] = {
    Work.GET: "reading schemas",
    Work.PUT: "adding schemas",
    Work.DEL: "deleting schemas",
}
SCOPES = ("subscription", "topic", "broker")
"""The scopes of dispatch rates."""


def parts(
    figures: Figures, journal: JournalFigures, loop: LoopFigures, with_unknown: bool = False
) -> Iterator[bytes]:
    """Yield the page without the process's own metrics; each name occurs once.

    Some parts are empty: their work was to prepare others.  An unknown sum over topics has no
    sample; with `with_unknown` it is NaN, so that sums of this page with others are unknown, too.
    """
    cluster = {"cluster": figures.cluster}
    version = labels_of({**cluster, "version": VERSION, "commit": commit()})
    yield from table("", (VERSION_ROW,), [(version, figures)])
    connection = {**cluster, "broker": figures.broker, "metric": "broker_connection"}
    yield from table("", CONNECTION_ROWS, [(labels_of(connection), figures)])
    yield from table("", BROKER_ROWS, [(labels_of(cluster), figures)])
    yield from _of_lookups(figures)
    yield of_limits(figures.limits_reached, figures.cluster)
    yield of_authentication(figures.authentication, figures.cluster)
    yield of_transactions(figures.transactions, figures.cluster)
    yield from _stalls(figures)
    others: dict[str, Load] = {}
    for loads in figures.by_namespace(SLICE, figures.others):
        others = loads
        yield b""
    namespaces: dict[str, Load] = {}
    for loads in figures.by_namespace(SLICE, figures.topics):
        namespaces = loads
        yield b""
    for some in _slices([*others.items()]):
        for name, load in some:
            namespaces[name] = total((namespaces.get(name, Load()), load))
        yield b""
    whole = Load()
    for summed_up in _slices([*namespaces.values()]):
        whole = total((whole, *summed_up))
        yield b""
    broker = [(labels_of(cluster), whole)]
    rows = (TOPICS_ROW, *LOAD_ROWS, BACKLOG_ROW)
    yield from table("pulsar_broker_", rows, (), broker, with_unknown)
    yield from table("pulsar_ml_", CACHE_ROWS, (), broker, with_unknown)
    shown = [
        (labels_of({**cluster, "shown": how}), sum(load.topics for load in loads.values()))
        for how, loads in (("alone", namespaces), (OTHER, others))
    ]
    shown[0] = shown[0][0], shown[0][1] - shown[1][1]
    yield from table("", (SHOWN_ROW,), shown if figures.by_topic else ())
    yield from _of_namespaces(figures, namespaces, with_unknown)
    yield from _of_writes(figures)
    if figures.by_topic:
        yield from _of_topics(figures, others, with_unknown)
        yield from _of_subscriptions(figures, others, with_unknown)
        yield from _of_clients(figures)
    yield histograms(
        "magnetar_dispatch_entries",
        "Entries that a subscription took at once to deliver them; by where they came from",
        [(labels_of({**cluster, "source": source}), one) for source, one in figures.runs.items()],
    )
    yield from _of_journal(journal, labels_of(cluster))
    yield of_loop(loop, figures.cluster)


def of_tls(figures: TlsFigures | None, cluster: str) -> bytes:
    """Return the metrics of TLS; empty without a TLS port."""
    if figures is None:
        return b""
    return b"".join(table("", TLS_ROWS, [(labels_of({"cluster": cluster}), figures)]))


def of_space(space: SpaceFigures | None, cluster: str) -> bytes:
    """Return the metrics of the disk's free space; empty in a process that does not watch it."""
    if space is None:
        return b""
    return b"".join(table("", SPACE_ROWS, [(labels_of({"cluster": cluster}), space)]))


def of_usage(usage: Usage, figures: Figures) -> bytes:
    """Return the metrics of the process's use of the machine."""
    labels = {"cluster": figures.cluster, "broker": figures.broker, "metric": "loadBalancing"}
    return b"".join(table("", USAGE_ROWS, [(labels_of(labels), usage)]))


def of_schemas(schemas: SchemaCounts | None, cluster: str) -> bytes:
    """Return the metrics of schemas; empty in a process without schemas."""
    counts = [] if schemas is None else schemas.all()
    if not counts:
        return b""
    measured = [
        (labels_of({"cluster": cluster, "namespace": namespace}), one) for namespace, one in counts
    ]
    made = list[bytes]()
    for work, text in SCHEMA_WORK.items():
        name = f"pulsar_schema_{work.value}"
        times = [(labels, one.durations[work]) for labels, one in measured]
        done = [(labels, one.count, one.total_ms) for labels, one in times]
        made.append(summary(f"{name}_ops_latency", f"Milliseconds that {text} took", done))
        failed = [(labels, one.failed[work]) for labels, one in measured]
        made += table(name, (SCHEMA_FAILED_ROW,), failed)
    return b"".join((*made, *table("pulsar_schema_", SCHEMA_ROWS, measured)))


def of_stray_objects(stray: StrayObjects | None, cluster: str) -> bytes:
    """Return the metrics of stray objects; empty in a process that does not look for them."""
    if stray is None:
        return b""
    return b"".join(table("", STRAY_OBJECTS_ROWS, [(labels_of({"cluster": cluster}), stray)]))


def of_limits(reached: Mapping[str, int], cluster: str) -> bytes:
    """Return the metric of the limits that clients have reached."""
    counts = [(labels_of({"cluster": cluster, "limit": limit}), number)
              for limit, number in reached.items()]  # fmt: skip
    return b"".join(table("", (LIMIT_ROW,), counts))


def of_authentication(outcomes: OutcomeCounts | None, cluster: str) -> bytes:
    """Return the metrics of authentication; empty while it is off."""
    if outcomes is None:
        return b""
    accepted = [
        (labels_of({"cluster": cluster, "provider_name": name, "auth_method": method}), number)
        for (name, method), number in outcomes.accepted.items()
    ]
    refused = [
        (
            labels_of(
                {
                    "cluster": cluster,
                    "provider_name": name,
                    "auth_method": method,
                    "reason": reason,
                }
            ),
            number,
        )
        for (name, method, reason), number in outcomes.refused.items()
    ]
    return b"".join([*table("", (ACCEPTED_ROW,), accepted), *table("", (REFUSED_ROW,), refused)])


def of_loop(loop: LoopFigures, cluster: str) -> bytes:
    """Return the metrics of an event loop."""
    return histograms("magnetar_loop_stretch_seconds",
                      "Seconds for which the event loop did one thing; by cause",
                      [(labels_of({"cluster": cluster, "cause": cause}), counts)
                       for cause, counts in loop.items()])  # fmt: skip


def of_workers(cluster: str, answered: int, workers: int) -> bytes:
    """Return the metric of a broker's workers: those that have answered, and the others."""
    states = [(labels_of({"cluster": cluster, "state": state}), number)
              for state, number in (("up", answered), ("down", workers - answered))]  # fmt: skip
    return b"".join(table("", (WORKERS_ROW,), states))


def _of_lookups(figures: Figures) -> Iterator[bytes]:
    """Yield the metrics of lookups, and of topics that are loaded for their clients."""
    labels = labels_of({"cluster": figures.cluster})
    yield from table("", LOOKUP_ROWS, [(labels, figures)])
    for name, text, done in (
        ("pulsar_broker_lookup", "Milliseconds that lookups took", figures.lookups.done),
        ("pulsar_topic_load_times", "Milliseconds that loading topics took", figures.loads),
    ):
        yield summary(name, text, [(labels, done.times, done.total_ms)])


def _stalls(figures: Figures) -> Iterator[bytes]:
    cluster = {"cluster": figures.cluster}
    stalls = [(labels_of({**cluster, "blocker": one.blocker}), one) for one in figures.stalls]
    yield from table("magnetar_subscription_", STALL_ROWS, stalls)


def _age_row(figures: Figures) -> Row:
    now_ms = figures.now_ms
    return Row(AGE_NAME, AGE_TEXT, lambda one: age_seconds(one.oldest_ms, now_ms))


def _of_namespaces(
    figures: Figures, namespaces: dict[str, Load], with_unknown: bool
) -> Iterator[bytes]:
    """Yield the topics of each namespace, and its load unless loads are shown by topic."""
    cluster = labels_of({"cluster": figures.cluster})
    measured = yield from _made(
        namespaces.items(), lambda one: (f'{cluster},namespace="{escaped(one[0])}"', *one)
    )
    by_namespace = yield from _made(measured, lambda one: (one[0], one[2]))
    yield from table("pulsar_", (TOPICS_ROW,), (), by_namespace)
    yield from table("pulsar_ml_", LOG_ROWS, (), by_namespace, with_unknown)
    if not figures.by_topic:
        loads = yield from _made(measured, lambda one: (one[0], _with_ended(figures, *one[1:])))
        rows = (*LOAD_ROWS, *STORAGE_ROWS, _age_row(figures), *TOTAL_ROWS, *OUT_ROWS)
        yield from table("pulsar_", (*rows, *NAMESPACE_ROWS), (), loads, with_unknown)
        local = 'remote_cluster="local"'
        backlogs = yield from _made(by_namespace, lambda one: (f"{one[0]},{local}", one[1]))
        yield from table("pulsar_", (BACKLOG_ROW,), (), backlogs, with_unknown)


def _with_ended(figures: Figures, namespace: str, load: Load) -> Load:
    """Return a namespace's load including the totals of topics that are not loaded any more."""
    return load.with_totals(plus(load.totals, figures.ended_of(namespace)))


def _of_writes(figures: Figures) -> Iterator[bytes]:
    """Yield the writes of the last window of topics, of namespaces, and of the broker."""
    names, cluster = _Names(figures), {"cluster": figures.cluster}
    topics: list[tuple[str, Window]] = []
    sums: dict[str, Window] = {}
    whole: Window = ()
    for shown, of in ((figures.by_topic, figures.topics), (False, figures.others)):
        for some in _slices(of):
            for topic in some:
                if not topic.writes:
                    continue
                whole = summed((whole, topic.writes))
                if shown:
                    topics.append((names.topic(topic.namespace, topic.name), topic.writes))
                else:
                    sums[topic.namespace] = summed((sums.get(topic.namespace, ()), topic.writes))
            yield b""
    labelled = yield from _made(
        sums.items(),
        lambda one: (
            names.topic(one[0], OTHER)
            if figures.by_topic
            else labels_of({**cluster, "namespace": one[0]}),
            one[1],
        ),
    )
    yield from of_writes(topics, labelled, figures.window_seconds)
    yield from of_broker(labels_of(cluster), whole, figures.window_seconds)


def _of_topics(figures: Figures, others: dict[str, Load], with_unknown: bool) -> Iterator[bytes]:
    names = _Names(figures)
    loads: list[tuple[str, Load]] = []
    compactions: list[tuple[str, CompactionFigures]] = []
    quotas: list[tuple[str, Quotas]] = []
    evictions: list[tuple[str, int]] = []
    for some in _slices(figures.topics):
        for topic in some:
            text = names.topic(topic.namespace, topic.name)
            loads.append((text, topic.load))
            if topic.compactions is not None:
                compactions.append((text, topic.compactions))
            if topic.quotas is not NO_QUOTAS:
                quotas.append((text, topic.quotas))
                evictions += [
                    (f'{text},quota_type="{kind}"', number)
                    for kind, number in zip(QUOTA_TYPES, topic.evictions, strict=True)
                ]
        yield b""
    sums = yield from _made(
        others.items(), lambda one: (names.topic(one[0], OTHER), _with_others(figures, *one))
    )
    rows = (*LOAD_ROWS, *STORAGE_ROWS, _age_row(figures), *TOTAL_ROWS, BACKLOG_ROW)
    rows = (*rows, MEAN_SIZE_ROW)
    yield from table("pulsar_", rows, loads, sums, with_unknown)
    yield from table("pulsar_", COMPACTION_ROWS, compactions)
    yield from table("pulsar_", QUOTA_ROWS, quotas)
    yield from table("pulsar_", (EVICTIONS_ROW,), evictions)


def _of_subscriptions(
    figures: Figures, others: dict[str, Load], with_unknown: bool
) -> Iterator[bytes]:
    names = _Names(figures)
    measured: list[tuple[str, SubscriptionFigures]] = []
    throttled: list[tuple[str, tuple[int, int]]] = []
    blocked: list[tuple[str, SubscriptionFigures]] = []
    for some in _slices(figures.topics):
        for topic in some:
            of_topic = names.topic(topic.namespace, topic.name)
            for one in topic.subscriptions:
                of = f'{of_topic},subscription="{escaped(one.name)}"'
                measured.append((of, one))
                blocked.append((f'{of},blocker="{one.blocker}"', one))
                if one.throttled is not None:
                    throttled += _throttled(of, one.throttled)
        yield b""
    sums = yield from _made(
        others.items(),
        lambda one: (
            f'{names.topic(one[0], OTHER)},subscription="{OTHER}"',
            _as_subscription(_with_others(figures, *one)),
        ),
    )
    rows = (*SUBSCRIPTION_ROWS, _age_row(figures))
    yield from table("pulsar_subscription_", rows, measured, sums, with_unknown)
    yield from table("pulsar_", (*OUT_ROWS, DROPPED_ROW), measured, sums)
    yield from table("", (BLOCKER_ROW,), blocked)
    yield from table("pulsar_subscription_", THROTTLED_ROWS, throttled)


def _with_others(figures: Figures, namespace: str, load: Load) -> Load:
    """Return the load of the other topics of a namespace with totals that never fall."""
    return load.with_totals(figures.other_totals.get(namespace, load.totals))


def _throttled(labels: str, events: ThrottleEvents) -> Iterator[tuple[str, tuple[int, int]]]:
    for scope in SCOPES:
        yield f'{labels},reason="{scope}"', (events.messages[scope], events.bytes[scope])


def _of_clients(figures: Figures) -> Iterator[bytes]:
    """Yield the metrics of consumers and producers, if they are shown."""
    names = _Names(figures)
    consumers: list[tuple[str, ConsumerFigures]] = []
    producers: list[tuple[str, ProducerFigures]] = []
    for some in _slices(figures.topics):
        for topic in some:
            of_topic = names.topic(topic.namespace, topic.name)
            for subscription in topic.subscriptions:
                of = f'{of_topic},subscription="{escaped(subscription.name)}"'
                consumers += [
                    (f'{of},consumer_name="{escaped(one.name)}",consumer_id="{one.id}"', one)
                    for one in subscription.members
                ]
            producers += [
                (f'{of_topic},producer_name="{escaped(one.name)}",producer_id="{one.id}"', one)
                for one in topic.producers
            ]
        yield b""
    yield from table("pulsar_consumer_", CONSUMER_ROWS, consumers)
    yield from table("pulsar_producer_", PRODUCER_ROWS, producers)


def _as_subscription(load: Load) -> SubscriptionFigures:
    """Return the sums over the subscriptions of some topics, as the figures of one subscription."""
    backlog = None
    if load.backlog is not None and load.backlog_bytes is not None:
        backlog = Backlog(load.backlog, 0, load.backlog_bytes, load.delayed or 0)
    rates = Consuming(
        load.rate_out,
        load.throughput_out,
        load.rate_redelivered,
        load.rate_acked,
        expired=load.rate_expired,
    )
    return SubscriptionFigures(
        OTHER, backlog, load.oldest_ms, load.consumers, rates, load.messages_out, load.bytes_out,
        load.unacked, None, load.in_replay, None,
    )  # fmt: skip


class _Names:
    """The labels of topics."""

    def __init__(self, figures: Figures) -> None:
        self._cluster = labels_of({"cluster": figures.cluster})
        self._split = figures.split_partitions
        self._namespaces: dict[str, str] = {}

    def topic(self, namespace: str, name: str) -> str:
        """Return the labels of one topic."""
        of = self._namespaces.get(namespace)
        if of is None:
            of = self._namespaces[namespace] = (
                f'{self._cluster},namespace="{escaped(namespace)}",topic="'
            )
        if not self._split:
            return f'{of}{escaped(name)}"'
        base, separator, number = name.rpartition(PARTITION)
        if not (separator and number.isdigit()):
            base, number = name, "-1"
        return f'{of}{escaped(base)}",partition="{number}"'


def _slices(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), SLICE):
        yield things[start : start + SLICE]


def _made(things: Iterable[T], make: Callable[[T], R]) -> Generator[bytes, None, list[R]]:
    """Return the results of `make` for all things; yield an empty part after each slice of them."""
    made = list[R]()
    for some in _slices([*things]):
        made += map(make, some)
        yield b""
    return made


def _of_journal(journal: JournalFigures, cluster: str) -> Iterator[bytes]:
    yield histograms("magnetar_journal_round_records", "Records that shared one fsync",
                     [(cluster, journal.records)])  # fmt: skip
    yield histograms("magnetar_journal_fsync_seconds", "Seconds to write and sync a round",
                     [(cluster, journal.seconds)])  # fmt: skip
    yield histograms("magnetar_journal_write_seconds",
                     "Seconds from the first record of a round until the round is durable",
                     [(cluster, journal.waits)])  # fmt: skip
    yield from table("", (JOURNAL_BYTES_ROW,), [(cluster, journal)])
