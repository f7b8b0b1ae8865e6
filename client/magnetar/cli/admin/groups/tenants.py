"""Special steps of `magnetar admin tenants`."""

from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import Command, Special, Values

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _complete(command: Command, admin: "AdminClient", values: Values) -> None:
    """Complete the values of a new tenant: no roles and all clusters, unless others are given."""
    values["adminRoles"] = values["adminRoles"] or []
    values["allowedClusters"] = values["allowedClusters"] or admin.get("/admin/v2/clusters")


def _keep(command: Command, admin: "AdminClient", values: Values) -> None:
    """Fill in the present value of each option that was not given, so that it stays unchanged."""
    if values["adminRoles"] is None or values["allowedClusters"] is None:
        found = admin.get(command.url(values))
        if values["adminRoles"] is None:
            # promise[found["adminRoles"] -> []]: what is not given stays as it is
            values["adminRoles"] = found["adminRoles"]
        if values["allowedClusters"] is None:
            values["allowedClusters"] = found["allowedClusters"]


SPECIALS = {"tenants.create": Special(fill=_complete), "tenants.change": Special(fill=_keep)}
