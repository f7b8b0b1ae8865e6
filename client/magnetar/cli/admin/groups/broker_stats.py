"""Special steps of `magnetar admin broker-stats`."""

from collections.abc import Iterator
from typing import Any

from magnetar.cli.admin.declarations import Special
from magnetar.cli.admin.showing import table
from magnetar.cli.units import count, rate, size


def _topics(found: dict[str, Any]) -> Iterator[str]:
    """Yield the topics of all namespaces, one per line."""
    rows = [
        (
            name,
            bundle,
            rate(stats.get("msgRateIn", 0)),
            rate(stats.get("msgRateOut", 0)),
            size(stats.get("storageSize", 0)),
            size(stats.get("backlogSize", 0)),
            count(len(stats.get("publishers") or [])),
            count(len(stats.get("subscriptions") or {})),
        )
        for bundles in found.values()
        for bundle, domains in bundles.items()
        for topics in domains.values()
        for name, stats in topics.items()
    ]
    titles = ("topic", "bundle", "in", "out", "stored", "backlog", "producers", "subscriptions")
    yield from table(titles, rows)


SPECIALS = {"brokers.broker_stats.topics": Special(show=_topics)}
