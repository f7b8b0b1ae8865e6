"""The figures behind the metrics: one snapshot, from which the page is made."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import NamedTuple

from magnetar_broker.authentication.outcomes import OutcomeCounts
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.metrics.histogram import Counts
from magnetar_broker.metrics.transaction_metrics import CoordinatorCounts
from magnetar_broker.throttling.dispatch_throttle import ThrottleEvents
from magnetar_broker.topic.measuring import Consuming, Publishing
from magnetar_broker.watchdog import Stalls
from magnetar_storage.interfaces import CopyCounts


class Load(NamedTuple):
    """The figures of a topic that are added for a namespace or the broker.  Rates are per second.

    All but the last are added.  A figure whose type allows None is then unknown, and makes sums
    unknown.
    """

    topics: int = 0
    subscriptions: int = 0
    producers: int = 0
    consumers: int = 0
    rate_in: float = 0.0
    throughput_in: float = 0.0
    rate_out: float = 0.0
    throughput_out: float = 0.0
    rate_redelivered: float = 0.0
    rate_acked: float = 0.0
    rate_expired: float = 0.0
    rate_read: float = 0.0
    """Entries per second that are read for delivery."""
    rate_read_from_disk: float = 0.0
    """The part of `rate_read` that was not in the cache of recent entries."""
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    storage_bytes: int = 0
    offloaded_bytes: int = 0
    """The part of `storage_bytes` that is in a store of objects."""
    publish_waits: int = 0
    """The number of times that reading from a connection was paused for a topic's publish rate."""
    unacked: int = 0
    """Messages that are delivered and not acknowledged, on Shared and Key_Shared subscriptions."""
    in_replay: int = 0
    """Entries that wait for redelivery."""
    backlog: int | None = 0
    """Unacknowledged messages of all subscriptions."""
    delayed: int | None = 0
    """The part of `backlog` that is delayed."""
    backlog_bytes: int | None = 0
    """Unacknowledged bytes of the slowest subscription; summed over topics."""
    oldest_ms: float | None = inf
    """The publish time of the oldest unacknowledged message; infinite if there is none."""

    @property
    def totals(self) -> "Totals":
        """The figures that only grow while a topic is loaded."""
        return self.messages_in, self.bytes_in, self.messages_out, self.bytes_out

    def with_totals(self, totals: "Totals") -> "Load":
        """Return the same load with other totals."""
        messages_in, bytes_in, messages_out, bytes_out = totals
        return self._replace(
            messages_in=messages_in,
            bytes_in=bytes_in,
            messages_out=messages_out,
            bytes_out=bytes_out,
        )


ADDED = Load._fields.index("backlog")
OLDEST = Load._fields.index("oldest_ms")
Totals = tuple[int, int, int, int]
"""Messages and bytes in, messages and bytes out."""


def plus(one: Totals, other: Totals) -> Totals:
    """Return the sum of two totals."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def total(loads: Iterable[Load]) -> Load:
    """Return the load of all topics together."""
    columns = list(zip(*loads, strict=True))
    if not columns:
        return Load()
    added = map(sum, columns[:ADDED])
    known = (None if None in column else sum(column) for column in columns[ADDED:OLDEST])
    oldest = None if None in columns[OLDEST] else min(columns[OLDEST])
    return Load._make((*added, *known, oldest))


def age_seconds(oldest_ms: float | None, now_ms: int) -> float | None:
    """Return the age of the oldest message; 0 if there is none, None if it is unknown."""
    return None if oldest_ms is None else max(0.0, now_ms - oldest_ms) / 1000


class ConsumerFigures(NamedTuple):
    """The figures of one consumer."""

    name: str
    id: int
    rates: Consuming
    unacked: int
    blocked: bool
    """Whether the consumer has reached its limit of unacknowledged messages."""
    permits: int


class ProducerFigures(NamedTuple):
    """The figures of one producer."""

    name: str
    id: int
    rates: Publishing


class Times(NamedTuple):
    """The times of a subscription's last events, in milliseconds since 1970; 0 if there was none
    since the topic was loaded."""

    expired: int = 0
    acked: int = 0
    flow: int = 0
    """The time at which a consumer last asked for messages."""
    consumed: int = 0
    """The time at which messages were last sent."""
    advanced: int = 0
    """The time at which the mark-delete position last advanced."""


NOT_YET = Times()


class SubscriptionFigures(NamedTuple):
    """The figures of one subscription; None where one is unknown or does not apply to its type."""

    name: str
    backlog: Backlog | None
    """The unacknowledged messages."""
    oldest_ms: float | None
    """The publish time of the oldest unacknowledged message; infinite if there is none."""
    consumers: int
    rates: Consuming
    messages_out: int | None
    """Messages delivered since the topic was loaded, including redeliveries."""
    bytes_out: int | None
    unacked: int | None
    """Messages that are delivered and not acknowledged; Shared and Key_Shared only."""
    blocked: bool | None
    """Whether the subscription, or one of its consumers, has reached the limit of `unacked`."""
    in_replay: int | None
    """Entries that wait for redelivery."""
    blocker: str | None
    """The reason why nothing is delivered at the moment."""
    dropped: int | None = None
    """Messages dropped for lack of a consumer with permits; non-persistent topics only."""
    expired: int | None = None
    """Messages expired since the topic was loaded."""
    times: Times = NOT_YET
    throttled: ThrottleEvents | None = None
    members: tuple[ConsumerFigures, ...] = ()
    """The figures of the subscription's consumers, if they are shown."""


