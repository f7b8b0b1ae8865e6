"""Tenants: the roles that administer them, and the clusters that they may use."""

from typing import Any

from magnetar_broker.names.directory import Directory
from magnetar_broker.names.namespaces import is_name
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response


async def tenants(context: AdminContext, request: Request) -> Response:
    """Return the names of all tenants."""
    return json_response(await serving(context).tenants.names())


async def tenant(context: AdminContext, request: Request) -> Response:
    """Return the admin roles of a tenant and its allowed clusters."""
    found = await serving(context).tenants.get(_name(request))
    return json_response(found.fields())


async def create(context: AdminContext, request: Request) -> None:
    """Create a tenant."""
    directory, name = serving(context), _name(request)
    await directory.tenants.create(name, await _tenant(directory, request))


async def change(context: AdminContext, request: Request) -> None:
    """Replace a tenant's admin roles and allowed clusters."""
    directory, name = serving(context), _name(request)
    await directory.tenants.change(name, await _tenant(directory, request))


async def delete(context: AdminContext, request: Request) -> None:
    """Delete a tenant; with `force` its namespaces too, if the settings allow that."""
    directory, name = serving(context), _name(request)
    force = request.flag("force")
    if force and not directory.settings.force_delete_tenant_allowed:
        raise Refused(
            405,
            "force is not allowed: set forceDeleteTenantAllowed=true, or delete namespaces first",
        )
    await directory.deletion.tenant(name, force)


def _name(request: Request) -> str:
    name = request.part("tenant")
    if not is_name(name):
        raise Refused(412, f"tenant name {name!r}: expected letters, digits and -=:._")
    return name


async def _tenant(directory: Directory, request: Request) -> Tenant:
    body = request.json_or_none()
    if body is None:
        raise Refused(412, "the body is empty: expected adminRoles and allowedClusters")
    if not isinstance(body, dict):
        raise Refused(400, "the body is not an object: expected adminRoles and allowedClusters")
    roles, clusters = _texts(body, "adminRoles"), _texts(body, "allowedClusters")
    known = await directory.clusters.names()
    if not clusters:
        raise Refused(412, f"allowedClusters is empty: expected some of {', '.join(known)}")
    unknown = [cluster for cluster in clusters if cluster not in known]
    if unknown:
        raise Refused(
            412, f"no cluster is named {', '.join(unknown)}: expected some of {', '.join(known)}"
        )
    if any(role != role.strip() or not role for role in roles):
        raise Refused(
            412,
            "adminRoles: expected names that are not empty and neither begin nor end with blanks",
        )
    return Tenant(tuple(roles), tuple(clusters))


def _texts(body: dict[str, Any], name: str) -> list[str]:
    """Return a list of texts, each once; empty if it is absent."""
    texts = body.get(name)
    if texts is None:
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refused(400, f"{name} is {texts!r:.100}: expected a list of strings")
    return list(dict.fromkeys(texts))
