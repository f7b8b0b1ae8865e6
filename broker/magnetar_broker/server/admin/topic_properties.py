"""Properties of topics: a partitioned topic has its own, and each partition its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.loading import loaded
from magnetar_broker.server.admin.site import (
    TOPIC,
    Handler,
    Site,
    bounded,
    existing_topic,
    properties_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_broker.topic.topic_properties import change_properties, of_users
from magnetar_proto.names import TopicName

Properties = dict[str, str]


async def properties(site: Site, request: Request) -> Response:
    """All properties of a topic."""
    broker, topic = serving(site), await _persistent(site, request)
    found = await broker.catalogue.partitioned(topic) if topic.partition < 0 else None
    if found is not None:
        return json_response(found.properties)
    return json_response(of_users((await loaded(broker, topic)).log.record.properties))


async def add_properties(site: Site, request: Request) -> Response:
    """Add properties; those that exist get the new values."""
    topic = await _persistent(site, request)
    new = properties_of(request)
    await _change(serving(site), topic, lambda old: bounded(old | new))
    return Response(status=204)


async def remove_property(site: Site, request: Request) -> Response:
    """Remove the property whose `key` is in the query; it need not exist."""
    topic = await _persistent(site, request)
    key = request.query.get("key")
    await _change(
        serving(site),
        topic,
        lambda old: {name: value for name, value in old.items() if name != key},
    )
    return Response(status=204)


async def _persistent(site: Site, request: Request) -> TopicName:
    if not (topic := topic_of(request)).is_persistent:
        raise Refused(406, f"{topic} is not persistent: only persistent topics have properties")
    return await existing_topic(serving(site), request)


async def _change(
    broker: Broker, topic: TopicName, change: Callable[[Properties], Properties]
) -> None:
    if topic.partition < 0 and await broker.catalogue.partitions(topic):
        await broker.catalogue.change_partitioned(
            topic, lambda old: replace(old, properties=change(old.properties))
        )
    else:
        await change_properties(await loaded(broker, topic), change)


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    path = f"/admin/v2/{TOPIC}/properties"
    yield Route("GET", path, properties)
    yield Route("PUT", path, add_properties)
    yield Route("DELETE", path, remove_property)
