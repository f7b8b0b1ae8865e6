"""Statistics of the whole broker, and of features that it lacks: bookies, allocators, quotas."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from magnetar_broker.base.version import VERSION
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.server.admin.context import AdminContext, existing_namespace, http_url, serving
from magnetar_broker.server.admin.operations import statistics as operations
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import NamespaceName, TopicName

MAX_TOPICS = 10_000
"""The most topics in one answer, with some KB each."""
TOGETHER = 100
"""The number of topics that a process is asked for at once."""
ALLOCATORS = {"default", "ml-cache"}
QUOTA = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""Pulsar's default; quotas of bundles have no effect here, because their load is measured."""


async def topics(context: AdminContext, request: Request) -> Response:
    """Return figures of all topics that are loaded, by namespace, bundle and domain."""
    directory, namespace = serving(context), _namespace(request)
    of_processes = await context.owners.ask_all(operations.loaded_names, namespace)
    names = sorted(name for each in of_processes for name in each)
    if len(names) > MAX_TOPICS:
        raise Refused(
            412,
            f"{len(names)} topics are loaded, and this shows at most {MAX_TOPICS}: name a "
            "namespace, ?namespace=tenant/namespace, or ask for the stats of single topics",
        )
    found: dict[str, Any] = {}
    bundles: dict[str, Bundles] = {}
    for start in range(0, len(names), TOGETHER):
        some = names[start : start + TOGETHER]
        for answer in await context.owners.ask_all(operations.brief, some):
            for text, figures in answer:
                topic = TopicName.parse(text)
                owner = topic.namespace_name
                if owner not in bundles:
                    bundles[owner] = await directory.bundles.stored.of(owner)
                domains = found.setdefault(owner, {}).setdefault(bundles[owner].of(topic), {})
                domain = "persistent" if topic.is_persistent else "non-persistent"
                domains.setdefault(domain, {})[text] = figures
    return Response(b"", "application/json; charset=utf-8", rest=list(_object(found)))


def _object(members: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield an object as JSON, in parts; its members are such objects, and JSON."""
    before = b"{"
    for name, value in members.items():
        yield before + json.dumps(name).encode() + b": "
        if isinstance(value, bytes):
            yield value
        else:
            yield from _object(value)
        before = b", "
    yield b"}" if members else b"{}"


def _namespace(request: Request) -> str:
    text = request.query.get("namespace", "")
    return str(NamespaceName.parse(text)) if text else ""


# Load ---------------------------------------------------------------------------------------


async def load_report(context: AdminContext, request: Request) -> Response:
    """Return the load and the resources of the broker, all its processes together."""
    directory = serving(context)
    loads = await context.owners.ask_all(operations.load)
    total = _total(loads)
    service_url = directory.ownership.service_url
    broker_tls = "Tls" if service_url.startswith("pulsar+ssl:") else ""
    url = http_url(request, service_url)
    bundles = await _bundles(context)
    cores, memory = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    lifetimes = [max(one["nowMs"] - one["startedMs"], 1) / 1000 for one in loads]
    cpu = 100 * sum(
        one["cpuSeconds"] / seconds for one, seconds in zip(loads, lifetimes, strict=True)
    )
    megabyte = 1 << 20
    return json_response(
        {
            f"webServiceUrl{'Tls' if request.is_tls else ''}": url,
            f"pulsarServiceUrl{broker_tls}": service_url,
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            "cpu": {"usage": cpu, "limit": 100.0 * cores},
            "memory": {"usage": total["peakBytes"] / megabyte, "limit": memory / megabyte},
            "directMemory": {"usage": 0.0, "limit": 0.0},
            "bandwidthIn": {"usage": total["msgThroughputIn"] * 8 / 1000, "limit": -1.0},
            "bandwidthOut": {"usage": total["msgThroughputOut"] * 8 / 1000, "limit": -1.0},
            **{
                name: total[name]
                for name in (
                    "msgRateIn",
                    "msgRateOut",
                    "msgThroughputIn",
                    "msgThroughputOut",
                    "numTopics",
                    "numConsumers",
                    "numProducers",
                )
            },
            "lastUpdate": max((one["nowMs"] for one in loads), default=0),
            "startTimestamp": min((one["startedMs"] for one in loads), default=0),
            "lastStats": {},
            "numBundles": len(bundles),
            "bundles": bundles,
            "lastBundleGains": [],
            "lastBundleLosses": [],
            "protocols": {},
            "advertisedListeners": {},
            "brokerVersionString": VERSION,
            "loadReportType": "LocalBrokerData",
        }
    )


def _total(loads: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: sum(one[name] for one in loads) for name in (loads[0] if loads else {})}


async def _bundles(context: AdminContext) -> list[str]:
    directory = serving(context)
    found = []
    for process in directory.bundles.processes:
        found += await directory.bundles.owned_by(process)
    return sorted(found)


async def metrics(context: AdminContext, request: Request) -> Response:
    """Return a few of the metrics, in the form of older versions; `/metrics` has all."""
    directory = serving(context)
    total = _total(await context.owners.ask_all(operations.load))
    dimensions = {"cluster": directory.settings.cluster_name, "metric": "broker"}
    names = {
        "brk_active_connections": "connections",
        "brk_connection_created_total_count": "connectionsTotal",
        "brk_no_of_topics": "numTopics",
        "brk_no_of_producers": "numProducers",
        "brk_no_of_subscriptions": "numSubscriptions",
        "brk_no_of_consumers": "numConsumers",
        "brk_in_rate": "msgRateIn",
        "brk_in_tp_rate": "msgThroughputIn",
        "brk_out_rate": "msgRateOut",
        "brk_out_tp_rate": "msgThroughputOut",
    }
    figures = {name: total.get(source, 0) for name, source in names.items()}
    return json_response([{"metrics": figures, "dimensions": dimensions}])


# Features that this broker does not have -----------------------------------------------------


async def mbeans(context: AdminContext, request: Request) -> Response:
    """Return an empty list: the broker is not a Java process."""
    return json_response([])


async def allocator(context: AdminContext, request: Request) -> Response:
    """Return the figures of an allocator without arenas; `/metrics` has the process's memory."""
    name = request.part("name")
    if name not in ALLOCATORS:
        raise Refused(
            406, f"there is no allocator {name}: expected {' or '.join(sorted(ALLOCATORS))}"
        )
    counts = ("numDirectArenas", "numHeapArenas", "numThreadLocalCaches", "normalCacheSize")
    sizes = ("smallCacheSize", "usedDirectMemory", "usedHeapMemory")
    none: dict[str, Any] = dict.fromkeys(counts + sizes, 0)
    return json_response(none | {"directArenas": [], "heapArenas": []})


async def bookies(context: AdminContext, request: Request) -> Response:
    """Answer that there are no bookies: the broker stores messages itself."""
    return json_response({"bookies": []})


async def racks(context: AdminContext, request: Request) -> Response:
    """Answer that there are no racks of bookies."""
    return json_response({})


async def resource_quota(context: AdminContext, request: Request) -> Response:
    """Return the default quota of all bundles."""
    return json_response(QUOTA)


async def resource_quota_of_bundle(context: AdminContext, request: Request) -> Response:
    """Return the quota of a bundle, which is always the default."""
    await existing_namespace(serving(context), request)
    return json_response(QUOTA)
