"""Topics: list, create, delete, partitions, unload."""

import re
from typing import Any

from magnetar_broker.base.errors import LimitReached
from magnetar_broker.base.topic_properties import Properties, check_keys
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import (
    AdminContext,
    checked_properties,
    existing_namespace,
    existing_topic,
    namespace_in,
    properties_of,
    serving,
    topic_in,
    topic_of,
)
from magnetar_broker.server.admin.refusals import bounded
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName

SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""The property that makes a new topic the shadow of another."""
MAX_PARTITIONS = 10_000
"""The most partitions of a topic, whatever the settings allow: every list names all of them."""


# Lists ----------------------------------------------------------------------------------


async def topics(context: AdminContext, request: Request) -> Response:
    """Return the topics of a namespace, with each partition; with `bundle`, those of the bundle."""
    directory, namespace = await namespace_in(context, request)
    persistent = request.parameters["domain"] == "persistent"
    with directory.lookup():
        names = await _names(directory, request, namespace, persistent, not persistent)
    if "bundle" in request.query:
        bundles = await directory.bundles.stored.of(namespace)
        wanted = request.query["bundle"]
        names = [name for name in names if bundles.of(TopicName.parse(name)) == wanted]
    return json_response(names)


async def non_persistent_topics_of_bundle(context: AdminContext, request: Request) -> Response:
    """Return the non-persistent topics of a bundle."""
    directory, namespace = await namespace_in(context, request)
    bundles = await directory.bundles.stored.of(namespace)
    wanted = request.part("bundle")
    with directory.lookup():
        names = await _names(directory, request, namespace, False, True)
    return json_response([name for name in names if bundles.of(TopicName.parse(name)) == wanted])


async def topics_of_namespace(context: AdminContext, request: Request) -> Response:
    """Return the topics of a namespace by `mode`: PERSISTENT (default), NON_PERSISTENT or ALL."""
    directory = serving(context)
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refused(404, f"mode is {mode}: expected PERSISTENT, NON_PERSISTENT or ALL")
    namespace = await existing_namespace(directory, request)
    with directory.lookup():
        names = await _names(
            directory, request, namespace, mode != "NON_PERSISTENT", mode != "PERSISTENT"
        )
    return json_response(names)


async def _names(
    directory: Directory, request: Request, namespace: str, persistent: bool, non_persistent: bool
) -> list[str]:
    names = await directory.names(namespace, persistent, non_persistent)
    if persistent and request.flag("includeSystemTopic"):
        stored = await directory.catalogue.topics(namespace)
        names = sorted([*names, *(str(topic) for topic in stored if topic.is_system)])
    return names


async def partitioned_topics(context: AdminContext, request: Request) -> Response:
    """Return the partitioned topics of a namespace, without their partitions."""
    directory, namespace = await namespace_in(context, request)
    domain = request.parameters["domain"]
    names = await directory.catalogue.partitioned_topics(namespace, domain)
    system = request.flag("includeSystemTopic")
    return json_response([str(name) for name in names if system or not name.is_system])


# Creating ------------------------------------------------------------------------------


async def create(context: AdminContext, request: Request) -> None:
    """Create a topic without partitions; durable when answered."""
    directory, topic = serving(context), topic_of(request)
    await existing_namespace(directory, request)
    _check_new(topic)
    properties = bounded(check_keys(properties_of(request)))
    _check_source(properties)
    if topic.partition >= 0 and topic.partition >= await directory.catalogue.partitions(topic):
        raise Refused(
            412,
            f"{topic} is the name of a partition, and {topic.base} has no such partition: "
            "choose a name that does not end in -partition-<number>",
        )
    if topic.partition < 0 and await directory.catalogue.partitions(topic):
        raise Refused(409, f"{topic} exists, as a partitioned topic: choose another name")
    if topic.is_persistent:
        try:
            await directory.creation.plain(topic, properties)
        except LimitReached as error:
            raise Refused(409, str(error)) from error  # 409, not 412 as for other limits
    else:
        await directory.opening.create_non_persistent(topic)


def _check_source(properties: Properties) -> None:
    if SHADOW_SOURCE in properties:
        raise Refused(501, "there are no shadow topics here: consume and publish with a client")


def _check_new(topic: TopicName) -> None:
    if topic.is_system:
        raise Refused(400, f"{topic} is the name of a system topic: choose another name")


async def create_partitioned(context: AdminContext, request: Request) -> None:
    """Create a partitioned topic; durable when answered."""
    directory, topic = serving(context), topic_of(request)
    await existing_namespace(directory, request)
    _check_base(topic)
    _check_new(topic)
    new = _partitioned_of(request)
    most = _most(directory)
    if not 0 < new.partitions <= most:
        raise Refused(406, f"partitions is {new.partitions}: expected 1 to {most}")
    await directory.creation.partitioned(topic, new)


def _most(directory: Directory) -> int:
    limit = directory.settings.max_num_partitions_per_partitioned_topic or MAX_PARTITIONS
    return min(limit, MAX_PARTITIONS)


def _check_base(topic: TopicName) -> None:
    if topic.partition >= 0:
        raise Refused(
            412,
            f"{topic} is the name of a partition: name the partitioned topic, {topic.base}",
        )


def _partitioned_of(request: Request) -> Partitioned:
    """Return the number of partitions, and properties: a bare number, or an object with both."""
    body: Any = request.json()
    properties: dict[str, str] = {}
    if isinstance(body, dict):
        properties = bounded(checked_properties(body.get("properties") or {}))
        _check_source(properties)
        body = body.get("partitions")
    if isinstance(body, str) and re.fullmatch(r"-?[0-9]{1,10}", body):
        body = int(body)
    if type(body) is not int:
        raise Refused(400, "the body: expected the number of partitions")
    return Partitioned(body, properties)


async def partitions(context: AdminContext, request: Request) -> Response:
    """Return the number of partitions, or 0; `checkAllowAutoCreation` may create the topic."""
    directory, topic = serving(context), topic_of(request)
    create_it = request.flag("checkAllowAutoCreation")
    if not create_it:
        await existing_namespace(directory, request)
    with directory.lookup():
        count = await directory.partitions(topic, create_it)
    found = await directory.catalogue.partitioned(topic) if count else None
    properties = {"properties": found.properties} if found and found.properties else {}
    return json_response({"partitions": count, "deleted": False, **properties})


async def grow(context: AdminContext, request: Request) -> None:
    """Add partitions to a topic; durable when answered."""
    directory, topic = serving(context), topic_of(request)
    _check_base(topic)
    wanted = _partitioned_of(request).partitions
    present = await directory.catalogue.partitions(topic)
    if not present:
        raise Refused(409, f"{topic} is not a partitioned topic: create it as one first")
    if wanted < present:
        raise Refused(
            422, f"partitions is {wanted}: {topic} has {present}, and partitions cannot be removed"
        )
    most = _most(directory)
    if wanted > most:
        raise Refused(406, f"partitions is {wanted}: the limit is {most}")
    await directory.creation.grow(topic, wanted)


async def create_missed_partitions(context: AdminContext, request: Request) -> None:
    """Accept, with nothing to do: all partitions exist with their topic."""
    directory, topic = await topic_in(context, request)
    if topic.partition >= 0 or not await directory.catalogue.partitions(topic):
        raise Refused(404, f"{topic} is not a partitioned topic: name one")


# Deleting and unloading ---------------------------------------------------------------------


async def delete(context: AdminContext, request: Request) -> None:
    """Delete a topic that is not partitioned; with `force` also while clients are connected."""
    directory, topic = serving(context), topic_of(request)
    # A non-persistent topic may have ended with its last client: this is not an error.
    if topic.is_persistent or await directory.exists(topic):
        await existing_topic(directory, request)
        await directory.deletion.topics.delete(topic, request.flag("force"))


async def delete_partitioned(context: AdminContext, request: Request) -> None:
    """Delete a partitioned topic with its partitions; with `force` also while in use."""
    directory, topic = serving(context), topic_of(request)
    _check_base(topic)
    await existing_namespace(directory, request)
    await directory.deletion.topics.delete_partitioned(topic, request.flag("force"))


async def unload(context: AdminContext, request: Request) -> None:
    """Close a topic, or all its partitions; their clients reconnect by themselves."""
    directory, topic = await topic_in(context, request)
    for part in await directory.parts(topic):
        await directory.opening.unload(part)
