"""The table of all routes, and the routes of the broker's own state."""

import asyncio
from collections.abc import Iterator

from magnetar_broker.base.pace import Pace
from magnetar_broker.base.version import VERSION
from magnetar_broker.metrics.figures import Figures, gather
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.metrics.loop import LoopFigures
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
from magnetar_broker.server.health import Unhealthy
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, text_response
from magnetar_broker.server.http.table import Route, Table
from magnetar_storage.world.runtime import Clock

LARGE_PART = 4096
"""Bytes of a part of the page after which the loop is left to others."""
PARTS_AT_ONCE = 6
"""The most of such parts between two pauses: about half a millisecond each."""
FREED_TOPICS = 100
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(site: Site, request: Request) -> Response:
    """The page for Prometheus.  One scrape at a time, at a pace that leaves the loop to others."""
    async with site.scraping:
        figures = await gather(site.broker)
        topics = list(figures.topics)
        journal, loop = site.journal.figures(), site.loop.figures()
        parts, process = await asyncio.to_thread(_begin, figures, journal, loop)
        del figures
        clock = site.broker.engine.clock
        page, pace = [process, *await gradually(parts, clock)], Pace(clock, 0)
        while topics:  # freeing all at once would take long
            del topics[-FREED_TOPICS:]
            await pace.after()
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


async def gradually(parts: Iterator[bytes], clock: Clock) -> list[bytes]:
    """All parts, made with pauses in which the loop is left to others.

    Where the loop is busy each pause is long; then there are fewer, so that a scrape ends in time.
    """
    made, pace, left = list[bytes](), Pace(clock, 0), 1
    for part in parts:
        made.append(part)
        if len(part) >= LARGE_PART or not part:
            left -= 1
        if left == 0:
            began_ms = clock.now_ms()
            await pace.after()
            left = max(1, min(clock.now_ms() - began_ms, PARTS_AT_ONCE))
    return made


def _begin(
    figures: Figures, journal: JournalFigures, loop: LoopFigures
) -> tuple[Iterator[bytes], bytes]:
    # In a thread: the library is imported with the first scrape, and /proc is read.
    from magnetar_broker.metrics.prometheus import parts, process_part  # noqa: PLC0415

    return parts(figures, journal, loop), process_part(figures.cluster)


# The broker's state ---------------------------------------------------------------------


async def health(site: Site, request: Request) -> Response:
    """`ok` if the broker is ready and the health check's message was delivered; else 503."""
    broker = site.broker
    if not broker.ready:
        return refusal(503, "the broker is starting or stopping: retry")
    trouble = broker.engine.store.trouble
    if trouble is not None:
        return refusal(503, f"nothing can be stored: {trouble}")
    try:
        await site.health.check()
    except Unhealthy as error:
        return refusal(503, str(error))
    return text_response("ok")


async def ready(site: Site, request: Request) -> Response:
    """`ok` from the end of the start to the beginning of the stop; sends no message."""
    if not site.broker.ready:
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
