"""Offloading of a topic's closed ledgers: start it, and read its status."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import AdminContext, serving, topic_of
from magnetar_broker.server.admin.messages.positions import ledger_and_entry_of
from magnetar_broker.server.admin.operations.topics import offload_status, start_offload
from magnetar_broker.server.admin.refusals import no_topic
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName


async def offload(context: AdminContext, request: Request) -> None:
    """Start to offload the ledgers before a message; 409 if that is running."""
    name = await _topic(serving(context), request)
    ledger, entry = ledger_and_entry_of(request)
    await context.owners.ask(start_offload, name, ledger, entry)


async def status(context: AdminContext, request: Request) -> Response:
    """Answer the status of the last offload that was asked for since the topic was loaded."""
    name = await _topic(serving(context), request)
    return json_response(await context.owners.ask(offload_status, name))


async def _topic(directory: Directory, request: Request) -> TopicName:
    """Return the persistent topic of the path, which exists and has no partitions; else 404."""
    name = topic_of(request)
    if not name.is_persistent:
        raise Refused(404, f"{name} is not persistent: only persistent topics can be offloaded")
    if name.partition < 0 and await directory.catalogue.partitions(name):
        raise Refused(404, f"{name} is partitioned: name one of its partitions")
    if not await directory.exists(name):
        raise no_topic(name)
    return name
