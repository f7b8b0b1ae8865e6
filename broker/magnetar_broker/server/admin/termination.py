"""Ending a topic: nothing is published any more, what it has is read as before."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, serving, topic_of
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName


async def terminate(site: Site, request: Request) -> Response:
    """End a topic or a partition; durable when answered.  The last message's id."""
    broker, name = serving(site), _persistent_of(request)
    if name.partition < 0 and await broker.catalogue.partitions(name):
        raise Refused(
            405, f"{name} is partitioned: terminate its partitions (terminate/partitions)"
        )
    return json_response(await _terminated(broker, name))


async def terminate_partitions(site: Site, request: Request) -> Response:
    """The same for all partitions of a topic; the ids by the numbers of the partitions."""
    broker, name = serving(site), _persistent_of(request)
    parts = await partitions_of(broker, name)
    if parts == [name]:
        raise Refused(405, f"{name} is not partitioned: terminate it without /partitions")
    return json_response({str(part.partition): await _terminated(broker, part) for part in parts})


async def _terminated(broker: Broker, name: TopicName) -> dict[str, Any]:
    if not await broker.exists(name):
        raise Refused(404, f"Topic {name} not found")
    last = await (await loaded(broker, name)).terminate()
    return {
        "ledgerId": last.ledger,
        "entryId": last.entry,
        "partitionIndex": -1,
        "batchIndex": -1,
        "batchSize": 0,
    }


def _persistent_of(request: Request) -> TopicName:
    name = topic_of(request)
    if not name.is_persistent:
        raise Refused(406, f"{name} is not persistent: it keeps nothing that could end")
    return name


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
    path = f"/admin/v2/{TOPIC}/terminate"
    yield Route("POST", path, terminate)
    yield Route("POST", f"{path}/partitions", terminate_partitions)
