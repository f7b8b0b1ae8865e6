"""Topics: lists, their life, partitions, unloading."""

import re
from collections.abc import Iterator
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.errors import LimitReached
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.topic_properties import check_keys
from magnetar_broker.server.admin.loading import partitions_of
from magnetar_broker.server.admin.site import (
    DOMAIN,
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    bounded,
    checked_properties,
    existing_namespace,
    existing_topic,
    flag_of,
    json_of,
    properties_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

MAX_PARTITIONS = 10_000
"""Of one topic, whatever the settings allow: every listing names them all."""


# Lists ----------------------------------------------------------------------------------


async def topics(site: Site, request: Request) -> Response:
    """The topics of a namespace, partitions one by one; those of one bundle if it is named."""
    broker = serving(site)
    namespace = await existing_namespace(broker, request)
    persistent = request.parameters["domain"] == "persistent"
    with broker.lookup():
        names = await _names(broker, request, namespace, persistent, not persistent)
    if "bundle" in request.query:
        bundles = (await broker.namespaces.get(namespace)).bundles
        assert bundles is not None  # of what is stored they are known
        wanted = request.query["bundle"]
        names = [name for name in names if bundles.of(TopicName.parse(name)) == wanted]
    return json_response(names)


async def topics_of_namespace(site: Site, request: Request) -> Response:
    """The same by `mode`: PERSISTENT (default), NON_PERSISTENT or ALL."""
    broker = serving(site)
    mode = request.query.get("mode", "PERSISTENT")
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refused(404, f"mode is {mode}: expected PERSISTENT, NON_PERSISTENT or ALL")
    namespace = await existing_namespace(broker, request)
    with broker.lookup():
        names = await _names(
            broker, request, namespace, mode != "NON_PERSISTENT", mode != "PERSISTENT"
        )
    return json_response(names)


async def _names(
    broker: Broker, request: Request, namespace: str, persistent: bool, volatile: bool
) -> list[str]:
    names = await broker.names(namespace, persistent, volatile)
    if persistent and flag_of(request, "includeSystemTopic"):
        stored = await broker.catalogue.topics(namespace)
        names = sorted([*names, *(str(topic) for topic in stored if topic.is_system)])
    return names


async def partitioned_topics(site: Site, request: Request) -> Response:
    """The partitioned topics of a namespace, without their partitions."""
    broker = serving(site)
    namespace = await existing_namespace(broker, request)
    domain = request.parameters["domain"]
    names = await broker.catalogue.partitioned_topics(namespace, domain)
    system = flag_of(request, "includeSystemTopic")
    return json_response([str(name) for name in names if system or not name.is_system])


# Beginning ------------------------------------------------------------------------------


async def create(site: Site, request: Request) -> Response:
    """Make a topic without partitions; durable when answered."""
    broker, topic = serving(site), topic_of(request)
    await existing_namespace(broker, request)
    _check_new(topic)
    properties = bounded(check_keys(properties_of(request)))
    if topic.partition >= 0 and topic.partition >= await broker.catalogue.partitions(topic):
        raise Refused(
            412,
            f'Can\'t create topic {topic.local} with "-partition-" followed by a number: '
            f"{topic.base} has no such partition",
        )
    if topic.partition < 0 and await broker.catalogue.partitions(topic):
        raise Refused(409, "This topic already exists")
    if topic.is_persistent:
        try:
            await broker.creation.plain(topic, properties)
        except LimitReached as error:
            raise Refused(409, str(error)) from error  # not 412, as elsewhere
    else:
        await broker.make_volatile(topic)
    return Response(status=204)


def _check_new(topic: TopicName) -> None:
    if topic.is_system:
        raise Refused(400, "Cannot create topic in system topic format!")


async def create_partitioned(site: Site, request: Request) -> Response:
    """Make a topic with so many partitions; durable when answered."""
    broker, topic = serving(site), topic_of(request)
    await existing_namespace(broker, request)
    _check_base(topic)
    _check_new(topic)
    new = _partitioned_of(request)
    most = _most(broker)
    if not 0 < new.partitions <= most:
        raise Refused(406, f"{new.partitions} partitions: from 1 to {most} may be had")
    await broker.creation.partitioned(topic, new)
    return Response(status=204)


def _most(broker: Broker) -> int:
    limit = broker.settings.max_num_partitions_per_partitioned_topic or MAX_PARTITIONS
    return min(limit, MAX_PARTITIONS)


def _check_base(topic: TopicName) -> None:
    if topic.partition >= 0:
        raise Refused(
            412,
            f"Partitioned Topic Name should not contain '-partition-': {topic} is the name of "
            f"a partition, its topic is {topic.base}",
        )


def _partitioned_of(request: Request) -> Partitioned:
    """From a bare number, or from partitioned topic metadata."""
    said: Any = json_of(request)
    properties: dict[str, str] = {}
    if isinstance(said, dict):
        properties = bounded(checked_properties(said.get("properties") or {}))
        said = said.get("partitions")
    if isinstance(said, str) and re.fullmatch(r"-?[0-9]{1,10}", said):
        said = int(said)
    if type(said) is not int:
        raise Refused(400, "the body must be the number of partitions")
    return Partitioned(said, properties)


async def partitions(site: Site, request: Request) -> Response:
    """How many partitions a topic has, 0 for none; may create it if the client says so."""
    broker, topic = serving(site), topic_of(request)
    create_it = flag_of(request, "checkAllowAutoCreation")
    if not create_it:
        await existing_namespace(broker, request)
    with broker.lookup():
        count = await broker.partitions(topic, create_it)
    found = await broker.catalogue.partitioned(topic) if count else None
    properties = {"properties": found.properties} if found and found.properties else {}
    return json_response({"partitions": count, "deleted": False, **properties})


async def grow(site: Site, request: Request) -> Response:
    """Give a topic more partitions; durable when answered."""
    broker, topic = serving(site), topic_of(request)
    _check_base(topic)
    wanted = _partitioned_of(request).partitions
    present = await broker.catalogue.partitions(topic)
    if not present:
        raise Refused(409, f"Topic {topic} is not the partitioned topic.")
    if wanted < present:
        raise Refused(422, f"{wanted} partitions: {topic} has {present}, and none can be taken")
    most = _most(broker)
    if wanted > most:
        raise Refused(406, f"{wanted} partitions: {most} may be had")
    await broker.creation.grow(topic, wanted)
    return Response(status=204)


async def create_missed_partitions(site: Site, request: Request) -> Response:
    """Partitions are there with their topic, so none is ever missed."""
    broker, topic = serving(site), await existing_topic(serving(site), request)
    if topic.partition >= 0 or not await broker.catalogue.partitions(topic):
        raise Refused(404, f"Topic {topic} does not exist, or is not partitioned")
    return Response(status=204)


# Ending and unloading ---------------------------------------------------------------------


async def delete(site: Site, request: Request) -> Response:
    """Delete a topic that is not partitioned; with `force` also while clients are connected."""
    broker, topic = serving(site), topic_of(request)
    if topic.is_persistent or await broker.exists(topic):
        await existing_topic(broker, request)
        await broker.deletion.topic(topic, flag_of(request, "force"))
    return Response(status=204)  # others are gone as soon as nobody uses them


async def delete_partitioned(site: Site, request: Request) -> Response:
    """Delete a partitioned topic with its partitions; `force` as before."""
    broker, topic = serving(site), topic_of(request)
    _check_base(topic)
    await existing_namespace(broker, request)
    await broker.deletion.partitioned(topic, flag_of(request, "force"))
    return Response(status=204)


async def unload(site: Site, request: Request) -> Response:
    """Close a topic, or all partitions of it; clients come back by themselves."""
    broker, topic = serving(site), await existing_topic(serving(site), request)
    for part in await partitions_of(broker, topic):
        await broker.topics.unload(part)
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
    yield Route("GET", f"/admin/v2/namespaces/{NAMESPACE}/topics", topics_of_namespace)
    path = f"/admin/v2/{DOMAIN}/{NAMESPACE}"
    yield Route("GET", path, topics)
    yield Route("GET", f"{path}/partitioned", partitioned_topics)
    path = f"/admin/v2/{TOPIC}"
    yield Route("PUT", path, create)
    yield Route("DELETE", path, delete)
    yield Route("PUT", f"{path}/unload", unload)
    yield Route("GET", f"{path}/partitions", partitions)
    yield Route("PUT", f"{path}/partitions", create_partitioned)
    yield Route("POST", f"{path}/partitions", grow)
    yield Route("DELETE", f"{path}/partitions", delete_partitioned)
    yield Route("POST", f"{path}/createMissedPartitions", create_missed_partitions)
