"""Special steps of `magnetar admin clusters`."""

from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import Command, Special, Values
from magnetar.cli.admin.showing import rows

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _list(command: Command, admin: "AdminClient", values: Values) -> list[str]:
    names: list[str] = admin.get(command.url(values))
    if values["current"]:
        own = admin.get("/admin/v2/brokers/configuration/runtime").get("clusterName")
        names = [f"{name}(*)" if name == own else name for name in names]
    return names


SPECIALS = {
    "brokers.clusters.clusters": Special(run=_list),
    "brokers.placement.domains": Special(show=rows),
}
