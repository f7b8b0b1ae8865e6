"""SUBSCRIBE and what a consumer may ask, as a client's connection sees it."""

from typing import Any

import pytest

from fakes.sessions import (
    TOPIC,
    Client,
    SessionWorld,
    by_request,
    close_consumer,
    produce,
    subscribe,
)
from fakes.topics import EXCLUSIVE, SHARED, TYPES
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode_flow
from raw_client import refused, send_frame


def published(world: SessionWorld, *payloads: bytes, topic: str = TOPIC) -> None:
    """Somebody else publishes."""
    client = world.client()
    client.ask(produce(1, topic=topic))
    for sequence_id, payload in enumerate(payloads):
        client.say_bytes(send_frame(sequence_id, payload))
    assert len(client.heard()) == len(payloads)


def messages(client: Client, consumer_id: int = 1, permits: int = 10) -> int:
    """How many messages a consumer is given for its permits."""
    client.say_bytes(encode_flow(consumer_id, permits))
    heard = client.heard()
    return sum(isinstance(one, pb.CommandMessage) for one in heard)


# Opening --------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES, ids=pb.CommandSubscribe.SubType.Name)
def test_a_consumer_closed_while_it_was_created_leaves_its_id_to_the_next(sub_type: Any) -> None:
    world = SessionWorld()
    client = world.client()
    client.say(subscribe(1, subType=sub_type), close_consumer(2), subscribe(3, subType=sub_type))
    answers = by_request([a for a in client.heard() if hasattr(a, "request_id")])
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert isinstance(answers[3], pb.CommandSuccess)
    published(world, b"a")
    world.clock.advance(1)  # a Failover consumer hears nothing for so long
    assert messages(client) == 1
    assert len(world.topic().subscriptions["sub"].consumers) == 1


def test_a_consumer_closed_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    client = world.client()
    client.say(subscribe(1), close_consumer(2))
    answers = by_request(client.heard())
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert isinstance(world.client().ask(subscribe(1)), pb.CommandSuccess)


def test_a_consumer_whose_connection_went_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    client = world.client()
    client.say(subscribe(1))
    world.clock.step()
    client.session.lost()
    world.clock.pump()
    assert isinstance(world.client().ask(subscribe(1)), pb.CommandSuccess)


def test_asking_again_for_a_consumer() -> None:
    client = SessionWorld().client()
    client.say(subscribe(1), subscribe(2))
    answers = by_request(client.heard())
    refused(answers[2], pb.ServiceNotReady, "wait")
    assert isinstance(answers[1], pb.CommandSuccess)
    assert isinstance(client.ask(subscribe(3)), pb.CommandSuccess)


def test_an_id_that_was_refused_is_free() -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(subscribe(1, subType=SHARED))
    refused(client.ask(subscribe(1, subType=EXCLUSIVE)), pb.ConsumerBusy)
    assert isinstance(client.ask(subscribe(2, subType=SHARED)), pb.CommandSuccess)
