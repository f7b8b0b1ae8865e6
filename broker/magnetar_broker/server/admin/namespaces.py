"""Namespaces: creating, deleting and showing them."""

from typing import Any

from magnetar_broker.names.directory import Directory
from magnetar_broker.names.namespaces import Namespace, is_name
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.policies.codecs import OutOfRange
from magnetar_broker.policies.document import policies_json, values_in_policies_json
from magnetar_broker.policies.offload_values import check_location
from magnetar_broker.policies.policy import PolicyValues
from magnetar_broker.policies.table import OFFLOAD
from magnetar_broker.server.admin.bundles import bundles_json
from magnetar_broker.server.admin.context import (
    AdminContext,
    checked_properties,
    namespace_in,
    namespace_of,
    serving,
)
from magnetar_broker.server.admin.permissions import permissions_in
from magnetar_broker.server.admin.refusals import bounded
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import NamespaceName

NOT_BUILT = {
    "clusterDispatchRate": {},
    "deleted": False,
    "latency_stats_sample_rate": {},
}
"""Fields of features that this broker does not have, with the values that stand for unset."""


MAX_DIGITS = 10
"""The most digits of a number that a client wrote as text; more are too many in any case."""


async def namespaces(context: AdminContext, request: Request) -> Response:
    """Return the namespaces of a tenant."""
    directory = serving(context)
    tenant = request.part("tenant")
    if not is_name(tenant):
        raise Refused(412, f"tenant name {tenant!r}: expected letters, digits and -=:._")
    await directory.tenants.get(tenant)
    return json_response(await directory.namespaces.of_tenant(tenant))


async def namespace(context: AdminContext, request: Request) -> Response:
    """Return a namespace with its bundles, properties and policies."""
    directory, name = await namespace_in(context, request)
    stored = await directory.namespaces.get(name)
    cluster = directory.settings.cluster_name
    document = {
        "auth_policies": {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
            **stored.permissions,
        },
        "replication_clusters": [cluster],
        "bundles": bundles_json(await directory.bundles.stored.of(name)),
        "properties": stored.properties,
        **NOT_BUILT,
        **await policies_json(directory.policies, name, cluster),
    }
    return json_response(document)


# Creating and deleting -------------------------------------------------------------------


async def create(context: AdminContext, request: Request) -> None:
    """Create a namespace with the policies in the body; it cannot be used before all are stored."""
    directory, name = serving(context), NamespaceName.parse(namespace_of(request))
    document = request.json_or_none()
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise Refused(
            400, "the body is not an object: expected an object with policies, or an empty body"
        )
    # One that is being deleted is gone: it is created when its deletion is complete.
    being_deleted = directory.namespaces.is_closed(str(name))
    if not being_deleted and await directory.namespaces.has(str(name)):
        raise Refused(409, f"namespace {name} exists: change it, or delete it first")
    await _check_clusters(directory, name, document.get("replication_clusters"))
    properties = bounded(checked_properties(document.get("properties") or {}))
    permissions = permissions_in(document.get("auth_policies"), str(name))
    new = Namespace(_bundles_of(document.get("bundles")), properties, permissions)
    explicit = _policies_of(directory, document)
    await directory.creation.namespace(name, new, explicit)


async def _check_clusters(directory: Directory, name: NamespaceName, clusters: object) -> None:
    if clusters is None:
        return
    if not isinstance(clusters, list):
        raise Refused(400, "replication_clusters: expected a list of cluster names")
    allowed = (await directory.tenants.get(name.tenant)).allowed_clusters
    for cluster in clusters:
        if cluster not in allowed:
            raise Refused(
                403,
                f"cluster {cluster} is not allowed for tenant {name.tenant}: expected one of "
                f"{', '.join(allowed)}",
            )


def _bundles_of(value: Any) -> Bundles | None:
    """Return the bundles of the body; None for the default number."""
    if value is None:
        return None
    try:
        boundaries, number = value.get("boundaries"), value.get("numBundles") or 0
        if isinstance(number, str) and number.isascii() and number.isdecimal():
            number = int(number[:MAX_DIGITS])
        if boundaries:
            return Bundles.parse(boundaries)
        return Bundles.even(number) if number else None
    except (AttributeError, TypeError) as error:
        raise Refused(400, "bundles: expected an object with numBundles or boundaries") from error
    except ValueError as error:
        raise Refused(412, str(error)) from error


def _policies_of(directory: Directory, document: dict[str, Any]) -> PolicyValues:
    try:
        values = values_in_policies_json(document, directory.settings.cluster_name)
        # promise: a namespace is not created with a place that the settings do not allow
        check_location(directory.settings, values.get(OFFLOAD, {}))
    except OutOfRange as error:
        raise Refused(412, str(error)) from error
    except ValueError as error:
        raise Refused(400, str(error)) from error
    return values


async def delete(context: AdminContext, request: Request) -> None:
    """Delete a namespace; with `force` its topics too, if the settings allow that."""
    directory, name = serving(context), namespace_of(request)
    force = request.flag("force")
    if force and not directory.settings.force_delete_namespace_allowed:
        raise Refused(
            405,
            "force is not allowed: set forceDeleteNamespaceAllowed=true, or delete topics first",
        )
    await directory.deletion.namespace(name, force)
