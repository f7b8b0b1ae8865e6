"""What each path answers."""

import asyncio
import json
from urllib.parse import unquote_plus, urlsplit

from aiohttp import web

from magnetar_broker.broker import Broker
from magnetar_broker.errors import InvalidName, NotReady
from magnetar_broker.metrics.figures import gather
from magnetar_broker.metrics.prometheus import CONTENT_TYPE, JournalStats, render
from magnetar_broker.server.http_errors import Refused, refusal
from magnetar_broker.version import VERSION
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import StorageError

BROKER = web.AppKey("broker", Broker)
JOURNAL = web.AppKey("journal", JournalStats)
SCRAPING = web.AppKey("scraping", asyncio.Lock)

MAX_PARTITIONS = 10_000
"""Of one topic, whatever the settings allow: every listing names them all."""
DOMAIN = "{domain:persistent|non-persistent}"
NAMESPACE = "{tenant}/{namespace}"


async def metrics(request: web.Request) -> web.Response:
    """Prometheus's page; one scrape at a time, and the loop goes on working."""
    broker = request.app[BROKER]
    async with request.app[SCRAPING]:
        figures = await gather(broker)
        journal = request.app[JOURNAL].families(figures.cluster)
        page = await asyncio.to_thread(render, figures, journal)
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})


# The broker's state ---------------------------------------------------------------------


async def health(request: web.Request) -> web.Response:
    """`ok` if clients are served, entries can be written and metadata can be read."""
    broker = request.app[BROKER]
    if not broker.ready:
        return refusal(503, "the broker is starting or stopping")
    trouble = broker.engine.store.trouble
    if trouble is not None:
        return refusal(503, f"nothing can be stored: {trouble}")
    try:
        await broker.namespaces.has("public/default")
    except StorageError as error:
        return refusal(503, f"metadata cannot be read: {error}")
    return web.Response(text="ok")


async def ready(request: web.Request) -> web.Response:
    """`ok` between the end of the start and the beginning of the stop."""
    if not request.app[BROKER].ready:
        return refusal(500, "the broker is starting or stopping")
    return web.Response(text="ok")


async def version(request: web.Request) -> web.Response:
    """The version as plain text."""
    return web.Response(text=VERSION)


# Names ------------------------------------------------------------------------------------


async def topics_of_domain(request: web.Request) -> web.Response:
    """The topics of a namespace, partitions one by one."""
    persistent = request.match_info["domain"] == "persistent"
    return await _names(request, persistent=persistent, volatile=not persistent)


async def topics_of_namespace(request: web.Request) -> web.Response:
    """The same by `mode`: PERSISTENT (default), NON_PERSISTENT or ALL."""
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refused(400, f"mode is {mode}: expected PERSISTENT, NON_PERSISTENT or ALL")
    return await _names(request, mode != "NON_PERSISTENT", mode != "PERSISTENT")


async def _names(request: web.Request, persistent: bool, volatile: bool) -> web.Response:
    broker = _serving(request)
    namespace = str(NamespaceName.parse("/".join(_parts(request, "tenant", "namespace"))))
    with broker.lookup():
        if not await broker.namespaces.has(namespace):
            raise Refused(404, f"Namespace {namespace} does not exist")
        return web.json_response(await broker.names(namespace, persistent, volatile))


# Topics -------------------------------------------------------------------------------------


async def lookup(request: web.Request) -> web.Response:
    """Which broker serves a topic; 404 if it is missing and would not be created."""
    broker, topic = _serving(request), _topic(request)
    with broker.lookup():
        await broker.namespaces.require(topic.namespace_name)
        await _require_topic(broker, topic)
        authoritative = request.query.get("authoritative") == "true"
        owner = await broker.ownership.locate(topic, authoritative)
    return web.json_response(
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
    if not 0 <= topic.partition < await broker.namespaces.partitions(topic):
        await broker.partitions(topic, create=False)


def _http_url(request: web.Request, service_url: str) -> str:
    """The port that the request came to, on the host that clients are told of."""
    assert request.transport is not None
    host = urlsplit(service_url).netloc.rpartition(":")[0]
    return f"http://{host}:{request.transport.get_extra_info('sockname')[1]}"


async def partitions(request: web.Request) -> web.Response:
    """How many partitions a topic has, 0 for none; may create it if the client says so."""
    broker = _serving(request)
    create = request.query.get("checkAllowAutoCreation") == "true"
    with broker.lookup():
        count = await broker.partitions(_topic(request), create)
    return web.json_response({"partitions": count, "deleted": False})


async def create_partitioned(request: web.Request) -> web.Response:
    """Make a topic with so many partitions; durable when answered."""
    broker, topic = _serving(request), _topic(request)
    if topic.partition >= 0:
        raise Refused(412, f"{topic} is the name of a partition: create {topic.base}")
    count = _partition_count(await request.read())
    limit = broker.settings.max_num_partitions_per_partitioned_topic or MAX_PARTITIONS
    if not 0 < count <= min(limit, MAX_PARTITIONS):
        raise Refused(406, f"{count} partitions: from 1 to {min(limit, MAX_PARTITIONS)} may be had")
    await broker.create_partitioned(topic, count)
    return web.Response(status=204)


def _partition_count(body: bytes) -> int:
    """From a bare number, or from partitioned topic metadata."""
    try:
        wanted = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not readable JSON: {error}") from error
    if isinstance(wanted, dict):
        if wanted.get("properties"):
            raise Refused(400, "properties of topics are not supported on this broker yet")
        wanted = wanted.get("partitions")
    if type(wanted) is not int:
        raise Refused(400, "the body must be the number of partitions")
    return wanted


def _serving(request: web.Request) -> Broker:
    """The broker, once it may be asked about names."""
    broker = request.app[BROKER]
    if not broker.ready:
        raise NotReady("the broker is starting or stopping; try again")
    return broker


def _topic(request: web.Request) -> TopicName:
    tenant, namespace, local = _parts(request, "tenant", "namespace", "topic")
    domain = request.match_info["domain"]
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local}")


def _parts(request: web.Request, *names: str) -> list[str]:
    """Segments of the path, decoded once from what was sent.

    The library's own decoding cannot tell a blank, sent as `+`, from a plus, sent as `%2B`.
    """
    route = request.match_info.route.resource
    assert route is not None
    sent = request.rel_url.raw_path.split("/")
    pattern = route.canonical.split("/")
    try:
        return [unquote_plus(sent[pattern.index(f"{{{name}}}")], errors="strict") for name in names]
    except UnicodeDecodeError as error:
        raise InvalidName("the path is not UTF-8 that was percent-encoded") from error


ROUTES = [
    web.get("/metrics", metrics),
    web.get("/metrics/", metrics),
    web.get("/admin/v2/brokers/health", health),
    web.get("/admin/v2/brokers/ready", ready),
    web.get("/admin/v2/brokers/version", version),
    web.get(f"/admin/v2/namespaces/{NAMESPACE}/topics", topics_of_namespace),
    web.get(f"/admin/v2/{DOMAIN}/{NAMESPACE}", topics_of_domain),
    web.get(f"/admin/v2/{DOMAIN}/{NAMESPACE}/{{topic}}/partitions", partitions),
    web.put(f"/admin/v2/{DOMAIN}/{NAMESPACE}/{{topic}}/partitions", create_partitioned),
    web.get(f"/lookup/v2/topic/{DOMAIN}/{NAMESPACE}/{{topic}}", lookup),
]
