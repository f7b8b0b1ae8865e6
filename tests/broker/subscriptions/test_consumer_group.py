"""Who may join a subscription."""

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TYPES, TopicWorld
from magnetar_broker.base.errors import ConsumerBusy
from magnetar_broker.limits.topic_limits import TopicLimits


def test_a_second_exclusive_consumer_is_refused_while_the_first_answers() -> None:
    world = TopicWorld()
    first = RecordingConnection("10.0.0.7:99")
    holder = world.subscribe(first, consumer_name="holder")
    with pytest.raises(ConsumerBusy, match=r"holder from 10\.0\.0\.7:99"):
        world.subscribe()
    assert (first.pings, holder.closed, first.closed_consumers) == (1, False, [])


def test_one_that_does_not_answer_is_replaced_and_notified() -> None:
    world = TopicWorld()
    dead = RecordingConnection()
    dead.alive = False
    holder = world.subscribe(dead)
    consumer = world.subscribe(permits=10)
    assert (holder.closed, dead.closed_consumers) == (True, [holder.id])
    world.publish(b"a")
    assert (world.offsets(consumer), world.got(holder)) == ([0], [])


def test_of_two_that_wait_for_the_same_dead_consumer_one_is_refused() -> None:
    world = TopicWorld()
    dead = RecordingConnection()
    dead.alive, dead.answer = False, world.clock.promise()
    world.subscribe(dead)
    both = [world.begin_subscribe(RecordingConnection()) for _ in range(2)]
    dead.answer.set_result(None)
    world.clock.pump()
    both[0].result()
    with pytest.raises(ConsumerBusy):
        both[1].result()
    assert len(world.subscription().consumers) == 1


@pytest.mark.parametrize("present", [*TYPES, KEY_SHARED])
@pytest.mark.parametrize("wanted", [*TYPES, KEY_SHARED])
def test_types_do_not_mix_but_may_change_without_consumers(present: int, wanted: int) -> None:
    world = TopicWorld()
    first = world.subscribe(sub_type=present)
    if wanted == present != EXCLUSIVE:
        world.subscribe(sub_type=wanted)
    else:
        with pytest.raises(ConsumerBusy):
            world.subscribe(sub_type=wanted)
    for consumer in world.subscription().consumers:
        consumer.close()
    assert first.closed
    world.publish(b"a")
    again = world.subscribe(sub_type=wanted, permits=10)
    world.clock.advance(1)
    assert (world.subscription().type, world.offsets(again)) == (wanted, [0])


def test_their_number_is_limited() -> None:
    world = TopicWorld(TopicLimits(max_consumers_per_subscription=2))
    for _ in range(2):
        world.subscribe(sub_type=SHARED)
    with pytest.raises(ConsumerBusy, match="maxConsumersPerSubscription"):
        world.subscribe(sub_type=SHARED)
    world.subscribe(sub="other", sub_type=FAILOVER)
