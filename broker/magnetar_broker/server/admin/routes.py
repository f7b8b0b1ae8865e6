"""What each path answers."""

import asyncio
from urllib.parse import urlsplit

from magnetar_broker.broker import Broker
from magnetar_broker.catalogue import Partitioned
from magnetar_broker.metrics.figures import Figures, gather
from magnetar_broker.metrics.journal import JournalFigures
from magnetar_broker.server.admin import backlogs, compaction, messages, schemas, termination
from magnetar_broker.server.admin.policies import policy_routes
from magnetar_broker.server.admin.site import (
    DOMAIN,
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    json_of,
    namespace_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused, refusal
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route, Table
from magnetar_broker.version import VERSION
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_PARTITIONS = 10_000
"""Of one topic, whatever the settings allow: every listing names them all."""


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
        await broker.namespaces.has("public/default")
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


# Names ------------------------------------------------------------------------------------


async def topics_of_domain(site: Site, request: Request) -> Response:
    """The topics of a namespace, partitions one by one."""
    persistent = request.parameters["domain"] == "persistent"
    return await _names(site, request, persistent=persistent, volatile=not persistent)


async def topics_of_namespace(site: Site, request: Request) -> Response:
    """The same by `mode`: PERSISTENT (default), NON_PERSISTENT or ALL."""
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refused(400, f"mode is {mode}: expected PERSISTENT, NON_PERSISTENT or ALL")
    return await _names(site, request, mode != "NON_PERSISTENT", mode != "PERSISTENT")


async def _names(site: Site, request: Request, persistent: bool, volatile: bool) -> Response:
    broker = serving(site)
    namespace = namespace_of(request)
    with broker.lookup():
        if not await broker.namespaces.has(namespace):
            raise Refused(404, f"Namespace {namespace} does not exist")
        return json_response(await broker.names(namespace, persistent, volatile))


# Topics -------------------------------------------------------------------------------------


async def lookup(site: Site, request: Request) -> Response:
    """Which broker serves a topic; 404 if it is missing and would not be created."""
    broker, topic = serving(site), topic_of(request)
    with broker.lookup():
        await broker.namespaces.require(topic.namespace_name)
        await _require_topic(broker, topic)
        authoritative = request.query.get("authoritative") == "true"
        owner = await broker.ownership.locate(topic, authoritative)
    return json_response(
        {
            "brokerUrl": owner.service_url,
            "brokerUrlTls": "",
            "brokerUrlSsl": "",
            "httpUrl": _http_url(request, owner.service_url) if owner.is_self else "",
            "httpUrlTls": "",
            "nativeUrl": owner.service_url,
        }
    )


async def _require_topic(broker: Broker, topic: TopicName) -> None:
    if broker.settings.allow_auto_topic_creation or not topic.is_persistent:
        return
    if not 0 <= topic.partition < await broker.catalogue.partitions(topic):
        await broker.partitions(topic, create=False)


def _http_url(request: Request, service_url: str) -> str:
    """The port that the request came to, on the host that clients are told of."""
    host = urlsplit(service_url).netloc.rpartition(":")[0]
    return f"http://{host}:{request.port}"


async def partitions(site: Site, request: Request) -> Response:
    """How many partitions a topic has, 0 for none; may create it if the client says so."""
    broker = serving(site)
    create = request.query.get("checkAllowAutoCreation") == "true"
    with broker.lookup():
        count = await broker.partitions(topic_of(request), create)
    return json_response({"partitions": count, "deleted": False})


async def create_partitioned(site: Site, request: Request) -> Response:
    """Make a topic with so many partitions; durable when answered."""
    broker, topic = serving(site), topic_of(request)
    if topic.partition >= 0:
        raise Refused(412, f"{topic} is the name of a partition: create {topic.base}")
    count = _partition_count(request)
    limit = broker.settings.max_num_partitions_per_partitioned_topic or MAX_PARTITIONS
    if not 0 < count <= min(limit, MAX_PARTITIONS):
        raise Refused(406, f"{count} partitions: from 1 to {min(limit, MAX_PARTITIONS)} may be had")
    await broker.creation.partitioned(topic, Partitioned(count))
    return Response(status=204)


def _partition_count(request: Request) -> int:
    """From a bare number, or from partitioned topic metadata."""
    wanted = json_of(request)
    if isinstance(wanted, dict):
        if wanted.get("properties"):
            raise Refused(400, "properties of topics are not supported on this broker yet")
        wanted = wanted.get("partitions")
    if type(wanted) is not int:
        raise Refused(400, "the body must be the number of partitions")
    return wanted


ROUTES: Table[Handler] = Table(
    [
        Route("GET", "/metrics", metrics),
        Route("GET", "/metrics/", metrics),
        Route("GET", "/admin/v2/brokers/health", health),
        Route("GET", "/admin/v2/brokers/ready", ready),
        Route("GET", "/admin/v2/brokers/version", version),
        Route("GET", f"/admin/v2/namespaces/{NAMESPACE}/topics", topics_of_namespace),
        Route("GET", f"/admin/v2/{DOMAIN}/{NAMESPACE}", topics_of_domain),
        Route("GET", f"/admin/v2/{TOPIC}/partitions", partitions),
        Route("PUT", f"/admin/v2/{TOPIC}/partitions", create_partitioned),
        Route("GET", f"/lookup/v2/topic/{TOPIC}", lookup),
        *policy_routes(),
        *schemas.routes(),
        *compaction.routes(),
        *termination.routes(),
        *messages.routes(),
        *backlogs.routes(),
    ]
)
