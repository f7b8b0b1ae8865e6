"""Clients that are not read from for a while."""

from fakes.sessions import TOPIC, Client, SessionWorld
from fakes.world import ManualClock
from magnetar_broker.session.read_gate import ReadGate
from magnetar_broker.session.throttled import KEEP_ALIVE_SECONDS, Throttled
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import send_frame


class World:
    """A socket, and what becomes of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.reading = True
        self.pings = 0
        self.gate = ReadGate(self, lambda: None)
        self.throttled = Throttled(self.gate, self.clock, self.keep_alive)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def keep_alive(self) -> None:
        self.pings += 1


def test_a_client_is_read_from_again_when_no_reason_is_left() -> None:
    world = World()
    first, second = world.throttled.hold(), world.throttled.hold()
    other = world.gate.reason()
    other.pause_reading()
    first()
    assert (world.reading, world.throttled.is_held) == (False, True)
    second()
    assert (world.reading, world.throttled.is_held) == (False, False)
    other.resume_reading()
    assert world.reading


def test_a_paused_client_is_pinged_now_and_then() -> None:
    world = World()
    for _ in range(2):
        release = world.throttled.hold()
        world.clock.advance(3.5 * KEEP_ALIVE_SECONDS)
        release()
        assert world.pings == 3
        world.clock.advance(5 * KEEP_ALIVE_SECONDS)
        assert world.pings == 3, "it is read from"
        world.pings = 0


def test_a_client_that_has_left_is_not_pinged_though_it_is_paused() -> None:
    world = World()
    release = world.throttled.hold()
    world.throttled.end()
    release()
    world.throttled.hold()
    world.clock.advance(3 * KEEP_ALIVE_SECONDS)
    assert world.pings == 0


def test_a_session_that_publishes_too_fast_is_paused_and_not_given_up() -> None:
    world = SessionWorld(max_publish_rate_per_topic_in_messages=1)
    client = Client(world, "10.0.0.1:4711")
    ready = client.ask(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
    assert isinstance(ready, pb.CommandProducerSuccess)
    client.send_bytes(b"".join(send_frame(number, b"") for number in range(60)))
    assert len(client.received()) == 60, "all are stored and answered"
    assert not client.reading
    for _ in range(3):
        client.session.tick()
        client.session.tick()
    assert not client.closed, "its silence means nothing"
    world.clock.advance(KEEP_ALIVE_SECONDS)
    assert [type(word) for word in client.received()] == [pb.CommandPing]
    world.clock.advance(50)
    assert client.reading
    client.session.tick()
    assert not client.closed, "it may have sent something meanwhile"
    client.session.tick()
    assert client.closed


def test_a_session_that_is_gone_is_sent_nothing() -> None:
    world = SessionWorld(max_publish_rate_per_topic_in_messages=1)
    client = Client(world, "10.0.0.1:4711")
    client.ask(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
    client.send_bytes(b"".join(send_frame(number, b"") for number in range(60)))
    client.received()
    client.session.lost()
    world.clock.advance(120)
    assert client.received() == []
