"""Compaction of a topic: start it, and read its status."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import AdminContext, serving, topic_of
from magnetar_broker.server.admin.operations.topics import compaction_status, start_compaction
from magnetar_broker.server.admin.refusals import no_topic
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName


async def compact(context: AdminContext, request: Request) -> None:
    """Start the compaction of a topic, or of all its partitions; 409 if it is already running."""
    directory, name = serving(context), topic_of(request)
    for part in await directory.parts(name):
        await _check(directory, part)
        await context.owners.ask(start_compaction, part)


async def status(context: AdminContext, request: Request) -> Response:
    """Return the status of the last compaction since the topic was loaded."""
    name = topic_of(request)
    await _check(serving(context), name)
    return json_response(await context.owners.ask(compaction_status, name))


async def _check(directory: Directory, name: TopicName) -> None:
    if not name.is_persistent:
        raise Refused(404, f"{name} is not persistent: only persistent topics can be compacted")
    if name.partition < 0 and await directory.catalogue.partitions(name):
        raise Refused(404, f"{name} is partitioned: name one of its partitions")
    if not await directory.exists(name):
        raise no_topic(name)
