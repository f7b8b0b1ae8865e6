"""Termination of a topic: nothing more can be published, stored messages can still be read."""

from typing import Any

from magnetar_broker.server.admin.context import AdminContext, serving, topic_of
from magnetar_broker.server.admin.operations import topics
from magnetar_broker.server.admin.refusals import no_topic
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName


async def terminate(context: AdminContext, request: Request) -> Response:
    """Terminate a topic or a partition, durably; answers the id of its last message."""
    directory, name = serving(context), _persistent_of(request)
    if name.partition < 0 and await directory.catalogue.partitions(name):
        raise Refused(405, f"{name} is partitioned: use POST .../terminate/partitions")
    return json_response(await _terminated(context, name))


async def terminate_partitions(context: AdminContext, request: Request) -> Response:
    """Terminate all partitions of a topic; answers the id of the last message of each."""
    directory, name = serving(context), _persistent_of(request)
    parts = await directory.parts(name)
    if parts == [name]:
        raise Refused(405, f"{name} is not partitioned: use POST .../terminate")
    return json_response({str(part.partition): await _terminated(context, part) for part in parts})


async def _terminated(context: AdminContext, name: TopicName) -> dict[str, Any]:
    if not await context.directory.exists(name):
        raise no_topic(name)
    return await context.owners.ask(topics.terminate, name)


def _persistent_of(request: Request) -> TopicName:
    name = topic_of(request)
    if not name.is_persistent:
        raise Refused(406, f"{name} is not persistent: only persistent topics can be terminated")
    return name
