"""PRODUCER and CLOSE_PRODUCER."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from magnetar_broker.base.errors import BrokerError, MetadataError, NoRoom, NotReady
from magnetar_broker.base.wanted import Check
from magnetar_broker.expiry.quotas import admit_producer
from magnetar_broker.policies.table import ENCRYPTION_REQUIRED
from magnetar_broker.producers.access import Claim, Mode
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.session.schemas import sent_schema
from magnetar_broker.session.session import Session
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskLow

GIVES_UP_WITHOUT_ROOM = re.compile(r"Pulsar Go v?0\.(\d|1[0-8])\.")
"""The `client_version` of clients in Go before 0.19.

At ProducerBlockedQuotaExceededException their producers stop reconnecting, and each later send
times out.
"""


async def on_producer(session: Session, command: pb.CommandProducer) -> None:
    """Open a producer; a repeated request for one that is open succeeds again.

    A producer that has to wait gets two answers: now that it waits (`producer_ready` false), and
    another one when it becomes ready.
    """
    topic_name = TopicName.parse(command.topic)
    _check_metadata(session, command)
    producers = session.publishing.producers
    producer = producers.get(command.producer_id)
    # A higher epoch: the client reopens a producer that is still open here.
    if producer is None or producer.closed or producer.epoch < command.epoch:
        # The client has learned that the broker closed it: its messages count again from now on.
        closed = session.publishing.recently_closed.pop(command.producer_id, None)
        if closed is not None:
            closed.cancel()
        create = partial(_create, session, topic_name, command)
        with _refusals_for(session):
            producer = await producers.fill(command.producer_id, create)
        if producer.refusal is not None:
            # The producer began to wait, and its wait ended, before this continued.
            if producers.get(command.producer_id) is producer:
                producers.free(command.producer_id)
            raise producer.refusal
        if not producer.ready:
            producer.on_turn = partial(_answer_after_wait, session, command.request_id, producer)
        _succeed(session, command.request_id, producer)
    elif producer.ready:
        _succeed_again(session, command.request_id, producer)
    else:
        raise NotReady(
            f"producer {command.producer_id} is waiting for its turn: wait for that answer"
        )


@contextmanager
def _refusals_for(session: Session) -> Iterator[None]:
    """Turn a lack of room in the body into a refusal at which the client tries again."""
    try:
        yield
    except (DiskLow, NoRoom) as error:
        # promise: clients that give up for good without room are told to try again
        if GIVES_UP_WITHOUT_ROOM.match(session.client_version):
            raise NotReady(str(error)) from error
        raise


def _check_metadata(session: Session, command: pb.CommandProducer) -> None:
    """Refuse large properties: the broker keeps them as long as the producer."""
    limit = session.broker.settings.magnetar_max_producer_metadata_size
    size = sum(len(pair.key) + len(pair.value) for pair in command.metadata)
    if 0 < limit < size:
        raise MetadataError(
            f"the producer's properties have {size} characters, the limit is {limit} "
            "(magnetarMaxProducerMetadataSize): send fewer, or raise the limit"
        )


async def _create(
    session: Session, topic_name: TopicName, command: pb.CommandProducer, check: Check
) -> Producer:
    if topic_name.is_persistent:
        session.broker.engine.space.check()  # before the topic is loaded, which also needs room
    topic = await session.broker.topic(topic_name, True, check)
    name = command.producer_name or session.broker.producer_name()
    topic.producers.check_room(name)
    if isinstance(topic, Topic):
        await admit_producer(topic)  # promise: a full quota keeps new producers away
    if topic.policies.value(ENCRYPTION_REQUIRED, topic_name) and not command.encrypted:
        raise MetadataError(
            f"{topic_name} accepts encrypted messages only (encryptionRequired): encrypt them"
        )
    check()  # promise: no producer's schema is stored for a client that has left
    # Do this after all refusals that cost nothing: it may store a new schema version.
    version = await session.broker.names.producer_schema(topic_name, sent_schema(command))
    if command.initial_subscription_name:
        await topic.subscriptions.ensure(command.initial_subscription_name, check)
    # Sent by exclusive producers that reconnect: one is fenced if another one has had the topic
    # since it was open (PIP-68).
    epoch = command.topic_epoch if command.HasField("topic_epoch") else None
    return await topic.producers.add(
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
        check,
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
    """Answer for a producer that is already open; epoch and last sequence id are left out."""
    session.reply(
        pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=-1,
            schema_version=producer.schema_version,
            producer_ready=True,
        )
    )


def _answer_after_wait(
    session: Session, request_id: int, producer: Producer, refusal: BrokerError | None
) -> None:
    producers = session.publishing.producers
    if producers.get(producer.id) is not producer:
        return  # the client closed it, and may have opened another one under the id
    if refusal is None:
        _succeed(session, request_id, producer)
    else:
        producers.free(producer.id)
        session.refuse(request_id, refusal)


async def on_close_producer(session: Session, command: pb.CommandCloseProducer) -> None:
    """Close a producer; answered once everything that it sent is answered.

    A coroutine although it awaits nothing, so that it cannot overtake its PRODUCER.
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
