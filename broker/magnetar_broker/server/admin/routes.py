"""What each path answers."""

import asyncio

from magnetar_broker.metadata_keys import namespace_key
from magnetar_broker.metrics.figures import Figures, gather
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.server.admin import (
    backlogs,
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
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, text_response
from magnetar_broker.server.http.table import Route, Table
from magnetar_broker.version import VERSION
from magnetar_storage.errors import StorageError

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(site: Site, request: Request) -> Response:
    """Prometheus's page; one scrape at a time, and the loop goes on working."""
    async with site.scraping:
        figures = await gather(site.broker)
        page = await asyncio.to_thread(_render, figures, site.journal.figures())
    return Response(page, PROMETHEUS_TYPE)


def _render(figures: Figures, journal: JournalFigures) -> bytes:
    from magnetar_broker.metrics.prometheus import render  # noqa: PLC0415 (not for the start)

    return render(figures, journal)


# The broker's state ---------------------------------------------------------------------


async def health(site: Site, request: Request) -> Response:
    """`ok` if clients are served, entries can be written and metadata can be read."""
    broker = site.broker
    if not broker.ready:
        return refusal(503, "the broker is starting or stopping")
    trouble = broker.engine.store.trouble
    if trouble is not None:
        return refusal(503, f"nothing can be stored: {trouble}")
    try:
        await broker.engine.metadata.get(namespace_key("public/default"))
    except StorageError as error:
        return refusal(503, f"metadata cannot be read: {error}")
    return text_response("ok")


async def ready(site: Site, request: Request) -> Response:
    """`ok` between the end of the start and the beginning of the stop."""
    if not site.broker.ready:
        return refusal(500, "the broker is starting or stopping")
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
