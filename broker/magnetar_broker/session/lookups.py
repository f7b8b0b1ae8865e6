"""PARTITIONED_METADATA, LOOKUP and GET_TOPICS_OF_NAMESPACE."""

import re

from magnetar_broker.errors import BrokerError, MetadataTrouble, as_refusal
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import StorageError

Mode = pb.CommandGetTopicsOfNamespace.Mode


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


async def on_topics_of_namespace(session: Session, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Names of topics, filtered by a pattern if that is short enough to be applied here."""
    with session.broker.lookup():
        namespace = str(NamespaceName.parse(command.namespace))
        names = await session.broker.names(
            namespace,
            persistent=command.mode != Mode.NON_PERSISTENT,
            volatile=command.mode != Mode.PERSISTENT,
        )
    pattern = _usable_pattern(session, command.topics_pattern)
    if pattern is not None:
        names = [name for name in names if _matches(pattern, name)]
    digest = topics_hash(names)
    changed = not command.HasField("topics_hash") or command.topics_hash != digest
    session.reply(
        pb.CommandGetTopicsOfNamespaceResponse(
            request_id=command.request_id,
            topics=names if changed else [],
            filtered=pattern is not None,
            topics_hash=digest,
            changed=changed,
        )
    )


def _usable_pattern(session: Session, pattern: str) -> "re.Pattern[str] | None":
    """The pattern without its domain; None leaves the filtering to the client."""
    if not pattern or len(pattern) > session.broker.settings.subscription_pattern_max_length:
        return None
    try:
        return re.compile(pattern.split("://", 1)[-1])
    except re.error:
        return None  # a dialect that Python does not know: the client filters


def _matches(pattern: "re.Pattern[str]", name: str) -> bool:
    return pattern.fullmatch(str(TopicName.parse(name).base).split("://", 1)[1]) is not None
