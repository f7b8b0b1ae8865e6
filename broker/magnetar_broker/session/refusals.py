"""Commands of features that are not built: each gets the answer of a Pulsar without them."""

from typing import Any

from magnetar_broker.errors import (
    BrokerError,
    InvalidName,
    NotAllowed,
    SchemaRefused,
    TopicMissing,
)
from magnetar_broker.session.producers import refuse_schema
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.names import TopicName


async def on_transaction(session: Session, command: Any) -> None:
    """As with transactionCoordinatorEnabled=false."""
    raise NotAllowed(
        "transactions are not supported on this broker (transactionCoordinatorEnabled)"
    )


async def on_watch_topics(session: Session, command: pb.CommandWatchTopicList) -> None:
    """As with the topic list watcher switched off; clients then poll."""
    raise NotAllowed("topic list watchers are not supported on this broker: list topics instead")


def on_watch_topics_close(session: Session, command: pb.CommandWatchTopicListClose) -> None:
    """Always a success."""
    session.reply(pb.CommandSuccess(request_id=command.request_id))


def on_get_schema(session: Session, command: pb.CommandGetSchema) -> None:
    """No topic has a schema."""
    refusal: BrokerError = TopicMissing(
        "this topic has no schema: schemas are not supported on this broker yet"
    )
    try:
        TopicName.parse(command.topic)
    except InvalidTopicName as error:
        refusal = InvalidName(str(error))
    if command.HasField("schema_version") and not command.schema_version:
        refusal = SchemaRefused("an empty schema version is none: leave it out for the latest")
    session.reply(
        pb.CommandGetSchemaResponse(
            request_id=command.request_id,
            error_code=refusal.code,
            error_message=str(refusal),
        )
    )


async def on_get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """Of none at all the version is empty; others as with schema auto-update switched off."""
    answer = pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id)
    try:
        await session.broker.topic(TopicName.parse(command.topic), create=False)
        refuse_schema(True, command.schema)
        answer.schema_version = b""
    except (BrokerError, InvalidTopicName) as error:
        refusal = error if isinstance(error, BrokerError) else InvalidName(str(error))
        answer.error_code, answer.error_message = refusal.code, str(refusal)
    session.reply(answer)
