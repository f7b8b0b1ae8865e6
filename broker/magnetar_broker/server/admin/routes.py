"""The table of all routes, and the routes of the broker's own state."""

from magnetar_broker.base.version import VERSION
from magnetar_broker.server.admin import (
    backlogs,
    bundles,
    compaction,
    lookups,
    messages,
    namespace_properties,
    namespaces,
    schemas,
    subscriptions,
    tenants,
    termination,
    topic_properties,
    topics,
)
from magnetar_broker.server.admin.policies import policy_routes
from magnetar_broker.server.admin.site import Handler, Site
from magnetar_broker.server.health import Unhealthy
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, text_response
from magnetar_broker.server.http.table import Route, Table

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(site: Site, request: Request) -> Response:
    """The page for Prometheus."""
    page = await site.page.scrape(request)
    if page is None:
        return refusal(503, "the client closed the connection before the page was made")
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


# The broker's state ---------------------------------------------------------------------


async def health(site: Site, request: Request) -> Response:
    """`ok` if the broker is ready and the health check's message was delivered; else 503."""
    if not site.directory.ready:
        return refusal(503, "the broker is starting or stopping: retry")
    try:
        await site.health.check()
    except Unhealthy as error:
        return refusal(503, str(error))
    return text_response("ok")


async def ready(site: Site, request: Request) -> Response:
    """`ok` from the end of the start to the beginning of the stop; sends no message."""
    if not site.directory.ready:
        return refusal(500, "the broker is starting or stopping: retry")
    return text_response("ok")


async def version(site: Site, request: Request) -> Response:
    """The version as plain text."""
    return text_response(VERSION)


ROUTES: Table[Handler] = Table(
    [
        Route("GET", "/metrics", metrics),
        Route("GET", "/metrics/", metrics),
        Route("GET", "/admin/v2/brokers/health", health),
        Route("GET", "/admin/v2/brokers/ready", ready),
        Route("GET", "/admin/v2/brokers/version", version),
        *tenants.routes(),
        *namespaces.routes(),
        *bundles.routes(),
        *namespace_properties.routes(),
        *topics.routes(),
        *topic_properties.routes(),
        *subscriptions.routes(),
        *lookups.routes(),
        *policy_routes(),
        *schemas.routes(),
        *compaction.routes(),
        *termination.routes(),
        *messages.routes(),
        *backlogs.routes(),
    ]
)
