"""PRODUCER and CLOSE_PRODUCER, as a client's connection sees them."""

from typing import Any

import pytest

from fakes.sessions import TOPIC, SessionWorld, by_request, close_producer, produce
from magnetar_broker.session.session import RECENTLY_CLOSED_SECONDS
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import refused, send_frame

# Opening --------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_producer_closed_while_it_was_created_leaves_its_id_to_the_next(epoch: int) -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(produce(1, producer_name="p"))
    client.send(
        produce(1, producer_name="p"),
        close_producer(2),
        produce(3, producer_name="p", epoch=epoch),
    )
    received = client.received()
    holder.session.lost()
    answers = by_request(received + client.received())
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert isinstance(answers[3], pb.CommandProducerSuccess)
    client.send_bytes(send_frame(0, b"a"))
    (receipt,) = client.received()
    assert isinstance(receipt, pb.CommandSendReceipt)
    assert len(world.topic().producers) == 1


def test_a_producer_closed_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    world.store.is_failing = True  # a producer has to wait until the topic can be written
    gate = world.store.create_gate = world.clock.promise()
    client = world.client()
    client.send(produce(1, producer_name="p"), close_producer(2))
    received = client.received()
    gate.set_result(None)
    answers = by_request(received + client.received())
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert len(world.topic().producers) == 0


def test_a_close_does_not_overtake_the_producer_that_it_closes() -> None:
    world = SessionWorld()
    client = world.client()
    client.send(produce(1), close_producer(2))
    assert [answer.request_id for answer in client.received()] == [1, 2]
    assert len(world.topic().producers) == 0


def test_a_producer_whose_connection_went_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    world.store.is_failing = True  # a producer has to wait until the topic can be written
    gate = world.store.create_gate = world.clock.promise()
    client = world.client()
    client.send(produce(1, producer_name="p"))
    world.clock.pump()
    client.session.lost()
    gate.set_result(None)
    world.clock.pump()
    assert len(world.topic().producers) == 0


def test_asking_again_for_a_producer() -> None:
    world = SessionWorld()
    world.store.is_failing = True  # a producer has to wait until the topic can be written
    gate = world.store.create_gate = world.clock.promise()
    client = world.client()
    client.send(produce(1), produce(2, epoch=5))
    (answer,) = client.received()
    assert answer.request_id == 2
    refused(answer, pb.ServiceNotReady, "wait")
    gate.set_result(None)
    (answer,) = client.received()
    assert (answer.request_id, answer.producer_ready) == (1, True)
    again = client.ask(produce(3))
    assert again.producer_name == answer.producer_name


# Replacing ------------------------------------------------------------------------------

ELSEWHERE = "persistent://public/default/elsewhere"


@pytest.mark.parametrize("fields", [{"producer_name": "new"}, {"topic": ELSEWHERE}], ids=str)
def test_a_producer_that_comes_back_as_another_leaves_nothing_behind(fields: Any) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1, producer_name="old"))
    first = world.topic()
    answer = client.ask(produce(2, epoch=1, **{"producer_name": "old", **fields}))
    assert isinstance(answer, pb.CommandProducerSuccess)
    assert isinstance(
        world.client().ask(produce(1, producer_name="old")), pb.CommandProducerSuccess
    )
    client.session.lost()
    assert sum(len(topic.producers) for topic in world.broker.topics) == 1
    assert [p.connection.address for p in first.producers] == ["10.0.0.2:4711"]


def test_a_producer_that_cannot_be_replaced_is_gone_all_the_same() -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(produce(1, producer_name="taken"))
    client.ask(produce(1, producer_name="old"))
    client.send(produce(2, producer_name="taken", epoch=1))
    (ping,) = holder.received()
    assert isinstance(ping, pb.CommandPing)
    holder.send(pb.CommandPong())
    (answer,) = client.received()
    refused(answer, pb.ProducerBusy, "taken")
    assert [p.name for p in world.topic().producers] == ["taken"]
    assert isinstance(client.ask(produce(3, producer_name="old")), pb.CommandProducerSuccess)


# What is looked at first ----------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "schema": {"schema": pb.Schema(name="s", type=pb.Schema.String, schema_data=b"text")},
    "initial subscription": {"initial_subscription_name": "sub"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("topic", [TOPIC, TOPIC.replace("persistent", "non-persistent")])
def test_a_full_topic_refuses_before_anything_is_made(topic: str, wrong: dict[str, Any]) -> None:
    world = SessionWorld(max_producers_per_topic=1)
    world.client().ask(produce(1, topic=topic))
    answer = world.client().ask(produce(1, topic=topic, **wrong))
    refused(answer, pb.ProducerBusy, "maxProducersPerTopic")
    (loaded,) = world.broker.topics
    assert loaded.subscriptions == {}


def test_a_replacing_producer_needs_no_room_of_its_own() -> None:
    world = SessionWorld(max_producers_per_topic=1)
    client = world.client()
    client.ask(produce(1, producer_name="p"))
    again = client.ask(produce(2, producer_name="p", epoch=1))
    assert isinstance(again, pb.CommandProducerSuccess)
    other = world.client()
    other.send(produce(1, producer_name="p"))
    client.session.lost()
    (answer,) = other.received()
    assert isinstance(answer, pb.CommandProducerSuccess)
    assert len(world.topic().producers) == 1


# Closed by the broker -------------------------------------------------------------------


def test_messages_sent_before_the_client_learns_that_its_producer_is_closed_are_ignored() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    client.session.close_producer(1)
    world.clock.advance(RECENTLY_CLOSED_SECONDS - 1)
    client.send_bytes(send_frame(0, b"a"))
    assert not client.closed
    world.clock.advance(2)
    client.send_bytes(send_frame(1, b"b"))
    assert client.closed


def test_the_time_begins_again_when_the_producer_was_opened_and_closed_again() -> None:
    world = SessionWorld()
    client = world.client()
    for request_id in (1, 2):
        client.send(produce(request_id))
        answer = client.received()[-1]
        assert isinstance(answer, pb.CommandProducerSuccess)
        client.session.close_producer(1)
        world.clock.advance(RECENTLY_CLOSED_SECONDS - 1)
    client.send_bytes(send_frame(0, b"a"))
    assert not client.closed
    world.clock.advance(2)
    client.send_bytes(send_frame(1, b"b"))
    assert client.closed
