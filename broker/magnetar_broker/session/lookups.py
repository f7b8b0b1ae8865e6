"""PARTITIONED_METADATA and LOOKUP."""

from functools import lru_cache
from urllib.parse import urlsplit

from magnetar_broker.errors import BrokerError, MetadataTrouble, as_refusal
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError


def _refusal_of(error: Exception) -> BrokerError:
    """In lookups, trouble with storage is trouble with metadata; defects pass through."""
    if isinstance(error, StorageError):
        return MetadataTrouble(str(error))
    refusal = as_refusal(error)
    if refusal is None:
        raise error
    return refusal


async def on_partitioned_metadata(
    session: Session, command: pb.CommandPartitionedTopicMetadata
) -> None:
    """How many partitions a topic has; 0 when it has none."""
    answer = pb.CommandPartitionedTopicMetadataResponse(request_id=command.request_id)
    try:
        with session.broker.lookup():
            topic = TopicName.parse(command.topic)
            create = command.metadata_auto_creation_enabled
            answer.partitions = await session.broker.partitions(topic, create)
        answer.response = pb.CommandPartitionedTopicMetadataResponse.Success
    except Exception as error:
        refusal = _refusal_of(error)
        answer.response = pb.CommandPartitionedTopicMetadataResponse.Failed
        answer.error, answer.message = refusal.code, str(refusal)
    session.reply(answer)


async def on_lookup(session: Session, command: pb.CommandLookupTopic) -> None:
    """Which broker serves a topic; whether the topic exists does not matter here."""
    answer = pb.CommandLookupTopicResponse(request_id=command.request_id)
    try:
        with session.broker.lookup():
            topic = TopicName.parse(command.topic)
            await session.broker.namespaces.require(topic.namespace_name)
            owner = await session.broker.ownership.locate(topic, command.authoritative)
        answer.brokerServiceUrl = owner.service_url
        answer.authoritative = True
        # A loopback address may mean another machine to the client: it had better stay here.
        answer.proxy_through_service_url = owner.is_self and _is_loopback(owner.service_url)
        answer.response = (
            pb.CommandLookupTopicResponse.Connect
            if owner.is_self
            else pb.CommandLookupTopicResponse.Redirect
        )
    except Exception as error:
        refusal = _refusal_of(error)
        answer.response = pb.CommandLookupTopicResponse.Failed
        answer.error, answer.message = refusal.code, str(refusal)
    session.reply(answer)


@lru_cache(maxsize=16)
def _is_loopback(service_url: str) -> bool:
    host = urlsplit(service_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
