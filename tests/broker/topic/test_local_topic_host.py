"""Evicting loaded topics: on which condition, and what becomes of them."""

import pytest

from fakes.connection import RecordingConnection
from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.config import Settings
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_proto.names import TopicName

PLAIN, OTHER = named("plain"), named("other")
FLEETING = named("fleeting", domain="non-persistent")


def test_eviction_is_of_all_or_none() -> None:
    world = NamedWorld()
    topics = [world.topic(PLAIN), world.topic(OTHER)]
    names = [PLAIN, OTHER, named("not loaded")]
    _, producer = world.producer(OTHER)
    topic_host = world.broker.topic_host
    assert not world.do(topic_host.evict(names, Condition.UNUSED))
    assert topic_host.is_loaded(PLAIN) and topic_host.is_loaded(OTHER)
    producer.close()
    assert world.do(topic_host.evict(names, Condition.UNUSED))
    assert topic_host.loaded(PLAIN.namespace_name) == []
    for topic in topics:
        with pytest.raises(NotReady):
            topic.check_open()


def test_conditions() -> None:
    world = NamedWorld()
    world.producer(PLAIN)
    topic_host = world.broker.topic_host
    for condition in (Condition.UNUSED, Condition.INACTIVE):
        assert not world.do(topic_host.evict([PLAIN], condition))
    assert world.do(topic_host.evict([PLAIN], Condition.ANYWAY))


def test_what_was_evicted_is_closed() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    topic_host = world.broker.topic_host
    assert world.do(topic_host.evict([PLAIN], Condition.UNUSED))
    world.do(topic_host.unload(PLAIN))
    world.do(topic_host.unload(PLAIN))
    topic = world.topic(PLAIN, create=False)
    assert topic.log.end == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["loaded", "evicted", "unloaded"])
def test_what_is_erased_leaves_nothing(state: str) -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    topic_host = world.broker.topic_host
    if state == "evicted":
        assert world.do(topic_host.evict([PLAIN], Condition.UNUSED))
    elif state == "unloaded":
        world.do(topic_host.unload(PLAIN))
    world.do(topic_host.erase(PLAIN))
    assert not topic_host.is_loaded(PLAIN)
    assert topic_key(PLAIN) not in world.stored() and not world.store.ids()


def test_a_non_persistent_topic_is_loaded_only_to_be_created() -> None:
    world = NamedWorld()
    topic_host = world.broker.topic_host
    assert not world.do(topic_host.load(FLEETING, create=False))
    assert world.do(topic_host.load(FLEETING, create=True))
    assert topic_host.loaded(FLEETING.namespace_name) == [FLEETING]
    world.do(topic_host.erase(FLEETING))
    assert not topic_host.is_loaded(FLEETING)


def test_clients_of_an_unloaded_topic_are_told_who_serves_it_now() -> None:
    world = NamedWorld()
    owners: dict[TopicName, str] = {}
    topic_host = LocalTopicHost(
        Settings(), world.engine, PolicyView(Settings()), lambda name: owners.get(name, "")
    )
    connection = RecordingConnection()
    for name in (PLAIN, OTHER, FLEETING):
        world.do(topic_host.load(name, create=True))
        topic = topic_host.topics.get(name)
        assert topic is not None
        world.do(topic.producers.add(connection, ProducerRequest(1, "p")))
    owners = {PLAIN: "pulsar://worker-1:1", FLEETING: "pulsar://worker-2:1"}
    for name in (PLAIN, OTHER, FLEETING):
        world.do(topic_host.unload(name))
    assert connection.new_owners == ["pulsar://worker-1:1", "", "pulsar://worker-2:1"]
