"""PRODUCER and CLOSE_PRODUCER."""

from functools import partial

from magnetar_broker.errors import BrokerError, MetadataTrouble, NotReady
from magnetar_broker.policies import ENCRYPTION_REQUIRED
from magnetar_broker.publishing.access import Claim, Mode
from magnetar_broker.publishing.producer import Producer, ProducerRequest
from magnetar_broker.session.schemas import sent_schema
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName


async def on_producer(session: Session, command: pb.CommandProducer) -> None:
    """Open a producer; asking again for one that is open answers again.

    One that has to wait is answered twice: that it waits, and when its turn has come.
    """
    topic_name = TopicName.parse(command.topic)
    producers = session.publishing.producers
    producer = producers.get(command.producer_id)
    if producer is None or producer.closed or producer.epoch < command.epoch:
        session.publishing.recently_closed.discard(command.producer_id)  # it knows
        create = partial(_create, session, topic_name, command)
        producer = await producers.fill(command.producer_id, create)
        if not producer.ready:
            producer.on_turn = partial(_turn_has_come, session, command.request_id, producer)
        _succeed(session, command.request_id, producer)
    elif producer.ready:
        _succeed_again(session, command.request_id, producer)
    else:
        raise NotReady(f"producer {command.producer_id} waits for its turn; wait for that answer")


async def _create(session: Session, topic_name: TopicName, command: pb.CommandProducer) -> Producer:
    topic = await session.broker.topic(topic_name, create=True)
    name = command.producer_name or session.broker.producer_name()
    topic.producers.check_room(name)
    await topic.check_quotas()
    if session.broker.policies.value(ENCRYPTION_REQUIRED, topic_name) and not command.encrypted:
        raise MetadataTrouble(f"{topic_name} takes encrypted messages only: encrypt them")
    version = await session.broker.schemas.for_producer(
        topic_name, sent_schema(command), topic.check_open
    )
    if command.initial_subscription_name:
        await topic.ensure_subscription(command.initial_subscription_name)
    epoch = command.topic_epoch if command.HasField("topic_epoch") else None
    return await topic.add_producer(
        session,
        ProducerRequest(
            command.producer_id,
            name,
            command.epoch,
            Claim(Mode(command.producer_access_mode), epoch),
            command.encrypted,
            {pair.key: pair.value for pair in command.metadata},
            version,
        ),
    )


def _succeed(session: Session, request_id: int, producer: Producer) -> None:
    session.reply(
        pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=producer.schema_version,
            producer_ready=producer.ready,
            topic_epoch=producer.topic_epoch,
        )
    )


def _succeed_again(session: Session, request_id: int, producer: Producer) -> None:
    """It is open already: neither its epoch nor its last message is told again."""
    session.reply(
        pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=-1,
            schema_version=producer.schema_version,
            producer_ready=True,
        )
    )


def _turn_has_come(
    session: Session, request_id: int, producer: Producer, refusal: BrokerError | None
) -> None:
    producers = session.publishing.producers
    if producers.get(producer.id) is not producer:
        return  # its client has closed it, and may have opened another one under the id
    if refusal is None:
        _succeed(session, request_id, producer)
    else:
        producers.free(producer.id)
        session.refuse(request_id, refusal)


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
