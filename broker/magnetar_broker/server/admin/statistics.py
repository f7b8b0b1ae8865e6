"""Statistics of topics, and why a subscription delivers nothing."""

import base64
import binascii
from typing import Any

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.brokers.active_brokers import processes_of
from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_namespace,
    existing_topic,
    serving,
    subscription_of,
    topic_in,
    topic_of,
)
from magnetar_broker.server.admin.operations import statistics as operations
from magnetar_broker.server.admin.partition_sums import joined_stats
from magnetar_broker.server.admin.refusals import no_subscription, no_topic
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName

MAX_KEY_BYTES = 64 << 10


async def stats(context: AdminContext, request: Request) -> Response:
    """Return the statistics of a topic, or of one partition."""
    topic = await _single(context, request, "partitioned-stats")
    (found,) = await _stats_of(context, request, [topic])
    return json_response(found)


async def partitioned_stats(context: AdminContext, request: Request) -> Response:
    """Return the sums over all partitions; with `perPartition`, also the figures of each."""
    topic, parts = await _partitioned(context, request)
    found = await _stats_of(context, request, parts)
    each = (
        dict(zip(map(str, parts), found, strict=True))
        if _is_on(request.query.get("perPartition"))
        else {}
    )
    joined = joined_stats(found)
    partitioned = await serving(context).catalogue.partitioned(topic)
    if partitioned is not None and partitioned.created_ms:
        joined["topicCreationTimeStamp"] = partitioned.created_ms  # partitions come with their use
    return json_response(joined | {"metadata": await _metadata(context, topic), "partitions": each})


async def _stats_of(
    context: AdminContext, request: Request, topics: list[TopicName]
) -> list[dict[str, Any]]:
    wanted = (
        _is_on(request.query.get("subscriptionBacklogSize")),
        request.flag("getEarliestTimeInBacklog"),
        not request.flag("excludePublishers"),
        not request.flag("excludeConsumers"),
    )
    owners = await _owners(serving(context), request, topics)
    return [
        await context.owners.ask(operations.stats, topic, *wanted) | {"ownerBroker": owner}
        for topic, owner in zip(topics, owners, strict=True)
    ]


async def _owners(directory: Directory, request: Request, topics: list[TopicName]) -> list[str]:
    """Return the ids, as brokers, of the processes that serve topics of one namespace."""
    namespace = topics[0].namespace_name
    bundles = await directory.bundles.stored.of(namespace)
    owners = await directory.ownership.owners_of(namespace, bundles)
    ids = {name: broker for broker, name in processes_of(directory, request).items()}
    return [ids.get(owners[bundles.index_of(topic)], "") for topic in topics]


async def internal(context: AdminContext, request: Request) -> Response:
    """Return the ledgers and cursors of a topic, or of one partition."""
    topic = await _single(context, request, "partitioned-internalStats")
    found = await context.owners.ask(operations.internal, topic, request.flag("metadata"))
    if found is None:
        raise no_topic(topic)
    return json_response(found)


async def partitioned_internal(context: AdminContext, request: Request) -> Response:
    """Return the ledgers and cursors of each partition."""
    topic, parts = await _partitioned(context, request)
    metadata, ask = request.flag("metadata"), context.owners.ask
    found = {str(part): await ask(operations.internal, part, metadata) for part in parts}
    used = {name: one for name, one in found.items() if one is not None}
    return json_response({"metadata": await _metadata(context, topic), "partitions": used})


async def info(context: AdminContext, request: Request) -> Response:
    """Return the stored record of a topic, or of each partition of it."""
    directory, topic = serving(context), await _persistent(context, request)
    parts, ask = await directory.parts(topic), context.owners.ask
    if parts == [topic]:
        return json_response(await ask(operations.info, topic))
    found = {str(part): await ask(operations.info, part) for part in parts}
    return json_response({"version": 0, "partitions": found})


# The topic of a request --------------------------------------------------------------------


async def _single(context: AdminContext, request: Request, instead: str) -> TopicName:
    """Return a topic that is not partitioned; 404 for any other, as in Pulsar."""
    directory, topic = await topic_in(context, request)
    if topic.partition < 0 and await directory.catalogue.partitions(topic):
        raise Refused(404, f"{topic} is partitioned: ask for its {instead}, or name a partition")
    return topic


async def _partitioned(
    context: AdminContext, request: Request
) -> tuple[TopicName, list[TopicName]]:
    directory = serving(context)
    await existing_namespace(directory, request)
    topic = topic_of(request)
    if topic.partition >= 0 or not await directory.catalogue.partitions(topic):
        raise Refused(
            404,
            f"there is no partitioned topic {topic}: check the name, or use `stats` if the topic "
            "has no partitions",
        )
    return topic, await directory.parts(topic)


async def _persistent(context: AdminContext, request: Request) -> TopicName:
    topic = topic_of(request)
    if not topic.is_persistent:
        raise Refused(405, f"{topic} is not persistent: it stores no messages")
    return await existing_topic(serving(context), request)


async def _metadata(context: AdminContext, topic: TopicName) -> dict[str, Any]:
    found = await serving(context).catalogue.partitioned(topic)
    if found is None:
        raise no_topic(topic)
    properties = {"properties": found.properties} if found.properties else {}
    return {"partitions": found.partitions, "deleted": False, **properties}


def _is_on(value: str | None) -> bool:
    """Return whether a parameter of the query is not `false`."""
    return value is None or value.lower() != "false"


# Subscriptions ------------------------------------------------------------------------------


async def why(context: AdminContext, request: Request) -> Response:
    """Return the reason why a subscription delivers nothing, for each partition of its topic."""
    found = await _of_each(context, request, operations.why)
    return json_response(found)


async def key_hash(context: AdminContext, request: Request) -> Response:
    """Return the hash of a key, and the consumer that gets its messages."""
    key = _key(request)
    return json_response(await _of_each(context, request, operations.key_hash, key))


async def draining(context: AdminContext, request: Request) -> Response:
    """Return the draining hashes of a Key_Shared subscription, with the messages that hold them."""
    topic = await _persistent(context, request)
    if topic.partition < 0 and await serving(context).catalogue.partitions(topic):
        raise Refused(405, f"{topic} is partitioned: ask for draining hashes of each partition")
    name = subscription_of(request)
    return json_response(await context.owners.ask(operations.draining, topic, name))


async def _of_each(
    context: AdminContext, request: Request, operation: Any, *args: object
) -> dict[str, Any]:
    """Return an operation's results for a topic, or for its partitions, by name."""
    directory, topic = serving(context), await _persistent(context, request)
    parts, name = await directory.parts(topic), subscription_of(request)
    found = {str(part): await context.owners.ask(operation, part, name, *args) for part in parts}
    present = {part: one for part, one in found.items() if one is not None}
    if not present:
        raise no_subscription(name, topic)
    return {"partitions": present} if parts != [topic] else present[str(topic)]


def _key(request: Request) -> bytes:
    if "keyBase64" in request.query:
        try:
            key = base64.b64decode(request.query["keyBase64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refused(
                412, f"keyBase64 is {request.query['keyBase64'][:100]!r}: expected Base64"
            ) from error
    elif "key" in request.query:
        key = request.query["key"].encode()
    else:
        raise Refused(412, "key is missing: expected it in the query, or its bytes as keyBase64")
    if len(key) > MAX_KEY_BYTES:
        raise Refused(412, f"the key has {len(key)} bytes: expected at most {MAX_KEY_BYTES}")
    return key
