"""PARTITIONED_METADATA and LOOKUP."""

from functools import lru_cache
from urllib.parse import urlsplit

from magnetar_broker.base.errors import BrokerError, MetadataError, NotReady
from magnetar_broker.config.listeners import over_tls
from magnetar_broker.session.refusals import refusal_of
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName


async def on_partitioned_metadata(
    session: Session, command: pb.CommandPartitionedTopicMetadata
) -> None:
    """Answer with a topic's number of partitions; 0 if it is not partitioned."""
    answer = pb.CommandPartitionedTopicMetadataResponse(request_id=command.request_id)
    try:
        with session.broker.names.lookup():
            topic = TopicName.parse(command.topic)
            create = command.metadata_auto_creation_enabled
            answer.partitions = await session.broker.names.partitions(topic, create)
        answer.response = pb.CommandPartitionedTopicMetadataResponse.Success
    except Exception as error:
        refuse_partitioned_metadata(session, command, error)
        return
    session.reply(answer)


def refuse_partitioned_metadata(
    session: Session, command: pb.CommandPartitionedTopicMetadata, error: Exception
) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    refusal = _refusal_of(error)
    session.reply(
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=command.request_id,
            response=pb.CommandPartitionedTopicMetadataResponse.Failed,
            error=refusal.code,
            message=str(refusal),
        )
    )


async def on_lookup(session: Session, command: pb.CommandLookupTopic) -> None:
    """Answer with the owner of a topic, which need not exist."""
    answer = pb.CommandLookupTopicResponse(request_id=command.request_id)
    counts = session.broker.lookups
    began_ms = counts.durations.begin()
    try:
        with session.broker.names.lookup():
            topic = TopicName.parse(command.topic)
            owner = await session.broker.names.locate(topic, command.authoritative)
        urls = owner.urls_of(command.advertised_listener_name)
        names_listener = urls != owner.default
        # Only its own broker can pass a client on to a process: it names it, when it is asked.
        # promise[without if owner.is_self else ""]: a client is sent to another broker, and not to
        #   a process of it
        process_url = owner.process_url if owner.is_self else ""
        # A client reaches a process through the address at which it asked for it.  So a client that
        # names a listener is sent to that listener's address first, to ask there.
        is_elsewhere = bool(process_url) and names_listener and not command.authoritative
        process = "" if is_elsewhere else process_url
        if urls.pulsar:
            answer.brokerServiceUrl = process or urls.pulsar
        if urls.pulsar_tls:
            answer.brokerServiceUrlTls = over_tls(process) or urls.pulsar_tls
        answer.authoritative = True
        # A loopback address may mean another machine to the client, which then stays where it is;
        # but one that named a listener is meant to use that listener's address.
        answer.proxy_through_service_url = bool(process) or (
            not names_listener and owner.is_self and _is_loopback(urls.pulsar or urls.pulsar_tls)
        )
        answer.response = (
            pb.CommandLookupTopicResponse.Connect
            if owner.is_self and not is_elsewhere
            else pb.CommandLookupTopicResponse.Redirect
        )
        if answer.response == pb.CommandLookupTopicResponse.Connect:
            counts.answered += 1
        else:
            counts.redirected += 1
    except Exception as error:
        refuse_lookup(session, command, error)
        return
    finally:
        counts.durations.end(began_ms)
    session.reply(answer)


def refuse_lookup(session: Session, command: pb.CommandLookupTopic, error: Exception) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    session.broker.lookups.failed += 1  # promise: lookups that fail are counted
    refusal = _refusal_of(error)
    session.reply(
        pb.CommandLookupTopicResponse(
            request_id=command.request_id,
            response=pb.CommandLookupTopicResponse.Failed,
            error=refusal.code,
            message=str(refusal),
        )
    )


def _refusal_of(error: Exception) -> BrokerError:
    """Return the refusal of a lookup for an error; a defect is raised again.

    At ServiceNotReady, which refuses other requests of what is to be tried again, clients close
    the connection, with all that they have open on it.
    """
    refusal = refusal_of(error, MetadataError)
    # promise[never]: a client keeps its connection when it looks up a topic that is moving
    if isinstance(refusal, NotReady):
        return MetadataError(str(refusal))
    return refusal


@lru_cache(maxsize=16)
def _is_loopback(service_url: str) -> bool:
    host = urlsplit(service_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
