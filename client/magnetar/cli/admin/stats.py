"""Statistics of topics as tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar.cli.admin.showing import members, plain, table
from magnetar.cli.units import count, rate, size

Stats = Mapping[str, Any]


def topic_lines(stats: Stats) -> Iterator[str]:
    """Yield the lines of a topic, its producers, subscriptions, consumers, and each partition."""
    yield from members(
        {
            "in": _flow(stats, "In"),
            "out": _flow(stats, "Out"),
            "published": _total(stats, "In"),
            "delivered": _total(stats, "Out"),
            "average message": size(stats.get("averageMsgSize", 0)),
            "stored": size(stats.get("storageSize", 0)),
            "backlog": size(stats.get("backlogSize", 0)),
            "deduplication": plain(stats.get("deduplicationStatus")),
        }
    )
    yield from _section("producers", PRODUCER, [_producer(one) for one in _list(stats)])
    subscriptions: Mapping[str, Stats] = stats.get("subscriptions") or {}
    rows = [_subscription(name, one) for name, one in subscriptions.items()]
    yield from _section("subscriptions", SUBSCRIPTION, rows)
    consumers = [
        _consumer(name, one)
        for name, subscription in subscriptions.items()
        for one in subscription.get("consumers") or []
    ]
    yield from _section("consumers", CONSUMER, consumers)
    partitions: Mapping[str, Stats] = stats.get("partitions") or {}
    rows = [_partition(name, one) for name, one in partitions.items()]
    if rows:
        yield from _section("partitions", PARTITION, rows)


PRODUCER = ("name", "in", "bytes in", "average", "address", "connected since", "client")
SUBSCRIPTION = ("name", "type", "backlog", "unacked", "delayed", "out", "redelivered", "consumers")
CONSUMER = ("subscription", "name", "out", "unacked", "permits", "address", "client")
PARTITION = ("name", "in", "out", "stored", "backlog", "subscriptions")


def _list(stats: Stats) -> list[Stats]:
    return stats.get("publishers") or []


def _section(title: str, titles: tuple[str, ...], rows: list[list[str]]) -> Iterator[str]:
    yield ""
    if rows:
        yield f"{title} ({len(rows)})"
        yield from (f"  {line}" for line in table(titles, rows))
    else:
        yield f"no {title}"


def _flow(stats: Stats, way: str) -> str:
    messages = rate(stats.get(f"msgRate{way}", 0), " messages")
    return f"{messages}, {size(stats.get(f'msgThroughput{way}', 0))}/s"


def _total(stats: Stats, way: str) -> str:
    messages = count(stats.get(f"msg{way}Counter", 0))
    return f"{messages} messages, {size(stats.get(f'bytes{way}Counter', 0))}"


def _producer(stats: Stats) -> list[str]:
    return [
        plain(stats.get("producerName")),
        rate(stats.get("msgRateIn", 0)),
        f"{size(stats.get('msgThroughputIn', 0))}/s",
        size(stats.get("averageMsgSize", 0)),
        plain(stats.get("address")),
        plain(stats.get("connectedSince")),
        plain(stats.get("clientVersion")),
    ]


def _subscription(name: str, stats: Stats) -> list[str]:
    return [
        name,
        plain(stats.get("type")),
        count(stats.get("msgBacklog", 0)),
        count(stats.get("unackedMessages", 0)),
        count(stats.get("msgDelayed", 0)),
        rate(stats.get("msgRateOut", 0)),
        rate(stats.get("msgRateRedeliver", 0)),
        count(len(stats.get("consumers") or [])),
    ]


def _consumer(subscription: str, stats: Stats) -> list[str]:
    return [
        subscription,
        plain(stats.get("consumerName")),
        rate(stats.get("msgRateOut", 0)),
        count(stats.get("unackedMessages", 0)),
        count(stats.get("availablePermits", 0)),
        plain(stats.get("address")),
        plain(stats.get("clientVersion")),
    ]


def _partition(name: str, stats: Stats) -> list[str]:
    return [
        name,
        rate(stats.get("msgRateIn", 0)),
        rate(stats.get("msgRateOut", 0)),
        size(stats.get("storageSize", 0)),
        size(stats.get("backlogSize", 0)),
        count(len(stats.get("subscriptions") or {})),
    ]
