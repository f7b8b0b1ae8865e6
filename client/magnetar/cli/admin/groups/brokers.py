"""Special steps of `magnetar admin brokers`."""

from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import Command, Lines, Special, Values, command_of
from magnetar.cli.admin.groups.damage import WHERE
from magnetar.cli.admin.showing import rows, table, with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _list(command: Command, admin: "AdminClient", values: Values) -> object:
    chosen = command if values["cluster"] else command_of("brokers.active_brokers.brokers")
    return admin.get(chosen.url(values))


def _explained(found: dict[str, Any]) -> Lines:
    lines = (
        (name, one["value"] or "-", one["default"] or "-", one["source"])
        for name, one in found.items()
    )
    return table(("setting", "value", "default", "source"), lines)


def _health(command: Command, admin: "AdminClient", values: Values) -> object:
    answer = admin.ask("GET", command.url(values), query=command.query(values))
    return answer.value if values["detailed"] else answer.text


def _health_lines(found: Any) -> Lines:
    return iter((found,)) if isinstance(found, str) else with_tables(found, damaged=WHERE)


SPECIALS = {
    "brokers.active_brokers.brokers_of_cluster": Special(run=_list),
    "brokers.active_brokers.owned": Special(show=rows),
    "brokers.active_brokers.health": Special(run=_health, show=_health_lines),
    "brokers.configuration.explained": Special(show=_explained),
}
