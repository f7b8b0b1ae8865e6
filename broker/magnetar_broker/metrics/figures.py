"""The figures behind the metrics: one snapshot, from which the page is made."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import NamedTuple

from magnetar_broker.authentication.outcomes import OutcomeCounts
from magnetar_broker.compaction.topic_compaction import CompactionFigures
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.dispatch.throttle import ThrottleEvents
from magnetar_broker.metrics.histogram import Counts
from magnetar_broker.metrics.transactions import CoordinatorCounts
from magnetar_broker.topic.measuring import Consuming, Publishing
from magnetar_broker.watchdog import Stalls


class Load(NamedTuple):
    """The figures of a topic that add up to those of a namespace or the broker.  Rates are per
    second.

    All but the last are added; those that may be None are unknown then, and make sums unknown.
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
    """Entries read to deliver them."""
    rate_read_from_disk: float = 0.0
    """How many of them were not in the cache of recent entries."""
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    storage_bytes: int = 0
    publish_waits: int = 0
    """How often reading from a connection was paused for a topic's publish rate."""
    unacked: int = 0
    """Messages delivered and not acknowledged, on Shared and Key_Shared."""
    in_replay: int = 0
    """Entries that wait for redelivery."""
    backlog: int | None = 0
    """Unacknowledged messages of all subscriptions."""
    delayed: int | None = 0
    """How many of them are delayed."""
    backlog_bytes: int | None = 0
    """Unacknowledged bytes of the slowest subscription; summed over topics."""
    oldest_ms: float | None = inf
    """When the oldest unacknowledged message was published; infinite if there is none."""

    @property
    def totals(self) -> "Totals":
        """The figures that only grow while a topic is loaded."""
        return self.messages_in, self.bytes_in, self.messages_out, self.bytes_out

    def with_totals(self, totals: "Totals") -> "Load":
        """The same, but for those."""
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
    """The sums."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def total(loads: Iterable[Load]) -> Load:
    """The sum."""
    columns = list(zip(*loads, strict=True))
    if not columns:
        return Load()
    added = map(sum, columns[:ADDED])
    known = (None if None in column else sum(column) for column in columns[ADDED:OLDEST])
    oldest = None if None in columns[OLDEST] else min(columns[OLDEST])
    return Load._make((*added, *known, oldest))


def age_seconds(oldest_ms: float | None, now_ms: int) -> float | None:
    """The age of the oldest message; 0 if there is none, None if it is unknown."""
    return None if oldest_ms is None else max(0.0, now_ms - oldest_ms) / 1000


class ConsumerFigures(NamedTuple):
    """One consumer."""

    name: str
    id: int
    rates: Consuming
    unacked: int
    blocked: bool
    """Whether it has reached its limit of unacknowledged messages."""
    permits: int


class ProducerFigures(NamedTuple):
    """One producer."""

    name: str
    id: int
    rates: Publishing


class Times(NamedTuple):
    """When something last happened to a subscription, in milliseconds since 1970; 0 if it has not
    since the topic was loaded."""

    expired: int = 0
    acked: int = 0
    flow: int = 0
    """A consumer asked for messages."""
    consumed: int = 0
    """Messages were sent."""
    advanced: int = 0
    """The mark-delete position advanced."""


NOT_YET = Times()


class SubscriptionFigures(NamedTuple):
    """One subscription; None where a figure is unknown or does not apply to its type."""

    name: str
    backlog: Backlog | None
    """What is unacknowledged."""
    oldest_ms: float | None
    """When the oldest unacknowledged message was published; infinite if there is none."""
    consumers: int
    rates: Consuming
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
    dropped: int | None = None
    """Messages dropped for lack of a consumer with permits; non-persistent topics only."""
    expired: int | None = None
    """Messages expired since the topic was loaded."""
    times: Times = NOT_YET
    throttled: ThrottleEvents | None = None
    members: tuple[ConsumerFigures, ...] = ()
    """Its consumers, if they are shown."""


class Quotas(NamedTuple):
    """The limits of a topic's backlog, in bytes and in seconds; None where there is none."""

    size: int | None = None
    age: int | None = None


