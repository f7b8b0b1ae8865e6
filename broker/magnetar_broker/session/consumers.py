"""SUBSCRIBE, and the commands of an open consumer: redelivery, seek, unsubscribe, stats, close."""

from datetime import UTC, datetime
from functools import partial

from magnetar_broker.base.errors import (
    MetadataError,
    NotAllowed,
    ProducerBusy,
    UnknownError,
)
from magnetar_broker.base.wanted import Check
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.session.refusals import refusal_of, storage_errors_as
from magnetar_broker.session.schemas import is_idle, sent_schema, takes_any
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_proto.wire import MAX64
from magnetar_storage.errors import StorageError

SubType = pb.CommandSubscribe.SubType
RESERVED_PREFIX, RESERVED_NAME = "pulsar.repl", "pulsar.dedup"


async def on_subscribe(session: Session, command: pb.CommandSubscribe) -> None:
    """Open a consumer; a repeated request for one that is open succeeds again."""
    topic_name = TopicName.parse(command.topic)
    metadata_size = sum(len(pair.key) + len(pair.value) for pair in command.metadata)
    if metadata_size > session.broker.settings.max_consumer_metadata_size:
        raise MetadataError(
            f"the consumer's metadata has {metadata_size} characters, which exceeds "
            "maxConsumerMetadataSize: send less metadata"
        )
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None or consumer.closed:
        join = partial(_join, session, topic_name, command)
        await session.consumers.fill(command.consumer_id, join)
    session.reply(pb.CommandSuccess(request_id=command.request_id))


async def _join(
    session: Session, topic_name: TopicName, command: pb.CommandSubscribe, check: Check
) -> Consumer:
    topic = await session.broker.topic(topic_name, command.force_topic_creation, check)
    check()  # promise: no consumer's schema is stored for a client that has left
    request = _request_of(command)
    topic.subscriptions.check(request)  # before a schema is stored for a consumer without room
    schema = sent_schema(command)
    # AUTO_CONSUME is a wish to decode with whatever schema the topic has, so there is nothing to
    # compare, and it is never stored.
    if schema is not None and not takes_any(schema):
        await session.broker.names.check_consumer_schema(topic_name, schema, is_idle(topic))
    _check_type_and_name(session, topic_name, topic.limits, command)
    consumer = await topic.subscriptions.subscribe(session, request, check)
    consumer.takes_any_schema = takes_any(schema)
    return consumer


def _check_type_and_name(
    session: Session, topic: TopicName, limits: TopicLimits, command: pb.CommandSubscribe
) -> None:
    """Refuse types and names of subscriptions that are not allowed."""
    sub_type = SubType.Name(command.subType)
    # As in Pulsar, only the dispatcher with a single active consumer reads compacted data.
    if command.read_compacted and command.subType not in (SubType.Exclusive, SubType.Failover):
        raise NotAllowed("read_compacted needs an Exclusive or Failover subscription")
    if command.read_compacted and not topic.is_persistent:
        raise NotAllowed("read_compacted needs a persistent topic")
    limits.check_type(topic, sub_type)
    if (
        command.subType == SubType.Key_Shared
        and not session.broker.settings.subscription_key_shared_enable
    ):
        raise NotAllowed(
            "Key_Shared subscriptions are disabled on this broker "
            "(subscriptionKeySharedEnable=false): use another type"
        )
    name = command.subscription
    if not name or name.startswith(RESERVED_PREFIX) or name == RESERVED_NAME:
        raise ProducerBusy(
            f"{name!r} is empty or reserved, so it cannot name a subscription: choose another name"
        )


def _request_of(command: pb.CommandSubscribe) -> SubscribeRequest:
    start = None
    if command.HasField("start_message_id"):
        start = MessageId.from_pb(command.start_message_id)
    return SubscribeRequest(
        subscription=command.subscription,
        type=command.subType,
        consumer_id=command.consumer_id,
        consumer_name=command.consumer_name,
        priority=command.priority_level,
        epoch=command.consumer_epoch if command.HasField("consumer_epoch") else -1,
        durable=command.durable,
        earliest=command.initialPosition == pb.CommandSubscribe.Earliest,
        start=start,
        rollback_seconds=command.start_message_rollback_duration_sec,
        properties={pair.key: pair.value for pair in command.subscription_properties},
        key_shared=_key_shared_of(command),
        metadata={pair.key: pair.value for pair in command.metadata},
        read_compacted=command.read_compacted,
    )


def _key_shared_of(command: pb.CommandSubscribe) -> KeySharedMeta | None:
    if not command.HasField("keySharedMeta"):
        return None
    meta = command.keySharedMeta
    return KeySharedMeta(
        sticky=meta.keySharedMode == pb.STICKY,
        out_of_order=meta.allowOutOfOrderDelivery,
        ranges=tuple((chosen.start, chosen.end) for chosen in meta.hashRanges),
    )


