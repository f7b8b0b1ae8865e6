"""What a session keeps of its input counts, and is given back."""

from fakes.sessions import SessionWorld
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.frames import SIZE

TOPIC = "persistent://public/default/topic"
PING = encode(pb.CommandPing())


def test_a_frame_counts_until_it_is_complete() -> None:
    world = SessionWorld()
    client = world.client()

    def used() -> int:
        return world.broker.receiving.used

    frame = encode(pb.CommandLookupTopic(topic=TOPIC * 100, request_id=1))
    client.send_bytes(frame[:100])
    assert used() == 100
    client.send_bytes(frame[100:200])
    assert used() == 200
    client.send_bytes(frame[200:] + frame[:3])
    assert used() == 3
    client.send_bytes(frame[3:])
    assert used() == 0


def test_what_a_view_of_a_read_keeps_counts_as_the_whole_read() -> None:
    world = SessionWorld()
    client = world.client()
    client.send_bytes(PING * 1000 + SIZE.pack(100_000) + bytes(5000))
    assert world.broker.receiving.used == len(PING) * 1000 + SIZE.size + 5000


def test_nothing_counts_of_a_client_that_has_left() -> None:
    world = SessionWorld()
    client = world.client()
    client.send_bytes(SIZE.pack(100_000) + bytes(5000))
    client.session.lost()
    assert world.broker.receiving.used == 0


def test_requests_that_wait_count_until_they_are_worked_on() -> None:
    world = SessionWorld()
    client = world.client()
    flood = b"".join(
        encode(pb.CommandLookupTopic(topic=TOPIC, request_id=number)) for number in range(500)
    )
    client.send_bytes(flood)
    assert world.broker.receiving.used == len(flood)
    assert len(client.received()) == 500
    assert world.broker.receiving.used == 0


def test_above_the_limit_the_client_is_disconnected_whose_frame_began_first() -> None:
    world = SessionWorld()
    world.broker.receiving.limit = 10_000
    first, second = world.client(), world.client()
    for client in (first, second):
        client.send_bytes(SIZE.pack(100_000) + bytes(6000))
    assert first.closed and not second.closed
    assert world.broker.receiving.used == 6004
