"""Deleting the data that a topic need not keep."""

from dataclasses import replace

from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld, entry
from magnetar_broker.expiry.trimming import current_verdicts, trim_topic, truncate
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import Retention, RetentionReason
from magnetar_storage.log.rewritable import Needed
from magnetar_storage.runtime.execution import yield_turn

FOR_EVER = TopicLimits(retention=Retention(-1, -1))
A_WEEK = TopicLimits(unread=Retention(10080, -1))
WEEK_SECONDS = 10080 * 60


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
    world.do(trim_topic(world.topic))
    assert current_verdicts(world.topic) == found[1:]


def test_what_an_engine_keeps_is_deleted_by_a_later_round() -> None:
    world = world_of(8, TopicLimits())
    world.engine = replace(world.engine, keeps_trash_ms=60_000)
    world.crash()
    doomed = world.topic.log.segments[0].id
    world.subscription().skip(range(5))
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 3 and doomed in world.store.ids()
    world.clock.advance(59)
    world.do(trim_topic(world.topic))
    assert doomed in world.store.ids()
    world.clock.advance(1)
    world.do(trim_topic(world.topic))
    assert doomed not in world.store.ids()
    assert world.store.ids() == world.topic.log.record.listed


def test_a_truncated_topic_keeps_only_what_is_open() -> None:
    world = world_of(8)
    world.do(trim_topic(world.topic))
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
    world.do(trim_topic(world.topic))
    assert world.topic.log.record is before


def first_after_trimming(world: TopicWorld) -> int:
    world.do(trim_topic(world.topic))
    return world.topic.log.first_offset


def unread_world(entries: int = 8, limits: TopicLimits = A_WEEK) -> TopicWorld:
    world = TopicWorld(limits, BY_THREE)
    for _ in range(entries):
        world.publish(entry(0))
    return world


def test_messages_without_a_subscription_stay_for_their_time() -> None:
    world = unread_world()
    assert first_after_trimming(world) == 0
    assert current_verdicts(world.topic)[0].reasons == (RetentionReason.UNREAD,)
    world.clock.advance(WEEK_SECONDS)
    assert first_after_trimming(world) == 6
    assert world.topic.shared_limits.unread.deleted_bytes > 0


def test_messages_from_before_a_subscription_stay_for_their_time() -> None:
    world = unread_world(6)
    world.do(world.topic.subscriptions.create("late", 6, {}))
    for _ in range(3):
        world.publish(entry(0))
    world.subscription("late").skip(range(9))
    world.do(world.topic.cursors.durable())
    assert first_after_trimming(world) == 0
    world.crash()
    assert first_after_trimming(world) == 0, "where a subscription began is durable"
    world.clock.advance(WEEK_SECONDS)
    assert first_after_trimming(world) == 9


def test_what_a_deleted_subscription_has_acknowledged_is_not_unread() -> None:
    world = world_of(8, A_WEEK)
    world.subscription().skip(range(4))
    world.do(world.subscription().delete())
    assert first_after_trimming(world) == 3
    world.crash()
    assert current_verdicts(world.topic)[0].reasons == (RetentionReason.UNREAD,)
    assert first_after_trimming(world) == 3


def test_a_subscription_that_has_acknowledged_everything_keeps_nothing() -> None:
    world = world_of(8, A_WEEK)
    world.subscription().skip(range(8))
    assert first_after_trimming(world) == 6


def test_the_oldest_unread_messages_of_a_large_topic_go() -> None:
    world = unread_world(8, TopicLimits(unread=Retention(-1, 0)))
    assert first_after_trimming(world) == 6


def test_the_oldest_unread_messages_of_all_topics_go_at_the_second_check() -> None:
    world = unread_world()
    total = world.topic.shared_limits.unread
    total.limit_bytes = 0
    assert first_after_trimming(world) == 0
    total.end_check()
    assert first_after_trimming(world) == 6


def test_as_in_pulsar_nothing_is_kept_for_nobody() -> None:
    assert first_after_trimming(unread_world(8, TopicLimits())) == 6


def test_what_was_consumed_behind_unread_messages_is_deleted() -> None:
    world = unread_world(3)
    world.do(world.topic.subscriptions.create("late", 3, {}))
    for _ in range(9):
        world.publish(entry(0))
    world.subscription("late").skip(range(12))
    size = world.topic.log.size
    assert first_after_trimming(world) == 0
    assert list(world.topic.log.holes) == [(3, 9)]
    assert world.topic.log.size == size // 2
    reader = world.subscribe(sub="reader", durable=False, earliest=True)
    world.flow(reader, 10)
    assert world.offsets(reader) == [0, 1, 2, 9, 10, 11]


def test_unread_messages_stay_when_their_subscription_is_deleted_during_the_check() -> None:
    world = world_of(9, A_WEEK)
    world.subscription().skip(range(1))
    log, reclaim = world.topic.log, world.topic.log.reclaim

    async def reclaim_without_subscription(needed: Needed, before: int) -> int:
        await world.subscription().delete()
        return await reclaim(needed, before)

    log.reclaim = reclaim_without_subscription  # type: ignore[method-assign, assignment]
    world.do(trim_topic(world.topic))
    assert not log.holes, "eight messages are unread now"


def test_a_jump_of_the_clock_does_not_stop_the_deletion_of_what_was_consumed() -> None:
    world = world_of(8, A_WEEK)
    world.subscription().skip(range(5))
    world.clock.set_forward(WEEK_SECONDS * 2000)
    assert first_after_trimming(world) == 3