def _consumer(session: Session, consumer_id: int) -> Consumer:
    consumer = session.consumers.get(consumer_id)
    if consumer is None:
        raise MetadataError(
            f"consumer {consumer_id} is not open on this connection; subscribe first"
        )
    return consumer


def on_redeliver(session: Session, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
    """Send unacknowledged messages again; the command has no other answer."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        return
    ids = [(MessageId.from_pb(m).ledger, MessageId.from_pb(m).entry) for m in command.message_ids]
    epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
    consumer.subscription.redeliver(consumer, ids, epoch)


async def on_seek(session: Session, command: pb.CommandSeek) -> None:
    """Move the cursor to a message or a time; the consumer is closed, and its client reconnects."""
    consumer = _consumer(session, command.consumer_id)
    if command.HasField("message_id"):
        position = command.message_id
        ack_set = tuple(word % (MAX64 + 1) for word in position.ack_set)
        with storage_errors_as(UnknownError):
            await consumer.subscription.seek_to_id(
                MessageId.from_pb(position), ack_set, session.check_open
            )
    elif command.HasField("message_publish_time"):
        with storage_errors_as(UnknownError):
            await consumer.subscription.seek_to_time(
                command.message_publish_time, session.check_open
            )
    else:
        raise MetadataError("SEEK has neither a message id nor a publish time: set one of them")
    session.reply(pb.CommandSuccess(request_id=command.request_id))


async def on_unsubscribe(session: Session, command: pb.CommandUnsubscribe) -> None:
    """Delete the subscription; if that fails its consumer is closed, and the client reconnects."""
    consumer_id = command.consumer_id
    consumer = _consumer(session, consumer_id)
    try:
        await consumer.subscription.unsubscribe(consumer, command.force)
    except StorageError as error:
        # The answer goes first: a client that still waits for it does not reconnect.
        session.refuse(command.request_id, refusal_of(error))
        if session.consumers.get(consumer_id) is consumer:
            session.close_consumer(consumer_id)
        return
    if session.consumers.get(consumer_id) is consumer:
        session.consumers.free(consumer_id)
    session.reply(pb.CommandSuccess(request_id=command.request_id))


async def on_last_message_id(session: Session, command: pb.CommandGetLastMessageId) -> None:
    """Answer with the id of the topic's last message, and the mark-delete position."""
    consumer = _consumer(session, command.consumer_id)
    with storage_errors_as(MetadataError):
        last = await consumer.subscription.last_message_id(consumer.compacted is not None)
    answer = pb.CommandGetLastMessageIdResponse(
        last_message_id=last.to_pb(), request_id=command.request_id
    )
    mark_delete = consumer.subscription.mark_delete_id()
    if mark_delete.ledger >= 0:
        answer.consumer_mark_delete_position.CopyFrom(mark_delete.to_pb())
    session.reply(answer)


async def on_consumer_stats(session: Session, command: pb.CommandConsumerStats) -> None:
    """Answer with a consumer's statistics."""
    answer = pb.CommandConsumerStatsResponse(request_id=command.request_id)
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        answer.error_code = pb.ConsumerNotFound
        answer.error_message = f"consumer {command.consumer_id} is not open on this connection"
    else:
        try:
            backlog = await consumer.subscription.backlog()
        except StorageError as error:
            refusal = refusal_of(error)
            answer.error_code, answer.error_message = refusal.code, str(refusal)
        else:
            answer.msgBacklog = backlog.messages
            _fill_in(answer, consumer)
    session.reply(answer)


def _fill_in(answer: pb.CommandConsumerStatsResponse, consumer: Consumer) -> None:
    answer.consumerName = consumer.name
    answer.availablePermits = max(consumer.permits, 0)
    answer.unackedMessages = consumer.unacked
    answer.blockedConsumerOnUnackedMsgs = consumer.blocked
    answer.address = consumer.connection.address
    since = datetime.fromtimestamp(consumer.connected_ms / 1000, UTC)
    answer.connectedSince = since.isoformat(timespec="milliseconds")
    answer.type = SubType.Name(SubType.ValueType(consumer.subscription.type))
    (
        answer.msgRateOut,
        answer.msgThroughputOut,
        answer.msgRateRedeliver,
        answer.messageAckRate,
        _,
    ) = consumer.meter.rates


async def on_close_consumer(session: Session, command: pb.CommandCloseConsumer) -> None:
    """Close a consumer; its acknowledgements are durable when answered.

    Its unacknowledged messages are redelivered to the other consumers.
    """
    consumer = session.consumers.free(command.consumer_id)
    if consumer is not None:
        consumer.close()
        with storage_errors_as(MetadataError):
            await consumer.subscription.settled()
    session.reply(pb.CommandSuccess(request_id=command.request_id))
