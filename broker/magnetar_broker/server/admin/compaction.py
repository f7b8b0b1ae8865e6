"""Compaction of a topic: start it, and read its status."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, no_topic, serving, topic_of
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName


async def compact(site: Site, request: Request) -> Response:
    """Start it, on all partitions of a partitioned topic; 409 if it is already running."""
    broker, name = serving(site), topic_of(request)
    for part in await partitions_of(broker, name):
        await _start(broker, part)
    return Response(status=204)


async def _start(broker: Broker, name: TopicName) -> None:
    topic = await _persistent(broker, name)
    if not await topic.compaction.start():
        raise Refused(409, f"{name} is being compacted: retry when that has ended")


async def status(site: Site, request: Request) -> Response:
    """The status of the last compaction since the topic was loaded."""
    topic = await _persistent(serving(site), topic_of(request))
    compaction = topic.compaction
    return json_response({"status": str(compaction.status), "lastError": compaction.last_error})


async def _persistent(broker: Broker, name: TopicName) -> Topic:
    if not name.is_persistent:
        raise Refused(404, f"{name} is not persistent: only persistent topics can be compacted")
    if name.partition < 0 and await broker.catalogue.partitions(name):
        raise Refused(404, f"{name} is partitioned: name one of its partitions")
    if not await broker.exists(name):
        raise no_topic(name)
    return await loaded(broker, name)


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    path = f"/admin/v2/{TOPIC}/compaction"
    yield Route("PUT", path, compact)
    yield Route("GET", path, status)
