"""`magnetar admin tenants`."""

from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import Command, Values, argument, flag, option
from magnetar.cli.admin.kinds import NAMES

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

PATH = "/admin/v2/tenants"
TENANT = argument("tenant", "Name of the tenant.")
ROLES = option("-r, --admin-roles", "Roles that administer it.", NAMES, member="adminRoles")
CLUSTERS = option(
    "-c, --allowed-clusters", "Clusters that it may use.", NAMES, member="allowedClusters"
)


def _complete(admin: "AdminClient", values: Values) -> None:
    """Complete the values of a new tenant: no roles and all clusters, unless others are given."""
    values["admin_roles"] = values["admin_roles"] or []
    values["allowed_clusters"] = values["allowed_clusters"] or admin.get("/admin/v2/clusters")


def _keep(admin: "AdminClient", values: Values) -> None:
    """Fill in the current values of what is not given, so that they stay unchanged."""
    if values["admin_roles"] is None or values["allowed_clusters"] is None:
        found = admin.get(UPDATE.url(values))
        if values["admin_roles"] is None:
            # promise[found["adminRoles"] -> []]: what is not given stays as it is
            values["admin_roles"] = found["adminRoles"]
        if values["allowed_clusters"] is None:
            values["allowed_clusters"] = found["allowedClusters"]


UPDATE = Command(
    "update",
    "Change a tenant. What is not given stays as it is.",
    "POST",
    f"{PATH}/{{tenant}}",
    (TENANT, ROLES, CLUSTERS),
    fill=_keep,
)
COMMANDS = (
    Command("list", "List the tenants.", "GET", PATH),
    Command("get", "Show a tenant.", "GET", f"{PATH}/{{tenant}}", (TENANT,)),
    Command(
        "create",
        "Create a tenant. Without clusters it may use all.",
        "PUT",
        f"{PATH}/{{tenant}}",
        (TENANT, ROLES, CLUSTERS),
        fill=_complete,
    ),
    UPDATE,
    Command(
        "delete",
        "Delete a tenant.",
        "DELETE",
        f"{PATH}/{{tenant}}",
        (TENANT, flag("-f, --force", "With its namespaces and topics.", query="force")),
    ),
)
