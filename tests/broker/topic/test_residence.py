"""Evicting loaded topics: on which condition, and what becomes of them."""

import pytest

from fakes.connection import RecordingConnection
from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.config import Settings
from magnetar_broker.names.residence import Condition
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.topic.residence import LocalResidence
from magnetar_proto.names import TopicName

PLAIN, OTHER = named("plain"), named("other")
FLEETING = named("fleeting", domain="non-persistent")


def test_eviction_is_of_all_or_none() -> None:
    world = NamedWorld()
    topics = [world.topic(PLAIN), world.topic(OTHER)]
    names = [PLAIN, OTHER, named("not loaded")]
    _, producer = world.producer(OTHER)
    residence = world.broker.residence
    assert not world.do(residence.evict(names, Condition.UNUSED))
    assert residence.is_loaded(PLAIN) and residence.is_loaded(OTHER)
    producer.close()
    assert world.do(residence.evict(names, Condition.UNUSED))
    assert residence.loaded(PLAIN.namespace_name) == []
    for topic in topics:
        with pytest.raises(NotReady):
            topic.check_open()


def test_conditions() -> None:
    world = NamedWorld()
    world.producer(PLAIN)
    residence = world.broker.residence
    for condition in (Condition.UNUSED, Condition.INACTIVE):
        assert not world.do(residence.evict([PLAIN], condition))
    assert world.do(residence.evict([PLAIN], Condition.ANYWAY))


def test_what_was_evicted_is_closed() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    residence = world.broker.residence
    assert world.do(residence.evict([PLAIN], Condition.UNUSED))
    world.do(residence.unload(PLAIN))
    world.do(residence.unload(PLAIN))
    topic = world.topic(PLAIN, create=False)
    assert topic.log.end == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["loaded", "evicted", "unloaded"])
def test_what_is_erased_leaves_nothing(state: str) -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    residence = world.broker.residence
    if state == "evicted":
        assert world.do(residence.evict([PLAIN], Condition.UNUSED))
    elif state == "unloaded":
        world.do(residence.unload(PLAIN))
    world.do(residence.erase(PLAIN))
    assert not residence.is_loaded(PLAIN)
    assert topic_key(PLAIN) not in world.stored() and not world.store.ids()


def test_a_non_persistent_topic_is_loaded_only_to_be_created() -> None:
    world = NamedWorld()
    residence = world.broker.residence
    assert not world.do(residence.load(FLEETING, create=False))
    assert world.do(residence.load(FLEETING, create=True))
    assert residence.loaded(FLEETING.namespace_name) == [FLEETING]
    world.do(residence.erase(FLEETING))
    assert not residence.is_loaded(FLEETING)


def test_clients_of_an_unloaded_topic_are_told_who_serves_it_now() -> None:
    world = NamedWorld()
    owners: dict[TopicName, str] = {}
    residence = LocalResidence(
        Settings(), world.engine, PolicyView(Settings()), lambda name: owners.get(name, "")
    )
    connection = RecordingConnection()
    for name in (PLAIN, OTHER, FLEETING):
        world.do(residence.load(name, create=True))
        topic = residence.topics.get(name)
        assert topic is not None
        world.do(topic.producers.add(connection, ProducerRequest(1, "p")))
    owners = {PLAIN: "pulsar://worker-1:1", FLEETING: "pulsar://worker-2:1"}
    for name in (PLAIN, OTHER, FLEETING):
        world.do(residence.unload(name))
    assert connection.new_owners == ["pulsar://worker-1:1", "", "pulsar://worker-2:1"]
