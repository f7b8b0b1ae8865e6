"""Giving back what a topic need not keep."""

from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld, entry
from magnetar_broker.lifetime.tidying import current_verdicts, tidy, truncate
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention, RetentionReason
from magnetar_storage.world.runtime import yield_turn

FOR_EVER = TopicLimits(retention=Retention(-1, -1))


def world_of(entries: int, limits: TopicLimits = FOR_EVER) -> TopicWorld:
    world = TopicWorld(limits, BY_THREE)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    for _ in range(entries):
        world.publish(entry(0))
    return world


def test_what_is_judged_is_what_is_deleted() -> None:
    world = world_of(8, TopicLimits())
    world.subscription().skip(range(5))
    found = current_verdicts(world.topic)
    assert [verdict.reasons for verdict in found] == [
        (),
        (RetentionReason.SUBSCRIPTION,),
        (RetentionReason.OPEN,),
    ]
    world.do(tidy(world.topic))
    assert current_verdicts(world.topic) == found[1:]


def test_a_truncated_topic_keeps_only_what_is_open() -> None:
    world = world_of(8)
    world.do(tidy(world.topic))
    assert world.topic.log.first_offset == 0
    world.do(truncate(world.topic))
    assert world.topic.log.first_offset == 6
    assert world.subscription().cursor.mark_delete == 7


def test_that_survives_a_crash() -> None:
    world = world_of(8)
    world.do(truncate(world.topic))
    world.crash()
    assert world.topic.log.first_offset == 6
    assert world.subscription().cursor.mark_delete == 7


def test_consumers_and_readers_continue_behind_it() -> None:
    world = world_of(8)
    consumer = world.subscribe(sub_type=SHARED, permits=3)
    reader = world.subscribe(sub="reader", durable=False, earliest=True)
    assert world.offsets(consumer) == [0, 1, 2]
    world.do(truncate(world.topic))
    assert consumer.unacked == 0
    world.publish(entry(0))
    world.flow(consumer, 10)
    world.flow(reader, 10)
    assert world.offsets(consumer) == [8]
    assert world.offsets(reader) == [8]


def test_what_is_published_while_a_topic_is_truncated_stays() -> None:
    world = world_of(5)
    producer, durable = world.producer(name="other"), world.topic.cursors.durable

    async def durable_when_more_was_closed() -> None:
        await durable()
        for _ in range(5):
            world.send(producer, entry(0))
            while world.topic.log.end < world.topic.log.next_offset:
                await yield_turn(world.clock)
            await world.topic.log.rollover.idle()

    world.topic.cursors.durable = durable_when_more_was_closed  # type: ignore[method-assign]
    world.do(truncate(world.topic))
    assert world.topic.log.segments[1].entries is not None
    world.topic.cursors.durable = durable  # type: ignore[method-assign]
    assert world.offsets(world.subscribe(permits=10)) == [5, 6, 7, 8, 9]


def test_truncating_nothing_is_harmless() -> None:
    world = world_of(0)
    world.do(truncate(world.topic))
    world.publish(entry(0))
    assert world.subscription().counter.entries() == 1


def test_a_topic_with_nothing_to_give_back_is_left_alone() -> None:
    world = world_of(1, TopicLimits())
    before = world.topic.log.record
    world.do(tidy(world.topic))
    assert world.topic.log.record is before
