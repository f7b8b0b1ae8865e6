"""Messages that are too old, and unused subscriptions."""

import logging
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.expiry.message_expiry import (
    expire_messages,
    expire_older,
    expire_subscriptions,
    expiring_subscriptions,
)
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR

TTL = TopicLimits(message_ttl_seconds=60)
IDLE = TopicLimits(subscription_expiration_minutes=20)
LOOK_SECONDS = 300


class Aging(TopicWorld):
    """A topic whose messages are published a number of seconds ago."""

    def __init__(self, limits: TopicLimits = TTL, **more: object) -> None:
        super().__init__(limits, BY_THREE, **more)  # type: ignore[arg-type]

    def published(self, *seconds_ago: int) -> None:
        now_ms = self.clock.now_ms()
        self.publish(*(entry(now_ms - 1000 * ago) for ago in seconds_ago))

    def expire(self) -> None:
        self.do(expire_messages(self.topic))

    def look(self) -> None:
        """A check of the idle subscriptions, after its interval."""
        self.clock.advance(LOOK_SECONDS)
        self.do(expire_subscriptions(self.topic, LOOK_SECONDS))


def created(world: TopicWorld, *names: str) -> None:
    for name in names:
        world.do(world.topic.subscriptions.create(name, 0, {}))


# Messages ---------------------------------------------------------------------------------


def test_what_is_older_than_the_ttl_is_acknowledged_for_all_subscriptions() -> None:
    world = Aging()
    created(world, "one", "other")
    world.published(100, 61, 60, 59, 0)
    world.expire()
    for name in ("one", "other"):
        assert world.subscription(name).cursor.mark_delete == 1
        assert world.subscription(name).messages_expired == 2
        assert world.subscription(name).last_expired_ms == world.clock.now_ms()
    world.clock.advance(1)
    world.expire()
    assert world.subscription("one").cursor.mark_delete == 2


def test_that_is_durable() -> None:
    world = Aging()
    created(world, "sub")
    world.published(100, 0)
    world.expire()
    world.crash()
    assert world.subscription().cursor.mark_delete == 0


def test_without_a_ttl_nothing_expires() -> None:
    world = Aging(TopicLimits())
    created(world, "sub")
    world.published(10**6)
    world.expire()
    assert world.subscription().cursor.mark_delete == -1


def test_the_brokers_own_subscription_is_left_alone() -> None:
    world = Aging()
    created(world, COMPACTION_CURSOR, "sub")
    world.published(100)
    world.expire()
    assert world.subscription(COMPACTION_CURSOR).cursor.mark_delete == -1
    assert world.subscription().cursor.mark_delete == 0


def test_a_reader_does_not_get_what_has_expired_either() -> None:
    world = Aging()
    reader = world.subscribe(sub="reader", durable=False, earliest=True)
    world.published(100, 0)
    world.expire()
    world.flow(reader, 10)
    assert world.offsets(reader) == [1]


def test_delayed_messages_expire_too() -> None:
    world = Aging()
    consumer = world.subscribe(sub_type=SHARED, permits=10)
    now_ms = world.clock.now_ms()
    world.publish(entry(now_ms - 100_000, deliver_at_ms=now_ms + 10_000_000))
    world.expire()
    assert world.subscription().cursor.mark_delete == 0
    world.clock.advance(20_000)
    assert world.offsets(consumer) == []


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_consumers_hold_nothing_that_has_expired(sub_type: int) -> None:
    world = Aging(replace(TTL, max_unacked_per_consumer=2))
    consumer = world.subscribe(sub_type=sub_type, permits=10)
    world.published(100, 90, 0, 0)
    assert world.offsets(consumer) == [0, 1]
    assert consumer.blocked
    world.expire()
    assert world.offsets(consumer) == [2, 3]
    assert consumer.unacked == 2
    assert world.ack(consumer, 0) == [None], "it comes too late, and has no effect"
    assert consumer.unacked == 2


def test_what_has_expired_is_not_delivered_again() -> None:
    world = Aging()
    leaving, staying = (world.subscribe(sub_type=SHARED, permits=1) for _ in range(2))
    world.published(100, 0)
    world.expire()
    leaving.close()
    world.flow(staying, 10)
    taken = world.offsets(staying)
    assert sorted(taken) in ([0, 1], [1])
    assert taken.count(1) == 1


def test_a_topic_with_nothing_to_expire_is_not_read() -> None:
    world = Aging(cache_bytes=0)
    created(world, "sub")
    world.published(*range(50, 0, -1))
    world.expire()
    read, world.topic.log.entries.read = world.topic.log.entries.read, not_read  # type: ignore[assignment]
    world.clock.advance(5)
    world.expire()
    world.topic.log.entries.read = read  # type: ignore[method-assign]
    assert world.subscription().cursor.mark_delete == -1
    world.clock.advance(10)
    world.expire()
    assert world.subscription().cursor.mark_delete == 4


async def not_read(*_: object) -> None:
    raise AssertionError("nothing need be read")


def test_a_single_subscription_expires_at_any_age() -> None:
    world = Aging(TopicLimits())
    created(world, "one", "other")
    world.published(100, 50, 0)
    world.do(expire_older(world.topic, 40, [world.subscription("one")]))
    assert world.subscription("one").cursor.mark_delete == 1
    assert world.subscription("other").cursor.mark_delete == -1


