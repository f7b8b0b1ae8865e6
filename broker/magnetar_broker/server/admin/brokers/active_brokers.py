"""Brokers: their ids, the bundles that they own, and their health.

Tools see every process that serves topics as a broker of its own, as in a cluster of Pulsar: so
they can list owners and name one as a destination.  Its id has the form of Pulsar's, `host:port`.
The only process of a broker has the broker's address; of several, each has its name in place of a
host.
"""

from urllib.parse import urlsplit

from magnetar_broker.base.version import VERSION
from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import AdminContext, http_url, serving
from magnetar_broker.server.admin.operations import damage
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import (
    Refused,
    Request,
    Response,
    json_response,
    text_response,
)
from magnetar_broker.server.pages.health import Unhealthy

OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
"""The attributes of every bundle: there are no isolation policies that they could depend on."""


def processes_of(directory: Directory, request: Request) -> dict[str, str]:
    """Return the processes that serve topics, by their ids as brokers."""
    names = directory.bundles.processes
    if len(names) == 1:
        address = urlsplit(http_url(request, directory.ownership.service_url)).netloc
        return {address: names[0]}
    return {f"{name}:{request.port}": name for name in names}


def required_process(
    directory: Directory, request: Request, text: str, missing_status: int = 404
) -> str:
    """Return the process with this id or name, with or without a port; refuse if there is none."""
    processes = processes_of(directory, request)
    name = text.partition(":")[0]
    # promise[without processes.get(text) or]: the only process can be named as brokers list it
    named = processes.get(text) or (name if name in processes.values() else None)
    if named is None:
        known = ", ".join(processes)
        raise Refused(missing_status, f"there is no broker {text}: expected one of {known}")
    return named


# Which there are ------------------------------------------------------------------------


async def brokers(context: AdminContext, request: Request) -> Response:
    """Return the ids of all processes that serve topics, even of one that is starting again."""
    return json_response(list(processes_of(serving(context), request)))


async def brokers_of_cluster(context: AdminContext, request: Request) -> Response:
    """Return the ids of all processes that serve topics, if the path names their cluster."""
    _check_cluster(serving(context), request)
    return await brokers(context, request)


async def leader(context: AdminContext, request: Request) -> Response:
    """Return the first of the brokers: the process that places bundles is not one of them."""
    directory = serving(context)
    url = http_url(request, directory.ownership.service_url)
    first = next(iter(processes_of(directory, request)))
    return json_response({"brokerId": first, "serviceUrl": url})


async def owned(context: AdminContext, request: Request) -> Response:
    """Return the bundles that a process owns, of all namespaces that were used since the start."""
    directory = serving(context)
    _check_cluster(directory, request)
    broker = request.part("broker")
    process = required_process(directory, request, broker)
    found = await directory.bundles.owned_by(process)
    return json_response(dict.fromkeys(found, OWNED))


def _check_cluster(directory: Directory, request: Request) -> None:
    cluster, own = request.part("cluster"), directory.settings.cluster_name
    if cluster != own:
        raise Refused(404, f"there is no cluster {cluster}: {own} is the only one")


# Their state ----------------------------------------------------------------------------


async def health(context: AdminContext, request: Request) -> Response:
    """`ok` if the broker is ready and the health check's message was delivered; else 503.

    Every worker checks that, or the worker that `brokerId` names.  A worker that serves no topic
    for the message only reads metadata.  The answer is `ok` then, too: clients accept no other
    text.  With `detailed` it is JSON, whose `status` is `degraded` while some messages cannot be
    read.
    """
    if not context.directory.ready:
        return refusal(503, "the broker is starting or stopping: retry")
    broker = request.query.get("brokerId")
    process = required_process(context.directory, request, broker) if broker else None
    try:
        await context.health.check(process)
    except Unhealthy as error:
        return refusal(503, str(error))
    if request.flag("detailed"):
        return await _detailed(context)
    # Also with damage: a broker that a probe restarts for it would have the same damage again.
    return text_response("ok")


async def _detailed(context: AdminContext) -> Response:
    """Answer whether all messages that were read since the start could be read."""
    found = [one for each in await context.owners.ask_all(damage.known) for one in each]
    return json_response({"status": "degraded" if found else "ok", "damaged": found})


async def ready(context: AdminContext, request: Request) -> Response:
    """`ok` from the end of the start to the beginning of the stop; sends no message."""
    if not context.directory.ready:
        return refusal(500, "the broker is starting or stopping: retry")
    return text_response("ok")


async def version(context: AdminContext, request: Request) -> Response:
    """Return the version as plain text."""
    return text_response(VERSION)
