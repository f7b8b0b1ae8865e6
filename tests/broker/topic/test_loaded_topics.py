"""The loaded topics: loading, unloading, eviction."""

import pytest

from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.errors import NotReady
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_storage.errors import DiskFull

PLAIN, PARTED = named("plain"), named("parted")


def test_clients_of_an_unloaded_topic_come_back_to_what_they_left() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a", b"b")
    producing, _ = world.producer(PLAIN)
    consuming, consumer = world.consumer(PLAIN)
    consumer.subscription.flow(consumer, 1)
    before = world.topic(PLAIN)
    world.do(world.directory.opening.unload(PLAIN))
    assert PLAIN not in world.broker.topics
    assert producing.closed_producers == [1] and consuming.closed_consumers == [1]
    with pytest.raises(NotReady):
        world.do(before.producers.add(producing, ProducerRequest(2, "late")))
    after = world.topic(PLAIN, create=False)
    assert after is not before and after.log.end == 2  # type: ignore[union-attr]
    assert list(after.subscriptions) == ["sub"]
    world.do(world.directory.opening.unload(named("never loaded")))


def test_a_topic_is_not_opened_before_it_was_closed() -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    gate = world.clock.promise()
    put = world.metadata.put

    async def slowly(*asked: object) -> int:
        await gate
        return await put(*asked)  # type: ignore[arg-type]

    world.metadata.put = slowly  # type: ignore[assignment]
    unloading = world.begin(world.directory.opening.unload(PLAIN))
    coming = world.begin(world.broker.topic(PLAIN, create=False))
    world.clock.pump()
    assert not unloading.done() and not coming.done()
    gate.set_result(None)
    world.clock.pump()
    unloading.result()
    assert coming.result().log.end == 1


def test_a_stop_continues_where_one_topic_cannot_be_sealed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = NamedWorld()
    world.publish(PLAIN, b"a")
    world.publish(named("other"), b"b")
    first = world.topic(PLAIN)

    async def fail() -> None:
        raise DiskFull("no room")

    first.close = fail  # type: ignore[method-assign]
    connection, _ = world.producer(named("other"))
    world.do(world.broker.close())
    assert f"1 topics could not be sealed ({PLAIN} is one)" in caplog.text
    assert connection.closed_producers == [1]
    with pytest.raises(NotReady, match="stopping"):
        world.topic(PLAIN)


def test_the_loaded_topics_of_a_namespace() -> None:
    world = NamedWorld()
    topics = world.broker.topics
    names = [named(word) for word in "abc"]
    for name in names:
        world.do(world.broker.topic(name, create=True))
    first, second, third = (topics.get(name) for name in names)
    assert topics.of_namespace(PLAIN.namespace_name) == [first, second, third]
    world.do(world.directory.opening.unload(names[0]))
    assert topics.of_namespace(PLAIN.namespace_name) == [second, third]
    assert second is not None
    topics.drop(second)
    assert topics.of_namespace(PLAIN.namespace_name) == [third]
    assert third is not None
    topics.drop(third)
    assert topics.of_namespace(PLAIN.namespace_name) == [] == list(topics)
