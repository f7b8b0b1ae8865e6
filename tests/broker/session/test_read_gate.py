"""A client is read from unless there is some reason not to, and pinged while it is held."""

from fakes.sessions import TOPIC, Client, SessionWorld
from fakes.world import ManualClock
from magnetar_broker.session.read_gate import KEEP_ALIVE_SECONDS, Pause, ReadGate
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import send_frame


class Socket:
    """Records what was called."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.pings = 0
        self.clock = ManualClock()
        self.gate = ReadGate(
            self, self.clock, self.keep_alive, lambda: self.reported.append("resumed")
        )

    def pause_reading(self) -> None:
        self.reported.append("pause")

    def resume_reading(self) -> None:
        self.reported.append("resume")

    def keep_alive(self) -> None:
        self.pings += 1


def test_the_first_reason_pauses_and_the_last_one_resumes() -> None:
    socket = Socket()
    socket.gate.pause(Pause.UNWRITTEN)
    socket.gate.pause(Pause.PENDING)
    socket.gate.resume(Pause.UNWRITTEN)
    assert socket.reported == ["pause"]
    socket.gate.resume(Pause.PENDING)
    assert socket.reported == ["pause", "resume", "resumed"]


def test_a_reason_that_was_not_given_resumes_nothing() -> None:
    socket = Socket()
    socket.gate.resume(Pause.REQUESTS)
    assert socket.reported == []


def test_a_reason_counts_once() -> None:
    socket = Socket()
    socket.gate.pause(Pause.REQUESTS)
    socket.gate.pause(Pause.REQUESTS)
    socket.gate.resume(Pause.REQUESTS)
    assert socket.reported == ["pause", "resume", "resumed"]


def test_a_client_is_read_from_again_when_nothing_holds_it() -> None:
    socket = Socket()
    first, second = socket.gate.hold(), socket.gate.hold()
    socket.gate.pause(Pause.PENDING)
    first()
    assert (socket.reported, socket.gate.is_held) == (["pause"], True)
    second()
    assert (socket.reported, socket.gate.is_held) == (["pause"], False)
    socket.gate.resume(Pause.PENDING)
    assert socket.reported == ["pause", "resume", "resumed"]


def test_a_client_that_is_held_is_pinged_now_and_then() -> None:
    socket = Socket()
    for _ in range(2):
        release = socket.gate.hold()
        socket.clock.advance(3.5 * KEEP_ALIVE_SECONDS)
        release()
        assert socket.pings == 3
        socket.clock.advance(5 * KEEP_ALIVE_SECONDS)
        assert socket.pings == 3, "it is read from"
        socket.pings = 0


def test_a_client_that_has_left_is_not_pinged_though_it_is_held() -> None:
    socket = Socket()
    release = socket.gate.hold()
    socket.gate.end()
    release()
    socket.gate.hold()
    socket.clock.advance(3 * KEEP_ALIVE_SECONDS)
    assert socket.pings == 0


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
