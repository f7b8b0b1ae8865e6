"""The table of all routes."""

from magnetar_broker.server.admin import (
    backlogs,
    brokers,
    bundles,
    compaction,
    configuration,
    lookups,
    messages,
    namespace_properties,
    namespaces,
    reading,
    schemas,
    subscriptions,
    tenants,
    termination,
    topic_properties,
    topics,
)
from magnetar_broker.server.admin.policies import policy_routes
from magnetar_broker.server.admin.site import Handler, Site
from magnetar_broker.server.http.contract import ALL, OPEN
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.http.table import Route, Table

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(site: Site, request: Request) -> Response:
    """The page for Prometheus."""
    page = await site.page.scrape(request)
    if page is None:
        return refusal(503, "the client closed the connection before the page was made")
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


ROUTES: Table[Handler] = Table(
    [
        Route("GET", "/metrics", OPEN, ALL, metrics),
        Route("GET", "/metrics/", OPEN, ALL, metrics),
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
        *reading.routes(),
        *backlogs.routes(),
        *configuration.routes(),
        *brokers.routes(),
    ]
)
