"""Commands of features that are not built: each gets the answer of a Pulsar without them."""

from typing import Any

from magnetar_broker.errors import NotAllowed, SchemaRefused, TopicMissing
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb


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
    session.reply(
        pb.CommandGetSchemaResponse(
            request_id=command.request_id,
            error_code=TopicMissing.code,
            error_message="this topic has no schema: schemas are not supported on this broker yet",
        )
    )


def on_get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """As with schema auto-update switched off."""
    session.reply(
        pb.CommandGetOrCreateSchemaResponse(
            request_id=command.request_id,
            error_code=SchemaRefused.code,
            error_message="schemas are not supported on this broker yet: use bytes",
        )
    )
