"""A topic that is unloaded, as one that moves to another process: what its clients are told."""

from typing import Any

import pytest

from fakes.relayed import RelayWorld
from fakes.sessions import TOPIC, Client, SessionWorld, close_producer, produce, subscribe
from magnetar_broker.config.listeners import over_tls
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from raw_client import send_frame

NAMED = "worker-0:6650"
NEW_OWNER = "pulsar://worker-1:6650"
FLEETING = TOPIC.replace("persistent", "non-persistent")


def moved(client: Client, world: SessionWorld, topic: str = TOPIC) -> list[Any]:
    """What a client with a producer and a consumer gets when the topic moves."""
    client.ask(produce(1, 4, topic=topic))
    client.ask(subscribe(2, 5, topic=topic, initialPosition=pb.CommandSubscribe.Latest))
    loaded = world.broker.topics.get(TopicName.parse(topic))
    assert loaded is not None
    loaded.disconnect(NEW_OWNER)
    closed = client.received()
    assert [type(one) for one in closed] == [pb.CommandCloseProducer, pb.CommandCloseConsumer]
    assert (closed[0].producer_id, closed[1].consumer_id) == (4, 5)
    return closed


def are_told(closed: list[Any]) -> bool:
    """Whether all of these name the new owner, or none of them names any."""
    named = {(one.assignedBrokerServiceUrl, one.assignedBrokerServiceUrlTls) for one in closed}
    assert named in ({(NEW_OWNER, over_tls(NEW_OWNER))}, {("", "")})
    return named != {("", "")}


@pytest.mark.parametrize("topic", [TOPIC, FLEETING], ids=["persistent", "non-persistent"])
def test_a_client_that_named_its_process_is_told_the_new_one(topic: str) -> None:
    world = SessionWorld()
    client = world.client(proxy_to_broker_url=NAMED)
    assert are_told(moved(client, world, topic))
    client.send_bytes(send_frame(0, b"x", 4))
    assert client.received() == [], "what was sent before the client knew is ignored"
    assert not client.closed


def test_a_client_that_named_none_looks_up() -> None:
    world = SessionWorld()
    closed = moved(world.client(), world)
    assert not are_told(closed)
    assert not any(one.HasField("assignedBrokerServiceUrl") for one in closed)


def test_an_upstream_is_closed_without_a_name() -> None:
    # The client's CONNECT may name the process that relays: the topic is none of that one's.
    world = SessionWorld()
    client = world.client(proxy_to_broker_url=NAMED)
    client.session.is_upstream = True
    assert not are_told(moved(client, world))


def test_a_client_whose_topic_is_relayed_looks_up() -> None:
    world = RelayWorld()
    client, topic = world.client(proxy_to_broker_url=NAMED), world.topic_of(1)
    client.ask(produce(1, topic=topic))
    loaded = world.processes.workers[1].broker.topics.get(TopicName.parse(topic))
    assert loaded is not None
    loaded.disconnect(NEW_OWNER)
    assert not are_told(client.received())


def test_a_client_is_told_by_the_move_itself() -> None:
    world = RelayWorld()
    client, topic = world.client(proxy_to_broker_url="worker-0:1"), world.topic_of(0)
    for owner in (2, 1):
        client.ask(produce(1, topic=topic))
        world.move(topic, owner)
        (closed,) = client.received()
        assert closed.assignedBrokerServiceUrl == ("pulsar://worker-2:1" if owner == 2 else "")


def test_what_was_relayed_to_a_former_owner_is_not_relayed_further() -> None:
    world = RelayWorld()
    client, topic = world.client(), world.topic_of(1)
    owners = world.processes.workers[0].owners
    namespace = TopicName.parse(topic).namespace_name
    old = owners.of(namespace)
    assert old is not None
    world.move(topic, 2)
    new = owners.of(namespace)
    assert new is not None
    owners.place(namespace, old)  # worker 0 has not learned it yet
    assert client.ask(produce(1, topic=topic)).error == pb.ServiceNotReady
    assert len(world.pipes) == 1
    owners.place(namespace, new)
    assert isinstance(client.ask(produce(2, topic=topic)), pb.CommandProducerSuccess)
    assert len(world.pipes) == 2


