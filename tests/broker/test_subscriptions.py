"""A topic's subscriptions by name, while they are made and end."""

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.errors import NotAllowed
from magnetar_broker.limits import TopicLimits


def test_a_reader_does_not_take_the_name_of_a_subscription_that_is_being_made() -> None:
    world = TopicWorld()
    making = world.begin_subscribe(RecordingConnection(), sub="s")
    with pytest.raises(NotAllowed, match="is durable already"):
        world.subscribe(sub="s", durable=False)
    world.clock.pump()
    assert making.result().subscription.durable


def test_who_waits_for_a_subscription_that_is_deleted_at_once_gets_a_new_one() -> None:
    world = TopicWorld()

    async def come_and_go() -> None:
        request = world.request(sub="s")
        consumer = await world.topic.subscribe(RecordingConnection(), request)
        await consumer.subscription.unsubscribe(consumer, force=False)

    gone = world.begin(come_and_go())
    waiting = world.begin_subscribe(RecordingConnection(), sub="s")
    world.clock.pump()
    assert gone.done()
    cursor = waiting.result().subscription.cursor
    assert world.topic.cursors.cursors == {"s": cursor}, "what it acknowledges is stored"
    world.crash()
    assert list(world.topic.subscriptions) == ["s"]


def test_those_that_are_being_made_count() -> None:
    world = TopicWorld(TopicLimits(max_subscriptions=2))
    first = world.begin_subscribe(RecordingConnection(), sub="a", sub_type=SHARED)
    again = world.begin_subscribe(RecordingConnection(), sub="a", sub_type=SHARED)
    second = world.begin(world.topic.ensure_subscription("b"))
    with pytest.raises(NotAllowed, match="has its 2 subscriptions"):
        world.subscribe(sub="c")
    with pytest.raises(NotAllowed, match="has its 2 subscriptions"):
        world.subscribe(sub="c", durable=False)
    with pytest.raises(NotAllowed, match="has its 2 subscriptions"):
        world.do(world.topic.ensure_subscription("c"))
    world.clock.pump()
    assert first.result().subscription is again.result().subscription
    assert second.done()
    assert list(world.topic.subscriptions) == ["a", "b"]
