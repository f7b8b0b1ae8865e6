"""END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION: a coordinator ends a transaction here."""

from typing import Any

from magnetar_broker.base.errors import TopicNotFound
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.session.refusals import refusal_of
from magnetar_broker.session.session import Session
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName


async def on_end_on_partition(session: Session, command: pb.CommandEndTxnOnPartition) -> None:
    """Commit or abort what a transaction has published; a topic that is missing has nothing."""
    answer = pb.CommandEndTxnOnPartitionResponse(**_ids(command))
    try:
        topic = await _topic(session, command.topic)
        if topic is not None:
            await topic.end_transaction(*_end(command))
    except Exception as error:
        _refuse(answer, error)
    session.reply(answer)


async def on_end_on_subscription(session: Session, command: pb.CommandEndTxnOnSubscription) -> None:
    """Commit or abort what a transaction has acknowledged; a missing subscription has nothing."""
    answer = pb.CommandEndTxnOnSubscriptionResponse(**_ids(command))
    try:
        topic = await _topic(session, command.subscription.topic)
        subscription = topic and topic.subscriptions.get(command.subscription.subscription)
        if subscription is not None:
            await subscription.end_transaction(*_end(command))
    except Exception as error:
        _refuse(answer, error)
    session.reply(answer)


async def _topic(session: Session, name: str) -> Topic | None:
    """Return the topic, loaded; None if it does not exist or stores nothing."""
    try:
        topic = await session.broker.topic(TopicName.parse(name), create=False)
    except TopicNotFound:
        return None
    return topic if isinstance(topic, Topic) else None


def _ids(command: Any) -> dict[str, Any]:
    return {
        "request_id": command.request_id,
        "txnid_least_bits": command.txnid_least_bits,
        "txnid_most_bits": command.txnid_most_bits,
    }


def _end(command: Any) -> tuple[TxnId, Outcome, int]:
    has_low = command.HasField("txnid_least_bits_of_low_watermark")
    return (
        TxnId(command.txnid_most_bits, command.txnid_least_bits),
        Outcome(command.txn_action),
        command.txnid_least_bits_of_low_watermark if has_low else -1,
    )


def _refuse(answer: Any, error: Exception) -> None:
    """Put the refusal for an error into an answer; a defect is raised again."""
    refusal = refusal_of(error)
    answer.error, answer.message = refusal.code, str(refusal)