def test_other_closures_name_nobody() -> None:
    world = SessionWorld()
    client = world.client(proxy_to_broker_url=NAMED)
    client.ask(produce(1))
    world.topic().drop(OSError("the disk is gone"))
    failed = client.received()
    client.ask(produce(2))
    world.topic().producers.disconnect()
    disconnected = client.received()
    client.ask(produce(3))
    world.do(world.broker.close())
    stopped = client.received()
    assert not are_told([*failed, *disconnected, *stopped])
    assert [len(failed), len(disconnected), len(stopped)] == [1, 1, 1]


@pytest.mark.parametrize("version", [4, 5])
def test_versions_without_the_command_are_disconnected(version: int) -> None:
    world = SessionWorld()
    client = world.client(proxy_to_broker_url=NAMED, protocol_version=version)
    client.ask(produce(1))
    world.topic().disconnect(NEW_OWNER)
    closed = client.received()
    assert client.closed == (version < 5)
    assert len(closed) == (version >= 5)
    assert all(one.assignedBrokerServiceUrl == NEW_OWNER for one in closed)


def test_a_producer_that_waits_for_its_turn_is_refused_without_a_name() -> None:
    world = SessionWorld()
    mode = pb.ProducerAccessMode.WaitForExclusive
    holder = world.client(proxy_to_broker_url=NAMED)
    waiting = world.client(proxy_to_broker_url=NAMED)
    holder.ask(produce(1, producer_access_mode=mode))
    assert not waiting.ask(produce(1, producer_access_mode=mode)).producer_ready
    world.topic().disconnect(NEW_OWNER)
    assert are_told(holder.received())
    (refusal,) = waiting.received()
    assert refusal.error == pb.ServiceNotReady


class Unloading:
    """A topic with some messages on their way to the log when it is unloaded."""

    def __init__(self) -> None:
        self.world = SessionWorld()
        self.client = self.world.client()
        self.client.ask(produce(1))
        self.gate = self.world.store.create_gate = self.world.clock.promise()
        self.send(0, 3)
        self.done = self.world.begin(self.world.broker.topic_host.unload(TopicName.parse(TOPIC)))

    def send(self, first: int, end: int) -> None:
        for number in range(first, end):
            self.client.send_bytes(send_frame(number, b"%d" % number))

    def kinds(self) -> list[str]:
        """What the client got since it was asked last."""
        return [type(one).__name__.removeprefix("Command") for one in self.client.received()]

    def stored(self) -> int:
        """How many messages the topic has."""
        return self.world.topic().log.end


def test_what_is_stored_is_answered_before_its_producer_is_closed() -> None:
    one = Unloading()
    one.send(3, 5)
    assert one.kinds() == [] and not one.done.done()
    one.gate.set_result(None)
    assert one.kinds() == ["SendReceipt"] * 3 + ["CloseProducer"]
    assert one.done.done() and one.stored() == 3
    one.client.ask(produce(2))
    one.send(3, 5)  # again, since they have no receipts
    assert one.kinds() == ["SendReceipt"] * 2
    assert one.stored() == 5


def test_a_topic_that_finishes_takes_no_clients() -> None:
    one = Unloading()
    for command in (produce(2, 2), subscribe(3)):
        assert one.world.client().ask(command).error == pb.ServiceNotReady
    one.gate.set_result(None)
    one.world.clock.pump()
    for command in (produce(2, 2), subscribe(3)):
        assert not isinstance(one.world.client().ask(command), pb.CommandError)


def test_a_producer_may_leave_while_its_topic_finishes() -> None:
    one = Unloading()
    one.client.send(close_producer(2))
    assert one.kinds() == []
    one.gate.set_result(None)
    kinds = one.kinds()
    assert kinds[:3] == ["SendReceipt"] * 3
    assert "Success" in kinds[3:], "whether the broker closes it or the client is the same"
    assert one.done.done() and one.stored() == 3


def test_a_connection_may_end_while_its_topic_finishes() -> None:
    one = Unloading()
    one.client.session.lost()
    one.gate.set_result(None)
    one.world.clock.pump()
    assert one.done.done() and one.stored() == 3


def test_a_topic_that_cannot_finish_is_closed_without_receipts() -> None:
    one = Unloading()
    one.world.store.create_failure = Unavailable("the disk is full")
    one.gate.set_result(None)
    assert one.kinds() == ["CloseProducer"]
    assert one.done.done()
    one.world.store.create_failure = None
    assert one.stored() == 0
    one.client.ask(produce(2))
    one.send(0, 3)
    assert one.kinds() == ["SendReceipt"] * 3
