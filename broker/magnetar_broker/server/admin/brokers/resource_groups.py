"""Resource groups, and the groups of namespaces: stored without effect."""

import re
from typing import Any

from magnetar_broker.names.directory import Directory
from magnetar_broker.policies.without_effect import RESOURCE_GROUP
from magnetar_broker.server.admin.context import AdminContext, namespace_in, serving
from magnetar_broker.server.admin.policies.policy_handlers import (
    PolicyHandlers,
    without_effect,
)
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.admin.bodies import GROUP_LIMITS
from magnetar_proto.admin.policy import Level

NAME = re.compile(r"[-=:.\w]{1,200}", re.ASCII)
LARGEST = 2**63 - 1


async def groups(context: AdminContext, request: Request) -> Response:
    """Return the names of all resource groups."""
    return json_response(await serving(context).resource_groups.names())


async def group(context: AdminContext, request: Request) -> Response:
    """Return the limits of a resource group."""
    name = request.part("group")
    return json_response(await _required(serving(context), name))


async def set_group(context: AdminContext, request: Request) -> Response:
    """Create a resource group, or change the limits in the body of it; nothing enforces them."""
    directory = serving(context)
    name = request.part("group")
    if not NAME.fullmatch(name):
        raise Refused(
            412, f"resource group {name!r}: expected letters, digits and -=:._, up to 200"
        )
    await directory.resource_groups.merge(name, _limits_in(request))
    warning = without_effect("the resource group", RESOURCE_GROUP.declared.no_effect)
    return Response(status=204, headers={"Warning": warning})


def _limits_in(request: Request) -> dict[str, int]:
    body = request.json_or_none()
    if not isinstance(body, dict):
        raise Refused(400, f"the body: expected an object with some of {', '.join(GROUP_LIMITS)}")
    found: dict[str, int] = {}
    for limit in GROUP_LIMITS:
        value: Any = body.get(limit)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= LARGEST:
            raise Refused(400, f"{limit} is {value!r}: expected a whole number from -1 on")
        found[limit] = value
    return found


async def delete_group(context: AdminContext, request: Request) -> None:
    """Delete a resource group; 412 while a namespace is in it."""
    directory = serving(context)
    name = request.part("group")
    await _required(directory, name)
    for namespace in await directory.namespaces.names():
        if await directory.policies.explicit(RESOURCE_GROUP, namespace) == name:
            raise Refused(
                412,
                f"namespace {namespace} is in resource group {name}: remove it there with "
                f"DELETE /admin/v2/namespaces/{namespace}/resourcegroup",
            )
    await directory.resource_groups.delete(name)


async def set_of_namespace(context: AdminContext, request: Request) -> Response:
    """Store the resource group of a namespace; 412 if there is no such group."""
    directory, namespace = await namespace_in(context, request)
    name = request.part("group")
    await _required(directory, name, 412)
    await directory.enforcement.set(namespace, {RESOURCE_GROUP: name})
    warning = without_effect("resourcegroup", RESOURCE_GROUP.declared.no_effect)
    return Response(status=204, headers={"Warning": warning})


_HANDLERS: PolicyHandlers[str] = PolicyHandlers(RESOURCE_GROUP, Level("resourcegroup", raw=True))
of_namespace, delete_of_namespace = _HANDLERS.on_get, _HANDLERS.on_delete


async def _required(directory: Directory, name: str, status: int = 404) -> dict[str, Any]:
    stored = await directory.resource_groups.get(name) if NAME.fullmatch(name) else None
    if stored is None:
        raise Refused(status, f"resource group {name} does not exist: check the name, or create it")
    return stored
