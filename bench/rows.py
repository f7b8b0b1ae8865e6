"""The rows of the table, and the marks each has to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bench.attack import attacked
from bench.authorized import authorize
from bench.clients import receives, round_trips, sends
from bench.cold import cold
from bench.compacting import compact
from bench.copies import deduplicate
from bench.delayed import delayed
from bench.frames import Shape
from bench.holes import holes
from bench.latencies import beside_backlog, beside_compaction, beside_topics
from bench.many_topics import known_topics, many_topics
from bench.moving import moves, reloads
from bench.patterns import patterns
from bench.policies import enforce
from bench.scenarios import Trial, catch_up, crash, fan_out, latency, publish, start, tail
from bench.scraping import scrapes
from bench.several import Spread, deaths, publish_spread, several, share_spread
from bench.sharing import share, share_by_key
from bench.spark import idles, reads, writes
from bench.tls import publish_over_tls
from bench.transactions import SETTINGS as TRANSACTIONS
from bench.transactions import beside_aborts, beside_open, transact
from bench.usage import Measures

SMALL, KIB, LARGE = Shape(100), Shape(1 << 10), Shape(64 << 10)
NUMBERED_BATCH = Shape(100, batch=100, numbered=True)
SMALL_BATCH, KIB_BATCH = Shape(100, batch=100), Shape(1 << 10, batch=100)
MANY_TOPICS = Shape(100, topics=1000)
KEYED = Shape(100, keys=100_000)
SUBSCRIPTIONS = CONSUMERS = 10
PER_SECOND = 1000
HOLES = 1_000_000
TOPICS_UNDER_POLICY, POLICY_CHANGES = 1000, 100
DELAYED, DELAYED_SECONDS = 10_000_000, 1200
OTHER_TOPICS = 1000
KNOWN_TOPICS, LOADED_TOPICS = 1_000_000, 10_000
FSYNC, FLOOR = "pulsar-fsync", "floor"
KAFKAS = "kafka-flush", "kafka"


@dataclass(frozen=True)
class Mark:
    """What Magnetar has to reach."""

    measure: str
    bound: float
    of: str = ""
    """The server whose measure the bound is a multiple of; none: the bound is absolute."""
    at_most: bool = False
    """Else at least."""


@dataclass(frozen=True)
class Row:
    """Something to measure."""

    title: str
    measure: Callable[[Trial], Measures]
    marks: tuple[Mark, ...] = ()
    fresh: bool = False
    """Every server is restarted for it, also one that is slow to start."""
    asked: bool = False
    """Takes long: it is measured only where it is named."""
    brokers: bool = False
    """Only for brokers: the floor cannot do it."""
    everywhere: bool = False
    """Also for servers that speak another protocol: it means the same there."""
    ours: bool = False
    """Only for Magnetar: it needs its settings, or what it stores."""
    also: tuple[str, ...] = ()
    """Servers that a row of ours is for too."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of brokers that are not at their defaults; such a row is `fresh`."""


def rate(bound: float, of: str) -> Mark:
    return Mark("msg_per_s", bound, of)


PEAK = Mark("peak_mib", 512, at_most=True)
OF_OFFICIAL = Mark("of_official", 1.0)
SEEN = Mark("seen_ms", 1000, at_most=True)
KEPT_UP = (Mark("kept_up", 0.95), Mark("behind_ms", 500, at_most=True), PEAK)


def tail_of_latency(p99: float, p999: float) -> tuple[Mark, ...]:
    """Bounds in milliseconds, and relative to the floor."""
    return (
        Mark("p99_ms", p99, at_most=True),
        Mark("p999_ms", p999, at_most=True),
        Mark("p99_ms", 1.2, FLOOR, at_most=True),
        Mark("p999_ms", 1.2, FLOOR, at_most=True),
    )


def even_load(
    title: str, measure: Callable[..., Measures], *marks: Mark, fresh: bool = True
) -> Row:
    return Row(
        f"publish to deliver at {PER_SECOND:,} msg/s{title}",
        partial(measure, shape=SMALL, entries=8 * PER_SECOND, per_second=PER_SECOND),
        (*marks, *tail_of_latency(1.0, 4.0)),
        fresh=fresh,
        everywhere=not fresh,
    )


def publishing(shape: Shape, entries: int, *marks: Mark) -> Row:
    measure = partial(publish, shape=shape, entries=entries)
    title, everywhere = f"publish {shape.title}", shape.topics == 1
    return Row(title, measure, (*marks, PEAK), everywhere=everywhere)


def tailing(shape: Shape, entries: int) -> Row:
    measure = partial(tail, shape=shape, entries=entries)
    return Row(f"publish and consume {shape.title}", measure, KEPT_UP)


