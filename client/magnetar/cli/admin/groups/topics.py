"""Special steps of `magnetar admin topics`."""

import time
from typing import TYPE_CHECKING, Any

import click

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Lines,
    Special,
    Values,
    command_of,
)
from magnetar.cli.admin.showing import policy_lines, with_tables
from magnetar.cli.admin.stats import topic_lines
from magnetar_proto.admin.endpoint import flag

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

CURSOR = ("markDeletePosition", "readPosition", "state", "individuallyDeletedMessages")


def _list(command: Command, admin: "AdminClient", values: Values) -> list[str]:
    """Return the topics of one domain, or of both."""
    domains = [values["topic_domain"]] if values["topic_domain"] else DOMAINS
    query = command.query(values)
    found: list[str] = []
    for domain in domains:
        path = command.url(values | {"domain": domain.replace("_", "-")})
        found += admin.ask("GET", path, query=query).value
    return found


DOMAINS = ("persistent", "non_persistent")


def _lookups(command: Command, admin: "AdminClient", values: Values) -> dict[str, str]:
    """Return the broker of each partition, or the partitions of each broker."""
    count = admin.get(command_of("topics.partitions").url(values))["partitions"]
    if count == 0:
        raise Contradiction(f"{values['topic']} is not partitioned: use lookup")
    found: dict[str, Any] = {}
    for index in range(count):
        part = values["topic"].with_partition(index)
        broker = admin.get(command.url({"topic": part}))["brokerUrl"]
        if values["sort_by_broker"]:
            found.setdefault(broker, []).append(str(part))
        else:
            found[str(part)] = broker
    return found


def _segments(stats: dict[str, Any]) -> Lines:
    """Show counters, and tables of segments and cursors."""
    return with_tables(stats, ledgers=(), cursors=CURSOR)


def _stored(found: dict[str, Any]) -> Lines:
    return with_tables(found, ledgers=(), cursors=("cursorsLedgerId", "markDelete"))


def _backlogs(found: dict[str, Any]) -> Lines:
    return with_tables(found, dataLedgerDetails=(), cursorDetails=())


def _retention(found: dict[str, Any]) -> Lines:
    return with_tables(found, subscriptions=(), segments=())


def _offload(command: Command, admin: "AdminClient", values: Values) -> str:
    """Offload all but the newest ledgers, of which at most the given size stays."""
    stats = admin.get(command_of("statistics.internal").url(values))
    first = first_kept(stats, values["size_threshold"])
    if first is None:
        return "nothing to offload"
    place = {"ledgerId": first, "entryId": 0, "partitionIndex": -1}
    admin.ask("PUT", command.url(values), place)
    return f"offload triggered for messages before {first}:0"


def first_kept(stats: dict[str, Any], size: int) -> int | None:
    """Return the oldest of the newest ledgers that together have at most `size` bytes, else None.

    The newest ledger stays in any case.
    """
    kept: int | None = None
    behind = 0
    for ledger in reversed(stats["ledgers"]):
        behind += stats["currentLedgerSize"] if kept is None else ledger["size"]
        if behind > size:
            return int(ledger["ledgerId"]) if kept is None else kept
        kept = int(ledger["ledgerId"])
    return None


def _progress(command: Command, admin: "AdminClient", values: Values) -> Any:
    """Return the state of compaction or offloading; with a flag, wait for its end."""
    path = command.url(values)
    found = admin.get(path)
    if values["wait_complete"] and found.get("status") == "RUNNING":
        click.echo(f"{command.name.removesuffix('-status')} is running", err=True)
        while found.get("status") == "RUNNING":
            time.sleep(WAIT_S)
            found = admin.get(path)
    return found


WAIT_S = 1.0


def _partitioned(command: Command, values: Values) -> object:
    return {"partitions": values["partitions"], "properties": values["metadata"] or {}}


SPECIALS = {
    "topics.topics": Special(run=_list),
    "topics.create_partitioned": Special(body=_partitioned),
    "compaction.status": Special(run=_progress),
    "offloading.offload": Special(run=_offload),
    "offloading.status": Special(run=_progress),
    "statistics.stats": Special(show=topic_lines),
    "statistics.partitioned_stats": Special(show=topic_lines),
    "statistics.internal": Special(show=_segments),
    "statistics.info": Special(show=_stored),
    "messages.reading.backlogs": Special(show=_backlogs),
    "messages.backlog_actions.explain": Special(show=_retention),
    "brokers.absent.shadow_topics": Special(show=policy_lines),
}
BY_BROKER = flag("sort_by_broker", "-s, --sort-by-broker", "Partitions by broker.", local=True)
LOOKUPS = command_of("lookups.lookup").endpoint._replace(
    text="Show which broker serves each partition.", parameters=(BY_BROKER,)
)
MORE = {"topics": (Command(LOOKUPS, "partitioned-lookup", Special(run=_lookups)),)}
"""The commands of several requests, none of which is their own."""
