"""Compaction of a topic: begin it, and ask how it went."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, serving, topic_of
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.topic import Topic
from magnetar_proto.names import TopicName


async def compact(site: Site, request: Request) -> Response:
    """Begin, with all partitions of a partitioned topic; 409 if it is under way already."""
    broker, name = serving(site), topic_of(request)
    for part in await partitions_of(broker, name):
        await _start(broker, part)
    return Response(status=204)


async def _start(broker: Broker, name: TopicName) -> None:
    topic = await _persistent(broker, name)
    if not await topic.compaction.start():
        raise Refused(409, f"Compaction already in progress on {name}: wait until it has ended")


async def status(site: Site, request: Request) -> Response:
    """How the last compaction since the topic was loaded went."""
    topic = await _persistent(serving(site), topic_of(request))
    compaction = topic.compaction
    return json_response({"status": str(compaction.status), "lastError": compaction.last_error})


async def _persistent(broker: Broker, name: TopicName) -> Topic:
    if not name.is_persistent:
        raise Refused(404, f"{name} is not persistent: it keeps nothing that could be compacted")
    if name.partition < 0 and await broker.catalogue.partitions(name):
        raise Refused(404, f"{name} is partitioned: ask for one of its partitions")
    if not await broker.exists(name):
        raise Refused(404, f"Topic {name} not found")
    return await loaded(broker, name)


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
    path = f"/admin/v2/{TOPIC}/compaction"
    yield Route("PUT", path, compact)
    yield Route("GET", path, status)
