"""The table of all routes."""

from functools import cache
from typing import Any

from magnetar_broker.server.admin import (
    bundles,
    compaction,
    lookups,
    namespace_properties,
    namespaces,
    participants,
    permissions,
    schemas,
    statistics,
    subscriptions,
    tenants,
    termination,
    topic_properties,
    topics,
    transactions,
)
from magnetar_broker.server.admin.brokers import (
    absent,
    active_brokers,
    broker_stats,
    clusters,
    configuration,
    placement,
    resource_groups,
    snapshots,
)
from magnetar_broker.server.admin.context import AdminContext, Handler
from magnetar_broker.server.admin.messages import (
    backlog_actions,
    backlogs,
    damage,
    dead_letters,
    reading,
    searches,
)
from magnetar_broker.server.admin.openapi import described
from magnetar_broker.server.admin.policies import policy_routes
from magnetar_broker.server.http.contract import ALL, AUTHENTICATED, CONTROLLER, OPEN
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route, Table

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(context: AdminContext, request: Request) -> Response:
    """The page for Prometheus."""
    page = await context.page.scrape(request)
    if page is None:
        return refusal(503, "the client closed the connection before the page was made")
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


async def openapi(context: AdminContext, request: Request) -> Response:
    """The description of all routes, as OpenAPI 3.1."""
    return json_response(_description())


@cache
def _description() -> dict[str, Any]:
    return described(ROUTES.routes)


ROUTES: Table[Handler] = Table(
    [
        Route("GET", "/metrics", OPEN, ALL, metrics),
        Route("GET", "/metrics/", OPEN, ALL, metrics),
        Route("GET", "/admin/v2/openapi.json", AUTHENTICATED, CONTROLLER, openapi),
        *tenants.routes(),
        *clusters.routes(),
        *placement.routes(),
        *resource_groups.routes(),
        *permissions.routes(),
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
        *backlog_actions.routes(),
        *damage.routes(),
        *reading.routes(),
        *searches.routes(),
        *dead_letters.routes(),
        *backlogs.routes(),
        *statistics.routes(),
        *broker_stats.routes(),
        *transactions.routes(),
        *participants.routes(),
        *absent.routes(),
        *bundles.last_routes(),
        *configuration.routes(),
        *snapshots.routes(),
        *active_brokers.routes(),
    ]
)