def catching_up(shape: Shape, entries: int, *marks: Mark) -> Row:
    measure = partial(catch_up, shape=shape, entries=entries)
    return Row(f"catch up {shape.title}", measure, (*marks, PEAK), everywhere=True)


def deduplicating(shape: Shape, entries: int) -> Row:
    measure = partial(deduplicate, shape=shape, entries=entries)
    marks = (Mark("of_plain", 0.85), PEAK)
    return Row(f"publish {shape.title} with deduplication", measure, marks, brokers=True)


def securing(shape: Shape, entries: int) -> Row:
    measure = partial(publish_over_tls, shape=shape, entries=entries)
    return Row(f"publish {shape.title} over TLS", measure, (PEAK,), fresh=True, ours=True)


def holing(shuffled: bool) -> Row:
    measure = partial(holes, shape=SMALL, entries=2 * HOLES, shuffled=shuffled)
    marks = (
        rate(1.0, FSYNC),
        Mark("holes_mib", 64, at_most=True),
        Mark("came_again", 0, at_most=True),
        PEAK,
    )
    order = "in random order" if shuffled else "in order"
    return Row(f"make a million ack holes {order}", measure, marks, fresh=True, brokers=True)


def keeping_topics(topics: int, asked: bool = False) -> Row:
    marks = (
        rate(5.0, FSYNC),
        Mark("reopened_per_s", 5.0, FSYNC),
        Mark("touched_per_s", 8.0, FSYNC),
        Mark("topic_kib", 11, at_most=True),
        Mark("healthy_ms", 2000, at_most=True),
    )
    title = f"open a producer on each of {topics:,} topics; again after a restart; use each"
    measure = partial(many_topics, topics=topics)
    return Row(title, measure, marks, fresh=True, asked=asked, brokers=True)


def compacting(shape: Shape, messages: int, asked: bool = False) -> Row:
    measure = partial(compact, shape=shape, messages=messages)
    marks = (rate(1.0, FSYNC), Mark("more_mib", 300, at_most=True))
    title = f"compact {messages:,} messages, {shape.title}"
    return Row(title, measure, marks, fresh=True, asked=asked, brokers=True)


def on_workers(title: str, spread: Spread, shape: Shape, entries: int) -> Row:
    marks = (
        Mark("of_one", 1.6),
        Mark("cpu_of_one", 1.15, at_most=True),
        Mark("idle_mib", 45, at_most=True),
        Mark("healthy_ms", 1000, at_most=True),
    )
    measure = partial(several, spread=spread, shape=shape, entries=entries)
    return Row(f"{title} {shape.title} on 2 workers", measure, marks, fresh=True, ours=True)


def of_clients(
    title: str, measure: Callable[..., Measures], shape: Shape, messages: int, *marks: Mark
) -> Row:
    whole = partial(measure, shape=shape, messages=messages)
    return Row(f"the asyncio client: {title} {shape.title}", whole, marks, ours=True)


def of_spark(title: str, measure: Callable[[Trial], Measures], *marks: Mark) -> Row:
    """Beside Kafka's own source and sink."""
    return Row(title, measure, marks, ours=True, also=KAFKAS, asked=True)


def transacting(each: int, transactions: int) -> Row:
    measure = partial(transact, shape=SMALL, transactions=transactions, each=each)
    title = f"transactions of {each} acknowledgements and {each} messages, {SMALL.title}"
    marks = (rate(1.0, FSYNC), PEAK)
    return Row(title, measure, marks, fresh=True, brokers=True, settings=TRANSACTIONS)


def scraping(on: str, workers: int) -> Row:
    measure = partial(
        scrapes,
        shape=SMALL,
        entries=8 * PER_SECOND,
        per_second=PER_SECOND,
        topics=LOADED_TOPICS,
        workers=workers,
    )
    marks = (
        Mark("scrape_ms", 100, at_most=True),
        Mark("page_mb", 8, at_most=True),
        Mark("of_quiet", 1.2, at_most=True),
    )
    title = f"publish to deliver at {PER_SECOND:,} msg/s beside scrapes of {LOADED_TOPICS:,} topics"
    return Row(title + on, measure, marks, fresh=True, ours=True)


