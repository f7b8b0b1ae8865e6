"""PRODUCER and CLOSE_PRODUCER."""

from functools import partial

from magnetar_broker.errors import NotAllowed, SchemaRefused
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
    producers = session.publishing.producers
    producer = producers.get(command.producer_id)
    if producer is None or producer.closed or producer.epoch < command.epoch:
        create = partial(_create, session, topic_name, command)
        producer = await producers.fill(command.producer_id, create)
    _succeed(session, command.request_id, producer)


async def _create(session: Session, topic_name: TopicName, command: pb.CommandProducer) -> Producer:
    if command.producer_access_mode != ACCESS_MODE.Value("Shared"):
        raise NotAllowed("only the Shared access mode is supported on this broker yet")
    topic = await session.broker.topic(topic_name, create=True)
    name = command.producer_name or session.broker.producer_name()
    topic.producers.check_room(name)
    refuse_schema(command.HasField("schema"), command.schema)
    if command.initial_subscription_name:
        await topic.ensure_subscription(command.initial_subscription_name)
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


async def on_close_producer(session: Session, command: pb.CommandCloseProducer) -> None:
    """Answered when everything the producer sent is answered.

    A coroutine although it waits for nothing, so that it cannot overtake its PRODUCER.
    """
    producer = session.publishing.producers.free(command.producer_id)
    answer = pb.CommandSuccess(request_id=command.request_id)
    if producer is None:
        session.reply(answer)
        return

    def leave() -> None:
        producer.close()
        session.reply(answer)

    producer.when_answered(leave)