class Quotas(NamedTuple):
    """The limits of a topic's backlog, in bytes and in seconds; None for no limit."""

    size: int | None = None
    age: int | None = None


NO_QUOTAS = Quotas()


class Done(NamedTuple):
    """The amount of one kind of work since the start."""

    times: int = 0
    total_ms: int = 0
    under_way: int = 0


NOTHING_DONE = Done()


class LookupFigures(NamedTuple):
    """Lookups since the start, by their answers."""

    done: Done = NOTHING_DONE
    answered: int = 0
    redirected: int = 0
    failed: int = 0


NO_LOOKUPS = LookupFigures()


class TopicFigures(NamedTuple):
    """The figures of one loaded topic."""

    name: str
    namespace: str
    load: Load
    subscriptions: tuple[SubscriptionFigures, ...]
    compactions: CompactionFigures | None = None
    """The compactions of a topic that was compacted since it was loaded; else None."""
    producers: tuple[ProducerFigures, ...] = ()
    """The figures of the topic's producers, if they are shown."""
    writes: tuple[float, ...] = ()
    """The writes of the last window, in the form of `WriteCounts.window`."""
    quotas: Quotas = NO_QUOTAS
    evictions: tuple[int, int] = (0, 0)
    """The numbers of times that the backlog was evicted for a quota by size, and by age."""


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
    """Bytes that were read from disk and are not sent yet, including reads under way."""
    read_limit_bytes: int
    reads_waiting: int
    read_dropped_bytes: int
    unread_bytes: int
    """Bytes of stored messages that no subscription has acknowledged, in closed ledgers."""
    unread_limit_bytes: int
    """The limit of `unread_bytes` for all topics; 0 means no limit."""
    unread_deleted_bytes: int
    topics: Sequence[TopicFigures]
    """The topics that the page shows one by one, if it shows topics at all."""
    stalls: tuple[Stalls, ...]
    """Subscriptions that could deliver and do not, by reason."""
    by_topic: bool
    """Whether the page shows topics, or only namespaces."""
    others: Sequence[TopicFigures] = ()
    """The topics beyond the limit of series, of which the page has the sums."""
    other_totals: Mapping[str, Totals] = field(default_factory=dict)
    """The totals of `others`, by namespace; they never fall, whichever topics `others` are."""
    ended: Mapping[str, Totals] = field(default_factory=dict)
    """The totals of topics that are no longer loaded, by namespace."""
    now_ms: int = 0
    window_seconds: int = 60
    """The time over which rates are measured."""
    runs: Mapping[str, Counts] = field(default_factory=dict)
    """The numbers of entries that dispatchers took at once, by the source of the entries."""
    logs: int = 0
    """The number of topics whose messages are stored."""
    cache_entries: int = 0
    cache_evicted: int = 0
    """The number of entries that were dropped from the cache of recent entries."""
    damaged_entries: int = 0
    """The number of entries that are known to be damaged, and were not set aside."""
    damaged_set_aside: int = 0
    """The number of entries that were set aside since the start."""
    scrubbed_bytes: int = 0
    """The bytes of closed segments that were read since the start to find damage."""
    connections_half_open: int = 0
    """The number of open connections that are not accepted yet."""
    connections_accepted: int = 0
    connections_refused: int = 0
    """The number of refused connections; `connections_accepted` counts the others."""
    lookups: LookupFigures = NO_LOOKUPS
    loads: Done = NOTHING_DONE
    """The loads of topics."""
    limits_reached: Mapping[str, int] = field(default_factory=dict)
    """The number of times that clients have reached each limit that protects the process."""
    authentication: OutcomeCounts | None = None
    """The outcomes of authentication; None while it is off."""
    copies: CopyCounts = field(default_factory=CopyCounts)
    transactions: Sequence[CoordinatorCounts] = ()
    """The counts of the coordinators that are loaded."""
    split_partitions: bool = False
    """Whether the number of a partition is a label of its own."""

    @property
    def connections_closed(self) -> int:
        """The number of connections that were closed since the start."""
        return self.connections_total - self.connections

    def ended_of(self, namespace: str) -> Totals:
        """Return the totals of topics of a namespace that are no longer loaded."""
        return self.ended.get(namespace, (0, 0, 0, 0))

    def by_namespace(self, topics: int, of: Sequence[TopicFigures]) -> Iterator[dict[str, Load]]:
        """Yield the loads of all namespaces of these topics, by name.

        It yields after each `topics` of them, so that the caller can pause; the last result is
        complete.
        """
        loads: dict[str, Load] = {}
        left = iter(of)
        while some := list(islice(left, topics)):
            found: dict[str, list[Load]] = {}
            for topic in some:
                found.setdefault(topic.namespace, []).append(topic.load)
            for name, more in found.items():
                loads[name] = total((loads[name], *more) if name in loads else more)
            yield loads
