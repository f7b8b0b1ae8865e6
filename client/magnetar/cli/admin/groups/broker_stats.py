"""`magnetar admin broker-stats`."""

from collections.abc import Iterator
from typing import Any

from magnetar.cli.admin.declarations import Command, argument, flag
from magnetar.cli.admin.showing import table
from magnetar.cli.units import count, rate, size

PATH = "/admin/v2/broker-stats"
INDENT = flag("-i, --indent", "Has no effect: JSON is always indented.")


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


COMMANDS = (
    Command(
        "topics",
        "Show the statistics of all loaded topics.",
        "GET",
        f"{PATH}/topics",
        (INDENT,),
        show=_topics,
        aliases=("destinations",),
    ),
    Command("load-report", "Show the load of the broker.", "GET", f"{PATH}/load-report"),
    Command(
        "monitoring-metrics",
        "Show the figures of the broker for monitoring.",
        "GET",
        f"{PATH}/metrics",
        (INDENT,),
    ),
    Command(
        "mbeans",
        "Show the figures of the JVM, which does not exist here.",
        "GET",
        f"{PATH}/mbeans",
        (INDENT,),
    ),
    Command(
        "allocator-stats",
        "Show the figures of an allocator.",
        "GET",
        f"{PATH}/allocator-stats/{{allocator}}",
        (argument("allocator", "Name of the allocator."),),
    ),
)
