"""How often a message was redelivered, as sent to clients."""

import pytest

from fakes.sessions import Client, SessionWorld, close_consumer, produce, subscribe
from fakes.topics import KEY_SHARED, SHARED
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.deliveries import encode_flow
from raw_client import send_frame


def with_messages(count: int, **settings: bool) -> SessionWorld:
    world = SessionWorld(**settings)
    client = world.client()
    client.ask(produce(1))
    for sequence_id in range(count):
        client.send_bytes(send_frame(sequence_id, b"x"))
    assert len(client.received()) == count
    return world


def counts(client: Client, permits: int = 10, sub_type: int = SHARED) -> list[int]:
    """Those of the messages that a new consumer is given."""
    client.ask(subscribe(1, subType=sub_type))
    client.send_bytes(encode_flow(1, permits))
    return [m.redelivery_count for m in client.received() if isinstance(m, pb.CommandMessage)]


def test_a_lost_connection_raises_no_count() -> None:
    world = with_messages(2)
    lost = world.client()
    assert counts(lost) == [0, 0]
    lost.session.lost()
    assert counts(world.client()) == [0, 0]


def test_a_lost_connection_raises_the_counts_of_what_it_held_if_that_is_wanted() -> None:
    world = with_messages(3, magnetar_count_lost_consumers_as_redelivery=True)
    for count in range(3):
        lost = world.client()
        assert counts(lost, permits=1) == [count]
        lost.session.lost()
    assert counts(world.client()) == [3, 0, 0]
    world.clock.advance(1)
    cursor = world.topic().subscriptions["sub"].cursor
    assert cursor.redelivered == {0: 3}


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_what_a_consumer_held_does_not_go_to_others_of_a_lost_connection(sub_type: int) -> None:
    world = with_messages(5, magnetar_count_lost_consumers_as_redelivery=True)
    lost = world.client()
    for number in (1, 2, 3):
        lost.ask(subscribe(number, number, subType=sub_type))
    for number in (1, 2, 3):
        lost.send_bytes(encode_flow(number, 10))
    assert len(lost.received()) == 5
    lost.session.lost()
    assert world.topic().totals()[2] == 5
    assert counts(world.client(), sub_type=sub_type) == [1] * 5


@pytest.mark.parametrize("politely", [True, False])
def test_a_consumer_that_closes_or_is_closed_did_not_fail(politely: bool) -> None:
    world = with_messages(1, magnetar_count_lost_consumers_as_redelivery=True)
    client = world.client()
    assert counts(client) == [0]
    if politely:
        client.ask(close_consumer(2))
    else:
        world.topic().subscriptions["sub"].consumers.disconnect()
    client.session.lost()
    assert counts(world.client()) == [0]
