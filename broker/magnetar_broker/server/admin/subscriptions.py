"""Subscriptions: list, create, delete, properties."""

from collections.abc import Iterator

from magnetar_broker.base.errors import InUse, NotAllowed
from magnetar_broker.broker import Broker
from magnetar_broker.dispatch.compacted import replaced, shown
from magnetar_broker.server.admin.loading import loaded, partitions_of
from magnetar_broker.server.admin.positions import ENDS, Place, place_of
from magnetar_broker.server.admin.site import (
    TOPIC,
    Handler,
    Site,
    bounded,
    checked_properties,
    existing_namespace,
    existing_topic,
    flag_of,
    json_of,
    no_subscription,
    parts_of,
    properties_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.subscribing.skipping import place_in
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import DurableCursor

LATEST = Place(ENDS["latest"])


async def subscriptions(site: Site, request: Request) -> Response:
    """The names of a topic's subscriptions; for a partitioned topic, those of all partitions."""
    broker, topic = serving(site), await existing_topic(serving(site), request)
    found: set[str] = set()
    for part in await _used(broker, topic):
        found.update(part.subscriptions)
    return json_response(sorted(found))


async def create(site: Site, request: Request) -> Response:
    """Create one on every partition that lacks it; the topic too where use creates topics."""
    broker, topic = serving(site), topic_of(request)
    await existing_namespace(broker, request)
    if not topic.is_persistent:
        raise Refused(
            400, f"{topic} is not persistent: its subscriptions are created by their consumers"
        )
    place, properties = _start(request)
    parts = [await loaded(broker, part, create=True) for part in await partitions_of(broker, topic)]
    name = _name(request)
    lacking = [part for part in parts if name not in part.subscriptions]
    if not lacking:
        raise Refused(
            409, f"{topic} has a subscription {name}: choose another name, or delete it first"
        )
    for part in lacking:
        offset, _ = await place_in(part.log, place.message, place.excluded)
        try:
            await part.subscriptions.create(name, offset, properties)
        except NotAllowed as error:
            raise Refused(409, str(error)) from error  # 409, not 405: as for the limit of topics
    return Response(status=204)


def _start(request: Request) -> tuple[Place, dict[str, str]]:
    """Its first position, the end of the topic if the body is empty, and its properties."""
    body = json_of(request) if request.body.strip() else None
    if body is None:
        return LATEST, {}
    properties = body.get("properties") if isinstance(body, dict) else None
    return place_of(request), bounded(checked_properties(properties or {}))


async def delete(site: Site, request: Request) -> Response:
    """Delete one, on every partition that has it; with `force` also while it has consumers."""
    broker, topic = serving(site), await existing_topic(serving(site), request)
    name = _name(request)
    force = flag_of(request, "force") or not topic.is_persistent
    parts = [part for part in await _used(broker, topic) if name in part.subscriptions]
    if not parts:
        raise no_subscription(name, topic)
    if not force and any(part.subscriptions[name].consumers for part in parts):
        raise InUse(f"subscription {name} has connected consumers: close them, or use force=true")
    for part in parts:
        part.subscriptions[name].consumers.disconnect()
        if isinstance(part, Topic) and name in part.subscriptions:
            await part.subscriptions[name].delete()
    return Response(status=204)


# Properties -----------------------------------------------------------------------------


async def properties(site: Site, request: Request) -> Response:
    """The properties of a subscription."""
    found: dict[str, str] = {}
    for _, cursor in await _cursors(site, request):
        found |= shown(cursor.properties)
    return json_response(found)


async def set_properties(site: Site, request: Request) -> Response:
    """Replace all properties of a subscription."""
    new = bounded(properties_of(request))
    for topic, cursor in await _cursors(site, request):
        await topic.cursors.set_properties(cursor, replaced(cursor.properties, new))
    return Response(status=204)


async def _cursors(site: Site, request: Request) -> list[tuple[Topic, DurableCursor]]:
    broker, topic = serving(site), await existing_topic(serving(site), request)
    name = _name(request)
    parts = [part for part in await _used(broker, topic) if isinstance(part, Topic)]
    found = [(part, part.cursors.cursors[name]) for part in parts if name in part.cursors.cursors]
    if not found:
        raise no_subscription(name, topic)
    return found


def _name(request: Request) -> str:
    (name,) = parts_of(request, "subscription")
    return name


async def _used(broker: Broker, topic: TopicName) -> list[AnyTopic]:
    """A topic, or the partitions of it that exist: one that was never used has no subscriptions."""
    used: list[AnyTopic] = []
    for part in await partitions_of(broker, topic):
        loaded = broker.topics.get(part)
        if loaded is None and part.is_persistent and await broker.catalogue.exists(part):
            loaded = await broker.topic(part, create=False)
        used += [] if loaded is None else [loaded]
    return used


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    yield Route("GET", f"/admin/v2/{TOPIC}/subscriptions", subscriptions)
    path = f"/admin/v2/{TOPIC}/subscription/{{subscription}}"
    yield Route("PUT", path, create)
    yield Route("DELETE", path, delete)
    yield Route("GET", f"{path}/properties", properties)
    yield Route("PUT", f"{path}/properties", set_properties)
