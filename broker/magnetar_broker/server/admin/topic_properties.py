"""Properties of topics: a partitioned topic has its own, and each partition its own."""

from collections.abc import Callable
from dataclasses import replace

from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_topic,
    properties_of,
    serving,
    topic_of,
)
from magnetar_broker.server.admin.operations import topics
from magnetar_broker.server.admin.refusals import bounded
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName

Properties = dict[str, str]


async def properties(context: AdminContext, request: Request) -> Response:
    """Return all properties of a topic."""
    directory, topic = serving(context), await _persistent(context, request)
    found = await directory.catalogue.partitioned(topic) if topic.partition < 0 else None
    if found is not None:
        return json_response(found.properties)
    return json_response(await context.owners.ask(topics.properties, topic))


async def add_properties(context: AdminContext, request: Request) -> None:
    """Add properties; those that exist get the new values."""
    topic = await _persistent(context, request)
    new = properties_of(request)
    if await _is_partitioned(context, topic):
        await _change(context, topic, lambda old: bounded(old | new))
    else:
        await context.owners.ask(topics.add_properties, topic, new)


async def remove_property(context: AdminContext, request: Request) -> None:
    """Remove the property whose `key` is in the query; it need not exist."""
    topic = await _persistent(context, request)
    key = request.query.get("key")
    if await _is_partitioned(context, topic):
        await _change(
            context, topic, lambda old: {k: value for k, value in old.items() if k != key}
        )
    else:
        await context.owners.ask(topics.remove_property, topic, key)


async def _persistent(context: AdminContext, request: Request) -> TopicName:
    if not (topic := topic_of(request)).is_persistent:
        raise Refused(406, f"{topic} is not persistent: only persistent topics have properties")
    return await existing_topic(serving(context), request)


async def _is_partitioned(context: AdminContext, topic: TopicName) -> bool:
    return topic.partition < 0 and await context.directory.catalogue.partitions(topic) > 0


async def _change(
    context: AdminContext, topic: TopicName, change: Callable[[Properties], Properties]
) -> None:
    await context.directory.catalogue.change_partitioned(
        topic, lambda old: replace(old, properties=change(old.properties))
    )
