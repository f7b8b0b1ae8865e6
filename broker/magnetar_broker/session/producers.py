"""PRODUCER and CLOSE_PRODUCER."""

from magnetar_broker.errors import NotAllowed, NotReady, SchemaRefused
from magnetar_broker.producer import Producer
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName

ACCESS_MODE = pb.ProducerAccessMode


def refuse_schema(has_schema: bool, schema: pb.Schema) -> None:
    """Schemas are not kept yet: only none at all, and "whatever there is", can be honoured."""
    if has_schema and schema.type not in (pb.Schema.NoSchema, pb.Schema.AutoConsume):
        raise SchemaRefused(
            "schemas are not supported on this broker yet: use bytes, "
            "and encode and decode in the application"
        )


async def on_producer(session: Session, command: pb.CommandProducer) -> None:
    """Open a producer; asking again for one that is open answers again."""
    topic_name = TopicName.parse(command.topic)
    producer_id = command.producer_id
    producers = session.publishing.producers
    held = producers.get(producer_id)
    if held is not None and held.epoch >= command.epoch:
        _succeed(session, command.request_id, held)
        return
    if held is None and producer_id in producers:
        raise NotReady(f"producer {producer_id} is being created; wait for that answer")
    producers[producer_id] = None
    try:
        producer = await _create(session, topic_name, command)
    except BaseException:
        producers.pop(producer_id, None)
        raise
    if producers.get(producer_id, producer) is not None:  # closed while we waited
        producer.close()
        return
    producers[producer_id] = producer
    _succeed(session, command.request_id, producer)


async def _create(session: Session, topic_name: TopicName, command: pb.CommandProducer) -> Producer:
    if command.producer_access_mode != ACCESS_MODE.Value("Shared"):
        raise NotAllowed("only the Shared access mode is supported on this broker yet")
    topic = await session.broker.topic(topic_name, create=True)
    refuse_schema(command.HasField("schema"), command.schema)
    if command.initial_subscription_name:
        await topic.ensure_subscription(command.initial_subscription_name)
    name = command.producer_name or session.broker.producer_name()
    return await topic.add_producer(session, command.producer_id, name, command.epoch)


def _succeed(session: Session, request_id: int, producer: Producer) -> None:
    session.reply(
        pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=-1,
            schema_version=b"",
            producer_ready=True,
        )
    )


def on_close_producer(session: Session, command: pb.CommandCloseProducer) -> None:
    """Answered when everything the producer sent is answered."""
    producer = session.publishing.producers.pop(command.producer_id, None)
    answer = pb.CommandSuccess(request_id=command.request_id)
    if producer is None:
        session.reply(answer)
        return

    def leave() -> None:
        producer.close()
        session.reply(answer)

    producer.when_answered(leave)
