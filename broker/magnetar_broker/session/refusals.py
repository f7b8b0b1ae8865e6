"""Commands of features that are not built: each gets the answer of a Pulsar without them."""

from typing import Any

from magnetar_broker.errors import NotAllowed
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
