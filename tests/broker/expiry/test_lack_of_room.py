"""The behaviour of topics and connections while the disk lacks room."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.sessions import TOPIC, SessionWorld, produce
from fakes.space import LACKS, set_room
from magnetar_broker.base.errors import NoRoom, as_refusal
from magnetar_broker.maintenance import FREE_SECONDS
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import COMPACTION_THRESHOLD, RETENTION
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.deliveries import encode_flow
from magnetar_storage.errors import DiskLow
from raw_client import send_frame

NEW = "persistent://public/default/new"


def subscribe(request_id: int, topic: str = TOPIC) -> pb.CommandSubscribe:
    return pb.CommandSubscribe(
        topic=topic, subscription="sub", subType=pb.CommandSubscribe.Shared, consumer_id=1,
        request_id=request_id, initialPosition=pb.CommandSubscribe.Earliest,
    )  # fmt: skip


class Lacking(SessionWorld):
    """A topic with a subscription and two messages, on a disk that `lack` makes lack room."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.one = self.client()
        assert isinstance(self.one.ask(subscribe(1)), pb.CommandSuccess)
        assert isinstance(self.one.ask(produce(2)), pb.CommandProducerSuccess)
        self.one.send_bytes(send_frame(0, b"a") + send_frame(1, b"b"))
        assert [type(one) for one in self.one.received()] == [pb.CommandSendReceipt] * 2

    def lack(self, is_low: bool = True) -> None:
        set_room(self.engine.space, is_low)
        self.clock.pump()


def test_producers_are_disconnected_and_refused_with_the_reason() -> None:
    """The error code makes official clients fail their pending messages and reconnect."""
    world = Lacking()
    world.lack()
    (closed,) = world.one.received()
    assert (type(closed), closed.producer_id) == (pb.CommandCloseProducer, 1)
    world.one.send_bytes(send_frame(2, b"ignored"))
    assert world.one.received() == []
    refused = world.one.ask(produce(3))
    assert refused.error == pb.ProducerBlockedQuotaExceededException
    assert refused.message == LACKS
    world.lack(False)
    assert isinstance(world.one.ask(produce(4)), pb.CommandProducerSuccess)
    assert world.topic().log.end == 2


@pytest.mark.parametrize(
    ("client_version", "code"),
    [
        ("Pulsar Go v0.18.0", pb.ServiceNotReady),
        ("Pulsar Go 0.9.1", pb.ServiceNotReady),
        ("Pulsar Go v0.19.0", pb.ProducerBlockedQuotaExceededException),
        ("Pulsar-CPP-v3.7.2", pb.ProducerBlockedQuotaExceededException),
    ],
)
def test_clients_that_would_give_up_for_good_are_told_to_try_again(
    client_version: str, code: int
) -> None:
    world = Lacking()
    world.lack()
    refused = world.client(client_version=client_version).ask(produce(1))
    assert (refused.error, refused.message) == (code, LACKS)


def test_a_producer_that_was_being_opened_when_room_began_to_lack_is_refused() -> None:
    """The producer's request was accepted before room began to lack."""
    world = Lacking()
    topic = world.topic()
    world.lack()
    with pytest.raises(DiskLow):
        world.do(topic.producers.add(RecordingConnection(), ProducerRequest(7, "late")))
    assert len(topic.producers) == 0


def test_topics_are_not_created_and_others_are_served() -> None:
    world = Lacking()
    world.lack()
    for command in (subscribe(5, NEW), produce(6, topic=NEW)):
        refused = world.client().ask(command)
        assert refused.message == LACKS
    assert not world.do(world.directory.exists(world.topic().name.__class__.parse(NEW)))
    other = world.client()
    assert isinstance(other.ask(subscribe(7)), pb.CommandSuccess)


def test_messages_are_delivered_and_acknowledged() -> None:
    world = Lacking()
    world.lack()
    world.one.received()
    world.one.send_bytes(encode_flow(1, 10))
    delivered = world.one.delivered()
    assert [payload for _, payload in delivered] == [b"a", b"b"]
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=9)
    ack.message_id.extend(message.message_id for message, _ in delivered)
    assert isinstance(world.one.ask(ack), pb.CommandAckResponse)
    assert world.topic().subscriptions["sub"].counter.entries() == 0


def test_non_persistent_topics_take_messages() -> None:
    world = Lacking()
    world.lack()
    opened = world.client().ask(produce(1, topic="non-persistent://public/default/fleeting"))
    assert isinstance(opened, pb.CommandProducerSuccess)


def test_what_was_consumed_is_deleted_within_seconds() -> None:
    """This includes the open segment, which otherwise stays for hours."""
    world = Lacking()
    topic = world.topic()
    world.lack()
    world.clock.advance(FREE_SECONDS)
    assert topic.log.size > 0, "it was not consumed"
    topic.subscriptions["sub"].skip(range(2))
    world.clock.advance(FREE_SECONDS)
    assert topic.log.size == 0
    segments = topic.log.segments
    world.clock.advance(10 * FREE_SECONDS)
    assert topic.log.segments == segments, "an empty segment is left alone"


def test_with_room_the_open_segment_stays() -> None:
    world = Lacking()
    world.topic().subscriptions["sub"].skip(range(2))
    world.clock.advance(10 * FREE_SECONDS)
    assert world.topic().log.size > 0


def test_what_is_retained_stays() -> None:
    world = Lacking()
    topic = world.topic()
    world.do(world.directory.enforcement.set(topic.name, {RETENTION: Retention(60, -1)}))
    topic.subscriptions["sub"].skip(range(2))
    world.lack()
    world.clock.advance(10 * FREE_SECONDS)
    assert topic.log.size > 0


def test_compaction_waits_for_room(caplog: pytest.LogCaptureFixture) -> None:
    world = Lacking()
    topic = world.topic()
    world.lack()
    world.do(world.directory.enforcement.set(topic.name, {COMPACTION_THRESHOLD: 1}))
    world.clock.advance(600)
    assert topic.compactions is None
    assert "compacted" not in caplog.text, "it is not even tried again and again"
    with pytest.raises(DiskLow):
        world.do(topic.compaction.start())
    world.lack(False)
    world.clock.advance(600)
    assert topic.compactions is not None and topic.compactions.succeeded == 1


def test_the_lack_of_room_is_a_refusal_of_its_own() -> None:
    refusal = as_refusal(DiskLow(LACKS))
    assert isinstance(refusal, NoRoom) and str(refusal) == LACKS
