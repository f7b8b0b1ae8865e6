"""Tenants, and the one cluster there is."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.names.namespaces import is_name
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.server.admin.site import (
    Handler,
    Site,
    flag_of,
    http_url,
    json_of,
    parts_of,
    serving,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route


async def tenants(site: Site, request: Request) -> Response:
    """Names of all tenants."""
    return json_response(await serving(site).tenants.names())


async def tenant(site: Site, request: Request) -> Response:
    """Who administers a tenant, and where it may have namespaces."""
    found = await serving(site).tenants.get(_name(request))
    return json_response(found.fields())


async def create(site: Site, request: Request) -> Response:
    """Make one."""
    broker, name = serving(site), _name(request)
    await broker.tenants.create(name, _tenant(broker, request))
    return Response(status=204)


async def change(site: Site, request: Request) -> Response:
    """Replace what is stored of one."""
    broker, name = serving(site), _name(request)
    await broker.tenants.change(name, _tenant(broker, request))
    return Response(status=204)


async def delete(site: Site, request: Request) -> Response:
    """Remove one; with `force` all that it has, if the settings allow that."""
    broker, name = serving(site), _name(request)
    force = flag_of(request, "force")
    if force and not broker.settings.force_delete_tenant_allowed:
        raise Refused(405, "tenants may not be deleted by force (forceDeleteTenantAllowed)")
    await broker.deletion.tenant(name, force)
    return Response(status=204)


def _name(request: Request) -> str:
    (name,) = parts_of(request, "tenant")
    if not is_name(name):
        raise Refused(412, "Tenant name is not valid: letters, digits and -=:._ are")
    return name


def _tenant(broker: Broker, request: Request) -> Tenant:
    said = json_of(request) if request.body.strip() else None
    if said is None:
        raise Refused(412, "the body is empty: expected adminRoles and allowedClusters")
    if not isinstance(said, dict):
        raise Refused(400, "expected an object with adminRoles and allowedClusters")
    roles, clusters = said.get("adminRoles") or [], said.get("allowedClusters")
    for texts in (roles, clusters or []):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise Refused(400, "adminRoles and allowedClusters must be lists of texts")
    own = broker.settings.cluster_name
    if not clusters:
        raise Refused(412, f"Clusters cannot be empty: name {own}, the cluster that there is")
    if any(cluster != own for cluster in clusters):
        raise Refused(412, f"Clusters do not exist: {own} is the only one")
    if any(role != role.strip() or not role for role in roles):
        raise Refused(412, "adminRoles must not be blank, nor begin or end with blanks")
    return Tenant(tuple(roles), tuple(clusters))


# Clusters -------------------------------------------------------------------------------


async def clusters(site: Site, request: Request) -> Response:
    """The broker is its own cluster."""
    return json_response([site.broker.settings.cluster_name])


async def cluster(site: Site, request: Request) -> Response:
    """Where it is reached."""
    broker = serving(site)
    (name,) = parts_of(request, "cluster")
    if name != broker.settings.cluster_name:
        raise Refused(404, "Cluster does not exist")
    service_url = broker.ownership.service_url
    return json_response(
        {
            "serviceUrl": http_url(request, service_url),
            "brokerServiceUrl": service_url,
            "brokerClientTlsEnabled": False,
            "tlsAllowInsecureConnection": False,
            "brokerClientTlsEnabledWithKeyStore": False,
        }
    )


async def no_cluster(site: Site, request: Request) -> Response:
    """Its own is as the settings say, and there is no other."""
    (name,) = parts_of(request, "cluster")
    own = site.broker.settings.cluster_name
    if name == own and request.method == "PUT":
        raise Refused(409, "Cluster already exists")
    if name != own and request.method != "PUT":
        raise Refused(404, "Cluster does not exist")
    raise Refused(405, f"clusters cannot be changed: {own} is this broker's own and the only one")


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
    for path in ("/admin/v2/tenants", "/admin/v2/tenants/"):
        yield Route("GET", path, tenants)
    path = "/admin/v2/tenants/{tenant}"
    yield Route("GET", path, tenant)
    yield Route("PUT", path, create)
    yield Route("POST", path, change)
    yield Route("DELETE", path, delete)
    for path in ("/admin/v2/clusters", "/admin/v2/clusters/"):
        yield Route("GET", path, clusters)
    path = "/admin/v2/clusters/{cluster}"
    yield Route("GET", path, cluster)
    for method in ("PUT", "POST", "DELETE"):
        yield Route(method, path, no_cluster)
