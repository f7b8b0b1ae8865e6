"""Lookups: the broker that serves a topic, and the topic's partitions."""

import re

from magnetar.base.errors import NotFound, NotReady, broker_error
from magnetar.base.schema_info import SchemaInfo
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName

MAX_REDIRECTS = 20


async def find_broker(pool: Pool, topic: str) -> Connection:
    """Return a connection to the broker that serves the topic now; the caller retries."""
    connection = await pool.service()
    authoritative = False
    for _ in range(MAX_REDIRECTS):
        lookup = pb.CommandLookupTopic(topic=topic, authoritative=authoritative)
        if pool.listener_name:
            lookup.advertised_listener_name = pool.listener_name
        reply: pb.CommandLookupTopicResponse = await connection.request(lookup)
        if reply.response == pb.CommandLookupTopicResponse.Failed:
            raise broker_error(reply.error, reply.message)
        proxy = connection.address if reply.proxy_through_service_url else None
        found = await pool.broker(reply.brokerServiceUrl, reply.brokerServiceUrlTls, proxy)
        if reply.response == pb.CommandLookupTopicResponse.Connect:
            return found
        connection, authoritative = found, reply.authoritative
    raise NotReady(pb.ServiceNotReady, f"{MAX_REDIRECTS} redirects in the lookup of {topic}")


async def find_partitions(pool: Pool, topic: str) -> list[str]:
    """Return the full names of the topic's partitions; its own name if it has none."""
    name = TopicName.parse(topic)
    if name.partition >= 0:
        return [str(name)]
    connection = await pool.service()
    reply: pb.CommandPartitionedTopicMetadataResponse = await connection.request(
        pb.CommandPartitionedTopicMetadata(topic=str(name))
    )
    if reply.response == pb.CommandPartitionedTopicMetadataResponse.Failed:
        raise broker_error(reply.error, reply.message)
    if reply.partitions == 0:
        return [str(name)]
    return [str(name.with_partition(index)) for index in range(reply.partitions)]


async def topic_exists(pool: Pool, topic: str) -> bool:
    """Tell whether a topic of this full name exists, partitioned or not; does not create it."""
    connection = await pool.service()
    reply: pb.CommandPartitionedTopicMetadataResponse = await connection.request(
        pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=False)
    )
    if reply.response != pb.CommandPartitionedTopicMetadataResponse.Failed:
        return True
    error = broker_error(reply.error, reply.message)
    if isinstance(error, NotFound):
        return False
    raise error


async def find_schema(pool: Pool, topic: str, version: bytes | None) -> SchemaInfo:
    """Return a version of the topic's schema, or the latest (None); NotFound if it has none."""
    connection = await pool.service()
    reply: pb.CommandGetSchemaResponse = await connection.request(
        pb.CommandGetSchema(topic=topic, schema_version=version)
    )
    if reply.HasField("error_code"):
        raise broker_error(reply.error_code, reply.error_message)
    return SchemaInfo.from_pb(reply.schema)


async def find_topics(pool: Pool, pattern: str) -> list[str]:
    """Return the names of the topics that match a pattern; see `Client.topics_matching`."""
    domain, namespace, expression = pattern_of(pattern)
    try:
        matches = re.compile(expression).fullmatch
    except re.error as error:
        raise ValueError(f"{expression!r} is not a regular expression: {error}") from error
    connection = await pool.service()
    reply: pb.CommandGetTopicsOfNamespaceResponse = await connection.request(
        pb.CommandGetTopicsOfNamespace(
            namespace=namespace,
            mode=pb.CommandGetTopicsOfNamespace.PERSISTENT
            if domain == "persistent"
            else pb.CommandGetTopicsOfNamespace.NON_PERSISTENT,
        )
    )
    start = f"{domain}://{namespace}/"
    names = {str(TopicName.parse(name).base) for name in reply.topics}
    return sorted(name for name in names if matches(name.removeprefix(start)))


def pattern_of(pattern: str) -> tuple[str, str, str]:
    """Return the domain, the namespace and the expression of a pattern."""
    domain, separator, rest = pattern.partition("://")
    if not separator:
        domain, rest = "persistent", pattern
    parts = rest.split("/", 2)
    if domain not in ("persistent", "non-persistent") or len(parts) == 2:
        raise ValueError(
            f"{pattern!r} is not a pattern of topics: it must look like tenant/namespace/EXPRESSION"
        )
    if len(parts) == 1:
        return domain, "public/default", parts[0]
    return domain, f"{parts[0]}/{parts[1]}", parts[2]
