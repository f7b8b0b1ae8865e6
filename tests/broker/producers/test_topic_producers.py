"""A topic's producers: coming, waiting, fencing, and the epoch that survives."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.sessions import TOPIC, SessionWorld, close_producer, produce
from fakes.topics import TopicWorld
from magnetar_broker.base.errors import BrokerError, NotReady, ProducerBusy, ProducerFenced
from magnetar_broker.config import Settings
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.table import ENCRYPTION_REQUIRED
from magnetar_broker.producers.access import SHARED, Claim, Mode
from magnetar_broker.producers.producer import Producer
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import Unavailable
from raw_client import refused, send_frame

EXCLUSIVE, WAITING, FENCING = Claim(Mode.EXCLUSIVE), Claim(Mode.WAITING), Claim(Mode.FENCING)


class Turn:
    """The answers that a waiting producer gets."""

    def __init__(self, producer: Producer) -> None:
        self.reported: list[BrokerError | None] = []
        producer.on_turn = self.reported.append


def names(world: TopicWorld) -> list[str]:
    return [producer.name for producer in world.topic.producers]


# Epochs ---------------------------------------------------------------------------------------


def test_the_epoch_survives_a_crash() -> None:
    world = TopicWorld()
    assert world.producer(name="shared").topic_epoch is None
    world.crash()
    for expected in range(3):
        assert world.producer(claim=EXCLUSIVE).topic_epoch == expected
        world.crash()
    with pytest.raises(ProducerFenced, match="its epoch is 2, not 1"):
        world.producer(claim=Claim(Mode.EXCLUSIVE, 1))
    assert world.producer(name="shared").topic_epoch == 2


def test_an_epoch_that_is_not_durable_is_nobodys() -> None:
    world = TopicWorld()
    holder = world.producer(name="holder")
    with world.failing_metadata(), pytest.raises(Unavailable):
        world.producer(name="fencing", claim=FENCING)
    assert names(world) == ["holder"] and not holder.closed
    assert world.topic.producers.epoch is None
    world.producer(name="another")
    assert world.producer(name="fencing", claim=FENCING).topic_epoch == 0
    assert holder.closed


def test_an_epoch_that_is_the_same_is_not_stored_again() -> None:
    world = TopicWorld()
    world.producer(claim=EXCLUSIVE).close()
    with world.failing_metadata():
        assert world.producer(claim=Claim(Mode.EXCLUSIVE, 0)).topic_epoch == 0


def test_an_epoch_that_no_topic_has_is_refused_and_poisons_nothing() -> None:
    world = SessionWorld()
    client = world.client()
    asked = asks(1, pb.Exclusive, topic_epoch=2**64 - 1)
    refused(client.ask(asked), pb.ProducerFenced, "its epoch is None")
    assert client.ask(asks(2, pb.Exclusive)).topic_epoch == 0


# Waiting --------------------------------------------------------------------------------------


def test_waiting_producers_get_their_turn() -> None:
    world = TopicWorld()
    holder = world.producer(name="holder", claim=EXCLUSIVE)
    first, second = (world.producer(name=name, claim=WAITING) for name in ("first", "second"))
    assert not first.ready and world.topic.producers.waiting == [first, second]
    turns = Turn(first), Turn(second)
    holder.close()
    world.clock.pump()
    assert first.ready and first.topic_epoch == 1 and names(world) == ["first"]
    first.close()
    world.clock.pump()
    assert [turn.reported for turn in turns] == [[None], [None]] and second.topic_epoch == 2


def test_a_turn_whose_epoch_cannot_be_stored_is_refused_and_the_next_one_comes() -> None:
    world = TopicWorld()
    holder = world.producer(name="holder", claim=EXCLUSIVE)
    first, second = (world.producer(name=name, claim=WAITING) for name in ("first", "second"))
    turns = Turn(first), Turn(second)
    with world.failing_metadata():
        holder.close()
        world.clock.pump()
    assert all(isinstance(turn.reported[0], BrokerError) for turn in turns)
    assert first.closed and second.closed and not names(world)
    assert world.producer(name="third").ready


def test_a_waiting_producer_is_closed_with_the_topic() -> None:
    world = TopicWorld()
    world.producer(name="holder", claim=EXCLUSIVE)
    waiting = world.producer(name="waiting", claim=WAITING)
    turn = Turn(waiting)
    world.do(world.topic.close())
    (refusal,) = turn.reported
    assert refusal is not None and refusal.code == pb.ServiceNotReady
    world.clock.pump()
    assert not names(world) and not world.topic.producers.waiting


def test_a_waiting_producer_counts_against_the_limit() -> None:
    world = TopicWorld(TopicLimits(max_producers=2))
    world.producer(name="holder", claim=EXCLUSIVE)
    world.producer(name="waiting", claim=WAITING)
    with pytest.raises(ProducerBusy, match="maxProducersPerTopic"):
        world.producer(name="more", claim=WAITING)


def test_a_turn_that_comes_while_another_one_fences() -> None:
    world = TopicWorld()
    holder = world.producer(name="holder", claim=EXCLUSIVE)
    waiting = world.producer(name="waiting", claim=WAITING)
    turn = Turn(waiting)
    holder.close()
    fencing = world.begin_producer(RecordingConnection(), name="fencing", claim=FENCING)
    world.clock.pump()
    assert fencing.result().ready and names(world) == ["fencing"]
    assert waiting.closed and world.topic.producers.epoch == (2 if turn.reported == [None] else 1)


# Fencing --------------------------------------------------------------------------------------


def test_a_fenced_producer_is_dropped_without_close_producer() -> None:
    world, client = TopicWorld(), RecordingConnection()
    holder = world.producer(client, name="holder")
    waiting = world.producer(name="waiting", claim=WAITING)
    turn = Turn(waiting)
    world.producer(name="fencing", claim=FENCING)
    assert holder.closed and (client.dropped_producers, client.closed_producers) == ([1], [])
    (refusal,) = turn.reported
    assert isinstance(refusal, ProducerFenced)
    world.clock.pump()
    assert names(world) == ["fencing"]


def test_what_a_fenced_producer_had_sent_is_stored_and_not_answered() -> None:
    world, client = TopicWorld(), RecordingConnection()
    holder = world.producer(client, name="holder")
    fencing = world.begin_producer(RecordingConnection(), name="fencing", claim=FENCING)
    world.send(holder, b"before")
    world.clock.pump()
    assert fencing.result().ready
    assert world.topic.log.end == 1 and holder.pending == 0


# A name whose holder is dead --------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.WAITING])
def test_its_own_dead_connection_is_in_nobodys_way(mode: Mode) -> None:
    world, dead = TopicWorld(), RecordingConnection()
    world.producer(dead, claim=EXCLUSIVE)
    dead.alive = False
    assert world.producer(claim=Claim(mode)).ready
    assert dead.closed_producers == [1]


def test_a_connection_of_another_name_is_not_asked() -> None:
    world, other = TopicWorld(), RecordingConnection()
    world.producer(other, name="other", claim=EXCLUSIVE)
    other.alive = False
    with pytest.raises(ProducerFenced):
        world.producer(claim=EXCLUSIVE)
    assert other.pings == 0


# Through a session ------------------------------------------------------------------------------


def asks(request_id: int, mode: "pb.ProducerAccessMode", **fields: Any) -> pb.CommandProducer:
    return produce(request_id, producer_access_mode=mode, **fields)


def test_a_waiting_producer_is_answered_twice() -> None:
    world = SessionWorld()
    a, b = world.client(), world.client()
    a.ask(asks(1, pb.Exclusive))
    waits = b.ask(asks(7, pb.WaitForExclusive, producer_name="b"))
    assert not waits.producer_ready and not waits.HasField("topic_epoch")
    refused(b.ask(asks(8, pb.WaitForExclusive)), pb.ServiceNotReady, "is waiting for its turn")
    a.send(close_producer(2))
    a.received()
    (ready,) = b.received()
    assert (ready.request_id, ready.producer_ready, ready.topic_epoch) == (7, True, 1)
    b.send_bytes(send_frame(0, b"a"))
    (receipt,) = b.received()
    assert isinstance(receipt, pb.CommandSendReceipt)


def test_a_refused_turn_frees_the_id() -> None:
    world = SessionWorld()
    a, b = world.client(), world.client()
    a.ask(asks(1, pb.Exclusive))
    b.ask(asks(1, pb.WaitForExclusive))
    a.ask(asks(2, pb.ExclusiveWithFencing, producer_id=2))
    (answer,) = b.received()
    refused(answer, pb.ProducerFenced, "taken over")
    assert not b.ask(asks(2, pb.WaitForExclusive)).producer_ready


def test_a_client_that_sends_before_its_turn_is_disconnected() -> None:
    world = SessionWorld()
    a, b = world.client(), world.client()
    a.ask(asks(1, pb.Exclusive))
    b.ask(asks(1, pb.WaitForExclusive))
    b.send_bytes(send_frame(0, b"a"))
    assert b.closed
    world.clock.pump()
    assert not world.topic().producers.waiting


def test_a_producer_that_was_closed_reopened_and_fenced_is_not_ignored() -> None:
    """The requests sent before the close was known have arrived: the producer is open again."""
    world = SessionWorld()
    client, other = world.client(), world.client()
    client.ask(produce(1))
    for producer in world.topic().producers:
        producer.disconnect()
    assert isinstance(client.received()[0], pb.CommandCloseProducer)
    client.send_bytes(send_frame(0, b"before it knew"))
    client.ask(produce(2))
    other.ask(asks(1, pb.ExclusiveWithFencing))
    assert not client.closed
    client.send_bytes(send_frame(0, b"fenced"))
    assert client.closed


# Encryption ---------------------------------------------------------------------------------


def encrypted(sequence_id: int) -> bytes:
    encrypted_metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=sequence_id, publish_time=1,
        encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")],
    )  # fmt: skip
    return send_frame(sequence_id, b"secret", own_metadata=encrypted_metadata)


def test_where_encryption_is_required_nothing_else_comes_in() -> None:
    world = SessionWorld(encryption_require_on_producer=True)
    client = world.client()
    refused(client.ask(produce(1)), pb.MetadataError, "encrypt")
    assert isinstance(
        client.ask(produce(2, producer_name="p", encrypted=True)), pb.CommandProducerSuccess
    )
    client.send_bytes(encrypted(0) + send_frame(1, b"plain") + encrypted(2))
    kinds = [type(answer) for answer in client.received()]
    assert kinds == [pb.CommandSendReceipt, pb.CommandSendError, pb.CommandSendReceipt]
    assert world.topic().log.end == 2
    client.send(close_producer(3))
    client.received()
    again = client.ask(produce(4, producer_name="p", encrypted=True))
    refused(again, pb.ProducerFenced, "encrypted messages only")  # C++ would send it for ever


def test_requiring_encryption_sends_plain_producers_away() -> None:
    world, plain, secret = TopicWorld(), RecordingConnection(), RecordingConnection()
    world.producer(plain, name="plain")
    kept = world.producer(secret, name="secret", encrypted=True)
    world.topic.producers.apply_rules(PublishRules(must_encrypt=True))
    assert (plain.closed_producers, secret.closed_producers) == ([1], [])
    assert kept.rules.must_encrypt
    world.topic.producers.apply_rules(PublishRules(must_encrypt=False))
    assert not kept.rules.must_encrypt


@pytest.mark.parametrize("claim", [SHARED, EXCLUSIVE, WAITING])
def test_rules_that_change_while_a_producer_is_opened_apply_to_it(claim: Claim) -> None:
    """It is neither ready nor waiting then."""
    world, dead, rules = TopicWorld(), RecordingConnection(), PublishRules(max_message_size=100)
    world.producer(dead, name="p")
    dead.alive, dead.answer = False, world.clock.promise()
    opening = world.begin_producer(RecordingConnection(), "p", claim=claim)
    assert not opening.done()
    world.topic.producers.apply_rules(rules)
    dead.answer.set_result(None)
    world.clock.pump()
    assert opening.result().ready and opening.result().rules == rules


@pytest.mark.parametrize("topic", [TOPIC, TOPIC.replace("persistent", "non-persistent")])
def test_a_waiting_producer_must_meet_requirements_set_meanwhile(topic: str) -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(asks(1, pb.Exclusive, topic=topic, encrypted=True))
    client.ask(asks(1, pb.WaitForExclusive, topic=topic, encrypted=True))
    namespace = world.topic().name.namespace_name
    world.do(world.directory.enforcement.set(namespace, {ENCRYPTION_REQUIRED: True}))
    holder.ask(close_producer(2))
    assert [answer.producer_ready for answer in client.received()] == [True]
    client.send_bytes(send_frame(0, b"plain"))
    (answer,) = client.received()
    assert isinstance(answer, pb.CommandSendError) and answer.error == pb.MetadataError


def test_a_producer_that_is_closed_while_it_is_added_does_not_join() -> None:
    """It would send, and never be answered."""
    world = TopicWorld(settings=Settings(broker_deduplication_enabled=True))
    world.send(world.producer(name="busy"), b"pending")
    opening = world.begin_producer(RecordingConnection(), "held up")
    assert not opening.done()
    world.topic.producers.apply_rules(PublishRules(must_encrypt=True))
    world.clock.pump()
    with pytest.raises(NotReady, match="closed while it was being opened"):
        opening.result()
    assert not names(world)


def test_a_turn_that_fails_leaves_the_next_producer_of_that_id_alone() -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(produce(1, producer_access_mode=pb.Exclusive))
    assert not client.ask(produce(1, producer_access_mode=pb.WaitForExclusive)).producer_ready
    put, gate = world.metadata.put, world.clock.promise()

    async def late(*asked: Any) -> Any:
        await gate
        return await put(*asked)

    world.metadata.put = late  # type: ignore[assignment]
    holder.ask(close_producer(2))  # the turn has come, but the epoch is not stored yet
    world.metadata.put = put  # type: ignore[method-assign]
    client.send(close_producer(2), produce(3, topic=TOPIC + "-2", producer_name="p"))
    assert [answer.request_id for answer in client.received()] == [2, 3]
    gate.set_result(None)
    assert not client.received()
    client.send_bytes(send_frame(0, b"a"))
    (receipt,) = client.received()
    assert isinstance(receipt, pb.CommandSendReceipt)
