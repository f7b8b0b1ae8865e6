"""A request whose connection ends while it waits creates and moves nothing more.

Its client has asked again over another connection by then, and gone on from there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from fakes.sessions import TOPIC, SessionWorld, close_consumer, produce, subscribe
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.schemas.registry import RECORDS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from raw_client import send_frame

NAME = TopicName.parse(TOPIC)
STRING = pb.Schema(name="", type=pb.Schema.String, schema_data=b"")
EXCLUSIVE_PRODUCER = pb.ProducerAccessMode.Exclusive
OPENING: dict[str, Any] = {
    "SUBSCRIBE": subscribe(1),
    "SUBSCRIBE with the first schema": subscribe(1, topic=f"{TOPIC}-new", schema=STRING),
    "SUBSCRIBE that rolls back": subscribe(
        1, subscription="old", start_message_rollback_duration_sec=3600
    ),
    "SUBSCRIBE of compacted data": subscribe(1, read_compacted=True),
    "PRODUCER with a schema": produce(1, schema=STRING),
    "PRODUCER with a subscription": produce(1, initial_subscription_name="sub"),
    "PRODUCER that is exclusive": produce(1, producer_access_mode=EXCLUSIVE_PRODUCER),
    "GET_OR_CREATE_SCHEMA": pb.CommandGetOrCreateSchema(request_id=1, topic=TOPIC, schema=STRING),
}
"""Requests that wait until the topic is open, and change something then."""


class State(NamedTuple):
    """What outlasts connections."""

    subscriptions: dict[str, int]
    """The mark-delete offset of each."""
    schemas: int
    epoch: int | None


def state(world: SessionWorld) -> State:
    topic = world.topic()
    marks = {name: cursor.mark_delete for name, cursor in topic.cursors.cursors.items()}
    schemas = world.do(world.metadata.list(RECORDS, "", 1000))
    return State(marks, len(schemas), topic.producers.epoch)


@contextmanager
def no_topic_is_opened(world: SessionWorld) -> Iterator[None]:
    """Until the block ends."""
    get, gate = world.metadata.get, world.clock.promise()

    async def late(key: str) -> Any:
        await gate
        return await get(key)

    world.metadata.get = late  # type: ignore[method-assign]
    yield
    world.metadata.get = get  # type: ignore[method-assign]
    gate.set_result(None)
    world.clock.pump()


def used(world: SessionWorld) -> None:
    """The topic has a message, which its subscription has acknowledged."""
    client = world.client()
    client.session.roles = Roles("root", None)
    client.ask(produce(1, 1, producer_name="p"))
    client.send_bytes(send_frame(0, b"a"))
    client.received()
    client.ask(subscribe(2, 2, subscription="old", initialPosition=pb.CommandSubscribe.Latest))
    client.ask(close_consumer(3, 2))
    client.session.lost()
    world.do(world.broker.topic_host.unload(NAME))


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("authorized", [False, True], ids=["", "authorized"])
@pytest.mark.parametrize("kind", OPENING)
def test_a_request_that_waits_for_its_topic(kind: str, authorized: bool, lost: bool) -> None:
    world = SessionWorld(authorization_enabled=authorized, super_user_roles=("root",))
    world.do(world.directory.permissions.grant("public/default", "role", ["produce", "consume"]))
    used(world)
    before = state(world)
    world.do(world.broker.topic_host.unload(NAME))
    client = world.client()
    client.session.roles = Roles("role", None)
    with no_topic_is_opened(world):
        client.send(OPENING[kind])
        assert client.received() == []
        if lost:
            client.session.lost()
    assert (state(world) == before) == lost


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_a_producer_that_waits_for_the_answer_of_its_predecessor(lost: bool) -> None:
    world = SessionWorld()
    predecessor, client = world.client(), world.client()
    exclusive = produce(1, producer_name="p", producer_access_mode=EXCLUSIVE_PRODUCER)
    predecessor.ask(exclusive)
    epoch = world.topic().producers.epoch
    client.send(exclusive)
    assert client.received() == []
    if lost:
        client.session.lost()
    predecessor.session.lost()
    world.clock.pump()
    assert (world.topic().producers.epoch == epoch) == lost


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_a_subscription_that_is_deleted_while_a_consumer_waits_for_it(lost: bool) -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(subscribe(1))
    client.send(subscribe(1))
    assert client.received() == [], "it waits for a sign of life of the one that is there"
    world.do(world.topic().subscriptions["sub"].delete())
    if lost:
        client.session.lost()
    holder.session.lost()
    world.clock.pump()
    assert list(world.topic().cursors.cursors) == ([] if lost else ["sub"])


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_a_transaction_whose_coordinator_is_being_loaded(lost: bool) -> None:
    world = SessionWorld()
    client = world.client()
    with no_topic_is_opened(world):
        client.send(pb.CommandNewTxn(request_id=1, txn_ttl_millis=60_000, tc_id=0))
        assert client.received() == []
        if lost:
            client.session.lost()
    (coordinator,) = world.broker.coordinators
    assert coordinator.figures.begun == (0 if lost else 1)


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_a_seek_that_looks_for_its_target(lost: bool) -> None:
    world = SessionWorld(cache_bytes=0)
    used(world)
    client = world.client()
    client.ask(subscribe(1, subscription="old"))
    before = state(world)
    gate = world.store.read_gate = world.clock.promise()
    client.send(pb.CommandSeek(consumer_id=1, request_id=2, message_publish_time=1))
    assert client.received() == []
    if lost:
        client.session.lost()
    gate.set_result(None)
    world.clock.pump()
    world.store.read_gate = None
    assert (state(world) == before) == lost
