"""Clients that ask faster than they are answered, or than they read the answers."""

from typing import Any

import pytest

from fakes.sessions import Client, SessionWorld, close_producer, produce
from magnetar_broker.session.session import MAX_REQUESTS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from raw_client import send_frame

MANY = MAX_REQUESTS * 5 // 2


def asks(first: int, stop: int) -> list[Any]:
    """Requests that are answered in a later turn."""
    return [
        pb.CommandPartitionedTopicMetadata(topic="persistent://public/default/t", request_id=number)
        for number in range(first, stop)
    ]


def numbers(answers: list[Any]) -> list[int]:
    return [answer.request_id for answer in answers]


def held_client(world: SessionWorld) -> Client:
    """Asks for more at a time than is worked on."""
    client = world.client()
    client.send(*asks(0, MANY))
    return client


def test_as_many_as_are_worked_on_do_not_stop_the_reading() -> None:
    client = SessionWorld().client()
    client.send(*asks(0, MAX_REQUESTS))
    assert client.reading
    assert numbers(client.received()) == list(range(MAX_REQUESTS))


def test_more_wait_and_are_all_answered_in_their_order() -> None:
    client = held_client(SessionWorld())
    assert not client.reading
    assert numbers(client.received()) == list(range(MANY))
    assert client.reading
    client.send(*asks(MANY, MANY + 3))
    assert numbers(client.received()) == [MANY, MANY + 1, MANY + 2]


def test_what_still_arrives_waits_behind_what_waits() -> None:
    client = held_client(SessionWorld())
    client.send(*asks(MANY, MANY + 10))
    assert numbers(client.received()) == list(range(MANY + 10))
    assert client.reading


def test_a_client_that_reads_no_answers_gets_no_more_of_them() -> None:
    world = SessionWorld()
    client = held_client(world)
    client.session.wrote(peer_full=True)
    assert numbers(client.received()) == list(range(MAX_REQUESTS))
    assert client.received() == []
    assert not client.reading
    client.session.wrote(peer_full=False)
    assert numbers(client.received()) == list(range(MAX_REQUESTS, MANY))
    assert client.reading


def test_other_clients_are_answered_meanwhile() -> None:
    world = SessionWorld()
    slow, other = held_client(world), world.client()
    slow.session.wrote(peer_full=True)
    assert numbers([other.ask(asks(7, 8)[0])]) == [7]


def test_messages_and_commands_behind_them_keep_their_place() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    questions = b"".join(map(encode, asks(2, MANY)))
    client.send_bytes(questions + send_frame(0, b"a") + encode(close_producer(MANY)))
    received = client.received()
    assert numbers(received[: MANY - 2]) == list(range(2, MANY))
    assert {type(answer) for answer in received[MANY - 2 :]} == {
        pb.CommandSendReceipt,
        pb.CommandSuccess,
    }
    assert world.topic().log.end == 1


def test_a_client_whose_requests_wait_is_not_taken_for_dead() -> None:
    world = SessionWorld()
    client = held_client(world)
    for _ in range(3):
        client.session.tick()
    assert world.do(client.session.is_alive())
    assert not client.closed
    assert numbers(client.received()) == list(range(MANY))


def test_a_pause_of_reading_is_no_answer_to_a_probe() -> None:
    world = SessionWorld()
    client = world.client()
    alive = world.begin(client.session.is_alive())
    client.session.wrote(peer_full=True)
    client.session.wrote(peer_full=False)
    assert not alive.done()
    world.clock.advance(world.broker.settings.connection_liveness_check_timeout_millis / 1000)
    assert alive.result() is False


def test_a_client_that_does_not_read_is_given_up() -> None:
    client = held_client(SessionWorld())
    client.session.wrote(peer_full=True)
    for _ in range(2):
        assert not client.closed
        client.session.tick()
    client.session.tick()
    assert client.closed


@pytest.mark.parametrize("garbage", [bytes(8), encode(pb.CommandSuccess(request_id=1))])
def test_what_breaks_the_protocol_does_so_when_its_turn_comes(garbage: bytes) -> None:
    client = SessionWorld().client()
    client.send_bytes(b"".join(map(encode, asks(0, MANY))) + garbage)
    assert not client.closed
    # Those that were being worked on as the connection ended may go unanswered or not.
    assert numbers(client.received())[: MANY - MAX_REQUESTS] == list(range(MANY - MAX_REQUESTS))
    assert client.closed


def test_what_waits_is_forgotten_with_the_connection() -> None:
    client = held_client(SessionWorld())
    client.session.lost()
    assert len(client.received()) <= MAX_REQUESTS