ROWS: dict[str, Row] = {
    "publish-100": publishing(
        SMALL, 600_000, rate(0.8, FSYNC), Mark("cpu_us", 1.0, FSYNC, at_most=True), rate(0.5, FLOOR)
    ),
    "publish-1k": publishing(KIB, 300_000, rate(0.9, FSYNC)),
    "publish-100x100": publishing(SMALL_BATCH, 60_000, rate(1.2, FSYNC)),
    "publish-100x1k": publishing(KIB_BATCH, 10_000, rate(2.0, FSYNC), rate(0.6, FLOOR)),
    "publish-64k": publishing(LARGE, 12_000, rate(1.0, FSYNC), rate(0.6, FLOOR)),
    "topics-1000": publishing(
        MANY_TOPICS, 300_000, rate(1.2, FSYNC), Mark("cpu_us", 6, at_most=True)
    ),
    "topics-10k": keeping_topics(10_000),
    "topics-50k": keeping_topics(50_000, asked=True),
    "topics-million": Row(
        f"start with {KNOWN_TOPICS:,} topics known, and load {LOADED_TOPICS:,}",
        partial(known_topics, known=KNOWN_TOPICS, loaded=LOADED_TOPICS),
        (Mark("healthy_ms", 2000, at_most=True), Mark("unloaded_bytes", 200, at_most=True)),
        fresh=True,
        ours=True,
    ),
    "scrapes": scraping("", workers=1),
    "scrapes-workers": scraping(" on 2 workers", workers=2),
    "attack": Row(
        f"publish to deliver at {PER_SECOND:,} msg/s under attack",
        partial(attacked, shape=SMALL, entries=8 * PER_SECOND, per_second=PER_SECOND),
        (Mark("of_quiet", 3, at_most=True),),
        fresh=True,
        ours=True,
    ),
    "regex": Row(
        "subscribe to a pattern that 10,000 topics match",
        partial(patterns, topics=10_000),
        (rate(1.0, FSYNC), Mark("listed_ms", 1.0, FSYNC, at_most=True), SEEN),
        fresh=True,
        brokers=True,
    ),
    "tail-100": tailing(SMALL, 300_000),
    "tail-100x100": tailing(SMALL_BATCH, 40_000),
    "catch-up-100": catching_up(SMALL, 300_000, rate(5.0, FSYNC)),
    "catch-up-100x100": catching_up(SMALL_BATCH, 40_000, rate(1.2, FSYNC)),
    "catch-up-100x1k": catching_up(KIB_BATCH, 10_000, rate(1.2, FSYNC)),
    "fan-out-10": Row(
        f"{SMALL.title} to {SUBSCRIPTIONS} subscriptions, deliveries",
        partial(fan_out, shape=SMALL, entries=60_000, subscriptions=SUBSCRIPTIONS),
        (rate(0.6, FSYNC), PEAK),
        everywhere=True,
    ),
    "latency": even_load("", latency, Mark("p50_ms", 0.8, at_most=True), fresh=False),
    "latency-topics": even_load(
        f" beside {OTHER_TOPICS:,} other topics", partial(beside_topics, topics=OTHER_TOPICS)
    ),
    "latency-backlog": even_load(
        " beside a reader that catches up", partial(beside_backlog, backlog=KIB_BATCH)
    ),
    "latency-compaction": even_load(
        " beside a compaction", beside_compaction, Mark("beside_share", 0.8)
    ),
    "shared": Row(
        f"{SMALL.title}, Shared by {CONSUMERS} consumers, each ack on its own",
        partial(share, shape=SMALL, entries=200_000, consumers=CONSUMERS),
        (rate(0.6, FSYNC), PEAK),
        brokers=True,
    ),
    "key_shared": Row(
        f"{KEYED.title}, Key_Shared by {CONSUMERS} consumers",
        partial(share_by_key, shape=KEYED, entries=200_000, consumers=CONSUMERS),
        (Mark("of_shared", 0.7), PEAK),
    ),
    "tls-100": securing(SMALL, 300_000),
    "tls-1k": securing(KIB, 150_000),
    "publish-authorized": Row(
        f"publish {SMALL.title} with authorization",
        partial(authorize, shape=SMALL, entries=600_000),
        (Mark("of_plain", 0.97), PEAK),
        fresh=True,
        ours=True,
    ),
    "dedup-100": deduplicating(SMALL, 300_000),
    "dedup-100x100": deduplicating(NUMBERED_BATCH, 20_000),
    "policy": Row(
        f"set a policy of {TOPICS_UNDER_POLICY:,} loaded topics, until clients meet it",
        partial(enforce, topics=TOPICS_UNDER_POLICY, changes=POLICY_CHANGES),
        (Mark("p99_ms", 1.0, FSYNC, at_most=True), PEAK),
        brokers=True,
    ),
    "compact-1k": compacting(Shape(1 << 10, keys=20_000), 200_000),
    "compact-100x100": compacting(Shape(100, batch=100, keys=1_000_000), 1_000_000),
    "compact-10m": compacting(Shape(100, batch=100, keys=10_000_000), 10_000_000, asked=True),
    "holes-in-order": holing(shuffled=False),
    "holes-random": holing(shuffled=True),
    "delayed": Row(
        f"publish ten million delayed {SMALL.title}",
        partial(delayed, shape=SMALL, entries=DELAYED, limit_seconds=DELAYED_SECONDS),
        (
            Mark("stored_share", 1.0),
            Mark("delayed_ratio", 0.7),
            Mark("peak_mib", 200, at_most=True),
            Mark("healthy_ms", 2000, at_most=True),
        ),
        fresh=True,
        asked=True,
        brokers=True,
    ),
    "first-delivery-cold": Row(
        "first delivery from one open segment, cold after kill -9",
        partial(cold, shape=KIB_BATCH),
        (
            Mark("beginning_ms", 500, at_most=True),
            Mark("middle_ms", 500, at_most=True),
            Mark("healthy_ms", 2000, at_most=True),
        ),
        fresh=True,
        ours=True,
    ),
    "client-send": of_clients("send", sends, SMALL, 100_000),
    "client-send-batched": of_clients("send", sends, SMALL_BATCH, 500_000, OF_OFFICIAL),
    "client-receive": of_clients("receive", receives, SMALL, 100_000),
    "client-receive-batched": of_clients("receive", receives, SMALL_BATCH, 1_000_000, OF_OFFICIAL),
    "client-latency": of_clients(
        "wait for each receipt,", round_trips, SMALL, 5000, Mark("of_official", 1.0, at_most=True)
    ),
    "spark-read": of_spark(
        f"read with Spark {SMALL_BATCH.title}",
        partial(reads, shape=SMALL_BATCH, messages=2_000_000),
        rate(1_500_000, ""),
        Mark("all_columns_per_s", 1_200_000),
    ),
    "spark-write": of_spark(
        f"write with Spark {SMALL.title}",
        partial(writes, shape=SMALL, messages=1_000_000),
        rate(700_000, ""),
    ),
    "spark-idle": of_spark(
        "micro-batches of one message with Spark, and an idle query",
        partial(idles, shape=SMALL, batches=100),
        Mark("source_ms", 20, at_most=True),
        Mark("query_percent", 5, at_most=True),
        Mark("idle_percent", 5, at_most=True),
    ),
    "txn-1": transacting(1, 20_000),
    "txn-100": transacting(100, 1000),
    "txn-aborts": Row(
        f"publish to deliver at {PER_SECOND:,} msg/s beside transactions that are aborted",
        partial(beside_aborts, shape=SMALL, entries=8 * PER_SECOND, per_second=PER_SECOND),
        (Mark("of_quiet", 3, at_most=True), Mark("aborted_per_s", 1.0, FSYNC)),
        fresh=True,
        brokers=True,
        settings=TRANSACTIONS,
    ),
    "txn-open": Row(
        f"publish {SMALL.title} while a transaction is open on another topic",
        partial(beside_open, shape=SMALL, entries=300_000),
        (Mark("of_plain", 0.97), Mark("seen_of_plain", 0.9)),
        fresh=True,
        brokers=True,
        settings=TRANSACTIONS,
    ),
    "workers-publish": on_workers("publish", publish_spread, MANY_TOPICS, 300_000),
    "workers-shared": on_workers(
        "consume (Shared)", share_spread, Shape(100, topics=16), 1_600_000
    ),
    "workers-deaths": Row(
        f"publish to deliver at {PER_SECOND:,} msg/s on 2 workers, while the other one dies",
        partial(deaths, shape=SMALL, entries=8 * PER_SECOND, per_second=PER_SECOND),
        (Mark("of_quiet", 2, at_most=True),),
        fresh=True,
        ours=True,
    ),
    "workers-moves": Row(
        "wait of a producer while its bundle moves, 100 topics on 2 workers",
        partial(moves, topics=100),
        (Mark("p99_ms", 200, at_most=True),),
        fresh=True,
        ours=True,
    ),
    "workers-reload": Row(
        "wait of a producer while all workers are restarted one by one, 100 topics on 2 workers",
        partial(reloads, topics=100),
        (Mark("p99_ms", 200, at_most=True),),
        fresh=True,
        ours=True,
    ),
    "start": Row(
        "start, empty, and idle",
        start,
        (Mark("healthy_ms", 1000, at_most=True), Mark("rss_mib", 64, at_most=True)),
        fresh=True,
        everywhere=True,
    ),
}
"""By the name that `--rows` takes."""


def crash_row(gigabytes: int) -> Row:
    """Is asked for, since it takes its time."""
    return Row(
        f"start after kill -9 with {gigabytes} GB",
        partial(crash, shape=KIB_BATCH, gigabytes=gigabytes),
        (Mark("healthy_ms", 2000, at_most=True),),
        fresh=True,
    )
