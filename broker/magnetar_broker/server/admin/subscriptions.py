"""Subscriptions: list, create, delete, properties."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import (
    AdminContext,
    checked_properties,
    existing_namespace,
    properties_of,
    serving,
    subscription_of,
    topic_in,
    topic_of,
)
from magnetar_broker.server.admin.messages.positions import (
    ENDS,
    MessagePosition,
    message_position_of,
)
from magnetar_broker.server.admin.operations import subscriptions as operations
from magnetar_broker.server.admin.refusals import bounded, no_subscription
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName

EARLIEST, LATEST = MessagePosition(ENDS["earliest"]), MessagePosition(ENDS["latest"])


async def subscriptions(context: AdminContext, request: Request) -> Response:
    """Return the names of a topic's subscriptions, or of those of all its partitions."""
    directory, topic = await topic_in(context, request)
    found: set[str] = set()
    for part in await _used(directory, topic):
        found.update(await context.owners.ask(operations.names_of, part))
    return json_response(sorted(found))


async def create(context: AdminContext, request: Request) -> None:
    """Create a subscription on every partition without it; the topic, too, if use creates it."""
    directory, topic = serving(context), topic_of(request)
    await existing_namespace(directory, request)
    if not topic.is_persistent:
        raise Refused(
            400, f"{topic} is not persistent: its subscriptions are created by their consumers"
        )
    (message, excluded), properties = _start(request)
    name, ask = subscription_of(request), context.owners.ask
    parts = await directory.parts(topic)
    lacking = [part for part in parts if not await ask(operations.has, part, name)]
    if not lacking:
        raise Refused(
            409, f"{topic} has a subscription {name}: choose another name, or delete it first"
        )
    for part in lacking:
        await ask(operations.create, part, name, message, excluded, properties)


def _start(request: Request) -> tuple[MessagePosition, dict[str, str]]:
    """Return the first position of a new subscription, and its properties.

    Without a body it begins at the end of the topic; with an object without a position it begins at
    the beginning, as in Pulsar.
    """
    body = request.json_or_none()
    if body is None:
        return LATEST, {}
    properties = body.get("properties") if isinstance(body, dict) else None
    names_place = not isinstance(body, dict) or not {"ledgerId", "entryId"}.isdisjoint(body)
    place = message_position_of(request) if names_place else EARLIEST
    return place, bounded(checked_properties(properties or {}))


async def delete(context: AdminContext, request: Request) -> None:
    """Delete a subscription on every partition that has it; with `force` also with consumers."""
    directory, topic = await topic_in(context, request)
    name, ask = subscription_of(request), context.owners.ask
    force = request.flag("force") or not topic.is_persistent
    used = await _used(directory, topic)
    consumers = {part: await ask(operations.consumers_of, part, name) for part in used}
    parts = [part for part in used if consumers[part] is not None]
    if not parts:
        raise no_subscription(name, topic)
    if not force and any(consumers.values()):
        raise operations.in_use(name)
    for part in parts:
        await ask(operations.delete, part, name, force)


# Properties -----------------------------------------------------------------------------


async def properties(context: AdminContext, request: Request) -> Response:
    """Return the properties of a subscription."""
    merged: dict[str, str] = {}
    for _, found in await _properties(context, request):
        merged |= found
    return json_response(merged)


async def set_properties(context: AdminContext, request: Request) -> None:
    """Replace all properties of a subscription."""
    new = bounded(properties_of(request))
    for part, _ in await _properties(context, request):
        await context.owners.ask(operations.set_properties, part, subscription_of(request), new)


async def _properties(
    context: AdminContext, request: Request
) -> list[tuple[TopicName, dict[str, str]]]:
    """Return the properties on every partition with the durable subscription; 404 if none has."""
    directory, topic = await topic_in(context, request)
    name = subscription_of(request)
    parts = await _used(directory, topic)
    found = [(part, await context.owners.ask(operations.properties, part, name)) for part in parts]
    present = [(part, properties) for part, properties in found if properties is not None]
    if not present:
        raise no_subscription(name, topic)
    return present


async def _used(directory: Directory, topic: TopicName) -> list[TopicName]:
    """Return a topic, or its partitions that exist: an unused one has no subscriptions."""
    return [
        part
        for part in await directory.parts(topic)
        if directory.topic_host.is_loaded(part)
        or (part.is_persistent and await directory.catalogue.exists(part))
    ]
