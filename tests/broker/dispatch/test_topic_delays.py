"""Delayed delivery: when, to whom, after restarts and crashes, and with other policies."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.table import DELAYED_DELIVERY
from magnetar_broker.policies.values import DelayedDelivery
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.roll_limits import RollLimits

TICK = 1000
BOTH = pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])


class Delayed(TopicWorld):
    """Entries that are due so many ms after the world began; 0 is at once."""

    def __init__(self, strict: bool = True, **settings: Any) -> None:
        super().__init__(TopicLimits(strict_delays=strict), settings=Settings(**settings))
        self.began = self.clock.now_ms()

    def delayed(self, *after_ms: int) -> None:
        self.publish(*(
            entry(self.began, payload=b"x", deliver_at_ms=self.began + ms if ms else None)
            for ms in after_ms
        ))  # fmt: skip

    def at(self, ms: int) -> None:
        """Let time pass until so long after the beginning."""
        self.clock.advance((self.began + ms - self.clock.now_ms()) / 1000)

    def waiting(self) -> list[tuple[int, int]]:
        return list(self.topic.delays.waiting)

    def policy(self, active: bool = True, tick_ms: int = TICK, max_delay_ms: int = 0) -> None:
        wanted = DelayedDelivery(active, tick_ms, max_delay_ms)
        self.do(self.policies.set(self.name, {DELAYED_DELIVERY: wanted}))
        self.do(self.topic.policies_changed())
        self.clock.pump()

    def blocker(self) -> Blocker:
        return self.subscription().dispatcher.blocker()


def subscribed(world: Delayed, sub_type: int = SHARED, **asked: Any) -> Consumer:
    return world.subscribe(permits=1000, sub_type=sub_type, **asked)


@BOTH
def test_messages_come_when_they_are_due_and_others_at_once(sub_type: int) -> None:
    world = Delayed()
    consumer = subscribed(world, sub_type)
    world.delayed(0, 5000, 3000, 0)
    assert world.offsets(consumer) == [0, 3]
    world.at(2999)
    assert world.offsets(consumer) == []
    world.at(3000)
    assert world.offsets(consumer) == [2]
    world.at(4999)
    assert world.offsets(consumer) == []
    world.at(5000)
    assert world.offsets(consumer) == [1]
    assert not world.waiting()


@BOTH
def test_by_default_no_message_comes_early_and_none_more_than_a_tick_late(sub_type: int) -> None:
    world = Delayed()
    consumer = subscribed(world, sub_type)
    world.delayed(3000, 3400, 6000)
    world.at(2999)
    assert world.offsets(consumer) == []
    world.at(3000)
    assert world.offsets(consumer) == [0]
    world.at(3999)
    assert world.offsets(consumer) == []
    world.at(4400)
    assert world.offsets(consumer) == [1]
    world.at(5999)
    assert world.offsets(consumer) == []
    world.at(6000)
    assert world.offsets(consumer) == [2]


def test_not_strictly_a_message_comes_up_to_a_tick_early_and_never_late() -> None:
    world = Delayed(strict=False)
    consumer = subscribed(world)
    world.delayed(900, 5000)
    assert world.offsets(consumer) == [0]
    world.at(3999)
    assert world.offsets(consumer) == []
    world.at(4000)
    assert world.offsets(consumer) == [1]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_types_with_one_receiver_ignore_delays(sub_type: int) -> None:
    world = Delayed()
    consumer = subscribed(world, sub_type)
    world.at(1000)
    world.delayed(50_000, 0)
    assert world.offsets(consumer) == [0, 1]


def test_two_subscriptions_share_the_delays() -> None:
    world = Delayed()
    one = subscribed(world, sub="one")
    world.delayed(5000, 0)
    other = subscribed(world, KEY_SHARED, sub="other", earliest=True)
    ordered = subscribed(world, EXCLUSIVE, sub="third", earliest=True)
    assert world.offsets(one) == [1]
    assert world.offsets(other) == [1]
    assert world.offsets(ordered) == [0, 1]
    world.at(5000)
    assert world.offsets(one) == world.offsets(other) == [0]
    assert world.offsets(ordered) == []


@BOTH
@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_delivers_nothing_early_and_loses_nothing(sub_type: int, clean: bool) -> None:
    world = Delayed()
    consumer = subscribed(world, sub_type)
    world.delayed(0, 5000, 0, 8000)
    world.ack(consumer, 0)
    if clean:
        world.do(world.topic.close())
        world.reload()
    else:
        world.crash()
    consumer = subscribed(world, sub_type)
    world.clock.pump()
    assert world.offsets(consumer) == [2]
    world.at(4999)
    assert world.offsets(consumer) == []
    world.at(5000)
    assert world.offsets(consumer) == [1]
    world.at(8000)
    assert world.offsets(consumer) == [3]


def test_after_a_crash_entries_that_the_index_missed_are_found_before_they_are_delivered() -> None:
    world = Delayed()
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.delayed(5000)
    world.crash()
    assert not world.waiting(), "nothing of the index was written, nor was it looked for yet"
    consumer = subscribed(world)
    assert world.offsets(consumer) == []
    assert world.waiting() == [(0, 1)]
    world.at(5000)
    assert world.offsets(consumer) == [0]


def test_after_a_crash_the_delays_are_complete_without_a_reader() -> None:
    world = Delayed()
    world.delayed(4000)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.delayed(5000, 0, 7000)
    world.crash()
    assert world.waiting() == [(0, 1)]
    world.clock.pump()
    assert world.waiting() == [(0, 2), (3, 4)]


def test_a_topic_that_never_had_delays_is_not_read_when_it_is_loaded() -> None:
    world = Delayed()
    world.delayed(*[0] * 100)
    reads = world.store.reads
    world.crash()
    world.clock.pump()
    assert world.store.reads == reads


def test_what_came_due_while_the_broker_was_down_is_delivered_in_order() -> None:
    world = Delayed()
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.delayed(5000, 4000, 0, 60_000)
    world.do(world.topic.close())
    world.at(30_000)
    world.reload()
    world.clock.pump()
    consumer = subscribed(world)
    assert world.offsets(consumer) == [0, 1, 2]


def test_what_came_due_is_sent_again_when_it_is_asked_for() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(5000)
    world.at(5000)
    assert world.offsets(consumer) == [0]
    world.nack(consumer, 0)
    assert world.offsets(consumer) == [0]


def test_acknowledged_messages_are_not_delivered_when_they_are_due() -> None:
    world = Delayed()
    ordered = subscribed(world, EXCLUSIVE)
    world.delayed(5000, 6000)
    world.ack(ordered, 0)
    ordered.close()
    consumer = subscribed(world)
    world.at(9000)
    assert world.offsets(consumer) == [1]


def test_a_message_that_a_consumer_holds_is_not_sent_again_when_it_is_due() -> None:
    world = Delayed()
    world.policy(active=False)
    early = subscribed(world)
    world.delayed(5000)
    assert world.offsets(early) == [0]
    world.policy()
    late = subscribed(world, sub="late", earliest=True)
    assert world.offsets(late) == []
    assert world.waiting() == [(0, 1)]
    world.at(5000)
    assert world.offsets(late) == [0]
    assert world.offsets(early) == []


@BOTH
def test_a_seek_leaves_what_is_delayed_delayed(sub_type: int) -> None:
    world = Delayed()
    consumer = subscribed(world, sub_type)
    world.delayed(0, 5000, 0)
    world.ack(consumer, 0, 2)
    world.do(world.subscription().seek(0))
    consumer = subscribed(world, sub_type)
    world.clock.pump()
    assert world.offsets(consumer) == [0, 2]
    world.at(5000)
    assert world.offsets(consumer) == [1]


def test_messages_that_come_due_without_consumers_are_read_in_order() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(5000, 0)
    consumer.close()
    world.at(5000)
    consumer = subscribed(world)
    assert world.offsets(consumer) == [0, 1]


def test_switched_off_all_that_waits_is_delivered_at_once() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(5000, 50_000)
    world.policy(active=False)
    world.clock.advance(0)
    assert world.offsets(consumer) == [0, 1]
    world.delayed(60_000)
    assert world.offsets(consumer) == [2]
    assert not world.waiting()


def test_switched_on_again_what_was_not_delivered_yet_waits() -> None:
    world = Delayed()
    world.policy(active=False)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.delayed(5000)
    world.policy()
    consumer = subscribed(world)
    assert world.offsets(consumer) == []
    world.at(5000)
    assert world.offsets(consumer) == [0]


def test_switched_off_in_the_settings_nothing_is_delayed() -> None:
    world = Delayed(delayed_delivery_enabled=False)
    consumer = subscribed(world)
    world.delayed(50_000)
    assert world.offsets(consumer) == [0]


def test_another_tick_applies_at_once() -> None:
    world = Delayed(strict=False)
    consumer = subscribed(world)
    world.delayed(50_000)
    world.policy(tick_ms=100)
    world.at(49_899)
    assert world.offsets(consumer) == []
    world.at(49_900)
    assert world.offsets(consumer) == [0]


def test_the_wall_clock_may_be_set_forward() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(3_600_000)
    world.clock.set_forward(3_600_000)
    world.clock.advance(60)
    assert world.offsets(consumer) == [0]


def test_nothing_is_left_but_what_waits() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(5000)
    assert world.blocker() is Blocker.DELAY
    world.at(5000)
    assert world.blocker() is Blocker.CAUGHT_UP
    world.ack(consumer, *world.offsets(consumer))
    assert world.blocker() is Blocker.CAUGHT_UP


def test_delayed_messages_are_counted_apart() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.delayed(0, 5000, 6000)
    backlog = world.do(world.subscription().backlog())
    assert (backlog.messages, backlog.delayed, backlog.without_delayed) == (3, 2, 1)
    world.at(6000)
    world.ack(consumer, *world.offsets(consumer))
    backlog = world.do(world.subscription().backlog())
    assert (backlog.messages, backlog.delayed) == (0, 0)


def test_a_run_that_cannot_be_read_now_is_read_later() -> None:
    world = Delayed()
    world.policy(tick_ms=1)
    consumer = subscribed(world)
    world.flow(consumer, 40_000)
    world.delayed(*[5000] * 33_000)
    assert world.topic.log.record.delay_segments
    world.store.read_failure = Unavailable("the disk does not answer")
    world.at(5500)
    assert world.offsets(consumer) == []
    world.store.read_failure = None
    world.at(8000)
    assert len(world.offsets(consumer)) == 33_000


def test_trimmed_entries_leave_the_index() -> None:
    world = Delayed()
    world.engine = replace(world.engine, roll=RollLimits(max_entries=2, min_age_ms=0))
    world.reload()
    world.delayed(5000, 6000)
    world.delayed(0)
    world.do(trim_topic(world.topic))
    assert world.topic.log.first_offset == 2
    assert not world.waiting()


def test_ten_thousand_that_are_due_together_come_in_steps() -> None:
    world = Delayed()
    consumer = subscribed(world)
    world.flow(consumer, 20_000)
    world.delayed(*[5000] * 10_000)
    world.at(4999)
    assert world.offsets(consumer) == []
    world.at(5000)
    assert sorted(world.offsets(consumer)) == list(range(10_000))
