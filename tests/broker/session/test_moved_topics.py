"""A topic that another process serves from now on: which clients are told where it is."""

from typing import Any

import pytest

from fakes.relayed import RelayWorld
from fakes.sessions import TOPIC, Client, SessionWorld, produce, subscribe
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
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
    assert named in ({(NEW_OWNER, NEW_OWNER)}, {("", "")})
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