NO_QUOTAS = Quotas()


class Done(NamedTuple):
    """Work of one kind since the start."""

    times: int = 0
    total_ms: int = 0
    under_way: int = 0


NOTHING_DONE = Done()


class LookupFigures(NamedTuple):
    """Lookups since the start, by their answer."""

    done: Done = NOTHING_DONE
    answered: int = 0
    redirected: int = 0
    failed: int = 0


NO_LOOKUPS = LookupFigures()


class TopicFigures(NamedTuple):
    """One loaded topic."""

    name: str
    namespace: str
    load: Load
    subscriptions: tuple[SubscriptionFigures, ...]
    compactions: CompactionFigures | None = None
    """Only where the topic was compacted since it was loaded."""
    producers: tuple[ProducerFigures, ...] = ()
    """If they are shown."""
    writes: tuple[float, ...] = ()
    """What it has written in the last window, as `WriteCounts.window`."""
    quotas: Quotas = NO_QUOTAS
    evictions: tuple[int, int] = (0, 0)
    """How often its backlog was evicted for a quota by size, and by age."""


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
    unread_bytes: int
    """Stored messages that no subscription has acknowledged, in closed ledgers."""
    unread_limit_bytes: int
    """Of all topics; 0 is no limit."""
    unread_deleted_bytes: int
    topics: Sequence[TopicFigures]
    """Those that the page shows one by one, if it shows topics at all."""
    stalls: tuple[Stalls, ...]
    """Subscriptions that could deliver and do not, by reason."""
    by_topic: bool
    """Whether the page shows topics, or only namespaces."""
    others: Sequence[TopicFigures] = ()
    """Topics beyond the limit of series: the page has their sums."""
    other_totals: Mapping[str, Totals] = field(default_factory=dict)
    """What `others` have counted, by namespace; it never falls, whichever topics they are."""
    ended: Mapping[str, Totals] = field(default_factory=dict)
    """What topics have counted that are not loaded any more, by namespace."""
    now_ms: int = 0
    window_seconds: int = 60
    """Over which rates are measured."""
    runs: Mapping[str, Counts] = field(default_factory=dict)
    """How many entries dispatchers took at once, by where these came from."""
    logs: int = 0
    """Of topics whose messages are stored."""
    cache_entries: int = 0
    cache_evicted: int = 0
    """Entries of the cache of recent entries, and those that were dropped from it."""
    damaged_entries: int = 0
    """Known to be damaged, and not set aside."""
    damaged_set_aside: int = 0
    """Set aside since the start."""
    scrubbed_bytes: int = 0
    """Of closed segments, read since the start to find damage."""
    connections_half_open: int = 0
    """Those that are not accepted yet."""
    connections_accepted: int = 0
    connections_refused: int = 0
    """Of those that were opened, by the answer to CONNECT."""
    lookups: LookupFigures = NO_LOOKUPS
    loads: Done = NOTHING_DONE
    """Of topics."""
    limits_reached: Mapping[str, int] = field(default_factory=dict)
    authentication: OutcomeCounts | None = None
    """None while it is off."""
    """How often clients have reached each limit that protects the process."""
    transactions: Sequence[CoordinatorCounts] = ()
    """Of the coordinators that are loaded."""
    split_partitions: bool = False
    """Whether the number of a partition is a label of its own."""

    @property
    def connections_closed(self) -> int:
        """Since the start."""
        return self.connections_total - self.connections

    def ended_of(self, namespace: str) -> Totals:
        """What topics of a namespace have counted that are not loaded any more."""
        return self.ended.get(namespace, (0, 0, 0, 0))

    def by_namespace(self, topics: int, of: Sequence[TopicFigures]) -> Iterator[dict[str, Load]]:
        """The load of every namespace that has one of these topics, after so many more of them
        each time; the last time after all."""
        loads: dict[str, Load] = {}
        left = iter(of)
        while some := list(islice(left, topics)):
            found: dict[str, list[Load]] = {}
            for topic in some:
                found.setdefault(topic.namespace, []).append(topic.load)
            for name, more in found.items():
                loads[name] = total((loads[name], *more) if name in loads else more)
            yield loads