@pytest.mark.parametrize(
    ("rotten", "mark_delete"), [({0}, 5), ({1}, 2), ({2}, 5), ({0, 1}, -1), ({0, 1, 2}, -1)]
)
def test_what_is_damaged_expires_with_what_is_behind_it(rotten: set[int], mark_delete: int) -> None:
    world = Aging(cache_bytes=0)
    created(world, "sub")
    for seconds_ago in (100, 99, 98, 97, 96, 95, 5, 4, 3):
        world.published(seconds_ago)
    world.store.rotten |= {world.topic.log.segments[number].id for number in rotten}
    world.expire()
    assert world.subscription().cursor.mark_delete == mark_delete


@settings(max_examples=examples(50))
@given(
    ages=st.lists(st.integers(0, 120), max_size=12).map(lambda ages: sorted(ages, reverse=True)),
    acked=st.sets(st.integers(0, 11)),
)
def test_exactly_what_is_too_old_expires(ages: list[int], acked: set[int]) -> None:
    world = Aging()
    consumer = world.subscribe(sub_type=SHARED, permits=20)
    if ages:
        world.published(*ages)
    acked = {offset for offset in acked if offset < len(ages)}
    if acked:
        world.ack(consumer, *acked)
    world.expire()
    cursor = world.subscription().cursor
    old = {offset for offset, age in enumerate(ages) if age > 60}
    assert {o for o in range(len(ages)) if cursor.is_acked(o)} == old | acked
    assert world.subscription().messages_expired == len(old - acked)


# Subscriptions ----------------------------------------------------------------------------


def test_an_unused_subscription_expires(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = Aging(IDLE)
    created(world, "sub", COMPACTION_CURSOR)
    for _ in range(4):
        world.look()
        assert "sub" in world.topic.subscriptions
    world.look()
    assert list(world.topic.subscriptions) == [COMPACTION_CURSOR]
    assert "is deleted after 20 idle minutes" in caplog.text
    world.crash()
    assert list(world.topic.subscriptions) == [COMPACTION_CURSOR]


def test_without_a_limit_none_ends_and_nothing_is_kept_in_mind() -> None:
    world = Aging(TopicLimits())
    created(world, "sub")
    for _ in range(100):
        world.look()
    assert "sub" in world.topic.subscriptions
    assert world.topic.idleness is None


def test_one_with_a_consumer_is_in_use() -> None:
    world = Aging(IDLE)
    consumer = world.subscribe()
    for _ in range(100):
        world.look()
    consumer.close()
    for _ in range(3):
        world.look()
    assert "sub" in world.topic.subscriptions
    world.look()
    world.look()
    assert "sub" not in world.topic.subscriptions


def test_a_consumer_between_two_checks_counts_as_use() -> None:
    world = Aging(IDLE)
    created(world, "sub")
    for _ in range(20):
        world.look()
        world.subscribe().close()
    assert "sub" in world.topic.subscriptions


def test_moving_the_cursor_is_a_use() -> None:
    world = Aging(IDLE)
    created(world, "sub")
    world.published(*range(20))
    for offset in range(1, 20):
        world.look()
        world.subscription().skip(range(offset))
    assert "sub" in world.topic.subscriptions


def test_a_restart_neither_ends_one_nor_forgets_for_how_long_it_was_idle() -> None:
    world = Aging(IDLE)
    created(world, "sub")
    for _ in range(4):
        world.look()
    world.do(world.topic.close())
    world.clock.advance(100 * 24 * 3600)  # the broker is down
    world.reload()
    world.look()
    assert "sub" in world.topic.subscriptions
    world.look()
    assert "sub" not in world.topic.subscriptions


def test_a_crash_may_forget_an_eighth_of_the_time() -> None:
    world = Aging(TopicLimits(subscription_expiration_minutes=400))
    created(world, "sub")
    for _ in range(40):
        world.look()
    world.crash()
    looks = 0
    while "sub" in world.topic.subscriptions:
        world.look()
        looks += 1
    assert 400 // 5 + 2 <= 40 + looks <= 400 // 5 + 2 + 10


def test_a_clock_that_is_set_changes_nothing() -> None:
    world = Aging(IDLE)
    created(world, "sub")
    world.look()
    world.clock.set_forward(10**10)
    world.look()
    assert "sub" in world.topic.subscriptions


def test_one_that_was_made_anew_begins_anew() -> None:
    world = Aging(IDLE)
    created(world, "sub")
    for _ in range(4):
        world.look()
    world.do(world.subscription().delete())
    created(world, "sub")
    for _ in range(4):
        world.look()
    assert "sub" in world.topic.subscriptions


def test_a_reader_ends_by_itself() -> None:
    world = Aging(IDLE)
    world.subscribe(sub="reader", durable=False, sub_type=EXCLUSIVE)
    for _ in range(10):
        world.look()
    assert [one.name for one in expiring_subscriptions(world.topic)] == ["reader"]


@settings(max_examples=examples(50))
@example([*["look"] * 4, "restart", "use", "restart", "look", "look"])
@given(st.lists(st.sampled_from(["look", "look", "look", "use", "restart", "crash"]), max_size=60))
def test_none_ends_before_its_time(steps: list[str]) -> None:
    world = Aging(IDLE)
    created(world, "sub")
    idle = 0
    for step in steps:
        if step == "look":
            world.look()
            idle += LOOK_SECONDS
        elif step == "use" and "sub" in world.topic.subscriptions:
            world.subscribe().close()
            world.clock.advance(1)  # till it is on disk
            idle = 0
        elif step == "restart":
            world.do(world.topic.close())
            world.reload()
        elif step == "crash":
            world.crash()
        if "sub" not in world.topic.subscriptions:
            assert idle >= 20 * 60
            return
