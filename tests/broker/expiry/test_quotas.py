"""Backlog quotas: who is stopped, and what is passed over."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld, entry
from magnetar_broker.base.errors import ProducerBlocked, QuotaExceeded
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.expiry.quotas import (
    admit_producer,
    backlog_bytes,
    backlog_seconds,
    enforce_quotas,
)
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.producers.access import Claim, Mode
from magnetar_proto.names import TopicName

HOLD, RAISE, EVICT = (
    QuotaAction.PRODUCER_REQUEST_HOLD,
    QuotaAction.PRODUCER_EXCEPTION,
    QuotaAction.CONSUMER_BACKLOG_EVICTION,
)
SIZE = len(entry(1_700_000_000_000, payload=bytes(100)))


def by_size(limit: int, action: QuotaAction = HOLD) -> TopicLimits:
    return TopicLimits(size_quota=BacklogQuota(limit, action))


def by_age(seconds: int, action: QuotaAction = HOLD, precise: bool = True) -> TopicLimits:
    return TopicLimits(age_quota=BacklogQuota(seconds, action), precise_ages=precise)


class Backlogged(TopicWorld):
    """A topic with a subscription without consumers."""

    def __init__(self, limits: TopicLimits, *subscriptions: str) -> None:
        super().__init__(limits, BY_THREE)
        for name in subscriptions or ("sub",):
            self.do(self.topic.subscriptions.create(name, 0, {}))

    def publish_now(self, entries: int, delay_ms: int | None = None) -> None:
        now_ms = self.clock.now_ms()
        due = None if delay_ms is None else now_ms + delay_ms
        self.publish(*[entry(now_ms, payload=bytes(100), deliver_at_ms=due)] * entries)

    def sweep(self) -> None:
        self.do(enforce_quotas(self.topic))
        self.clock.pump()

    def come(self) -> None:
        """A producer asks to be let in."""
        self.do(admit_producer(self.topic))

    def skip(self, entries: int, name: str = "sub") -> None:
        self.subscription(name).skip(range(entries))

    @property
    def left(self) -> int:
        """The entries that the subscription has not acknowledged."""
        return self.subscription().counter.entries()


# What counts ------------------------------------------------------------------------------


def test_the_backlog_is_that_of_the_slowest_durable_subscription() -> None:
    world = Backlogged(TopicLimits(), "slow", "fast")
    world.subscribe(sub="reader", durable=False, earliest=True)
    world.publish_now(10)
    world.skip(7, "fast")
    assert backlog_bytes(world.topic) == 10 * SIZE
    world.skip(4, "slow")
    assert backlog_bytes(world.topic) == 6 * SIZE


def test_without_subscriptions_nothing_waits() -> None:
    world = TopicWorld(by_size(1))
    world.publish(entry(0))
    assert backlog_bytes(world.topic) == 0
    assert world.do(backlog_seconds(world.topic)) == 0
    world.do(admit_producer(world.topic))


def test_the_brokers_own_subscription_does_not_count() -> None:
    world = Backlogged(by_size(1), COMPACTION_CURSOR)
    world.publish_now(10)
    world.come()


def test_what_was_acknowledged_in_between_does_not_count() -> None:
    world = Backlogged(TopicLimits())
    consumer = world.subscribe(sub_type=SHARED)
    world.publish_now(10)
    world.ack(consumer, 1, 2, 5)
    assert backlog_bytes(world.topic) == 7 * SIZE


def test_a_precise_age_is_that_of_the_oldest_message() -> None:
    world = Backlogged(by_age(10**9))
    world.publish_now(1)
    world.clock.advance(50)
    world.publish_now(1)
    assert world.do(backlog_seconds(world.topic)) == 50
    world.skip(1)
    assert world.do(backlog_seconds(world.topic)) == 0
    world.clock.advance(7)
    assert world.do(backlog_seconds(world.topic)) == 7
    world.skip(2)
    assert world.do(backlog_seconds(world.topic)) == 0


def test_else_age_counts_from_when_the_segment_was_closed() -> None:
    world = Backlogged(by_age(10**9, precise=False))
    world.publish_now(2)
    world.clock.advance(50)
    assert world.do(backlog_seconds(world.topic)) == 0
    world.publish_now(1)
    world.clock.advance(20)
    assert world.do(backlog_seconds(world.topic)) == 20
    world.skip(3)
    assert world.do(backlog_seconds(world.topic)) == 0


def test_delayed_messages_have_no_age_but_a_size() -> None:
    world = Backlogged(by_age(10**9))
    world.publish_now(1, delay_ms=10**8)
    world.clock.advance(50)
    assert world.do(backlog_seconds(world.topic)) == 0
    assert backlog_bytes(world.topic) > 0
    world.publish_now(1)
    world.clock.advance(3)
    assert world.do(backlog_seconds(world.topic)) == 3


def test_a_clock_that_was_set_back_makes_nothing_old() -> None:
    world = Backlogged(by_age(1))
    world.publish_now(1)
    world.clock.set_forward(-(10**6))
    assert world.do(backlog_seconds(world.topic)) == 0


# Producers --------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "refusal"), [(HOLD, ProducerBlocked), (RAISE, QuotaExceeded)])
def test_producers_are_refused_while_too_much_waits(
    action: QuotaAction, refusal: type[Exception]
) -> None:
    world = Backlogged(by_size(3 * SIZE, action))
    world.publish_now(2)
    world.come()
    world.publish_now(1)
    with pytest.raises(refusal, match="backlogQuota of the broker"):
        world.come()
    world.skip(1)
    world.come()


def test_size_is_looked_at_before_age() -> None:
    limits = replace(by_size(1, RAISE), age_quota=BacklogQuota(1, HOLD), precise_ages=True)
    world = Backlogged(limits)
    world.publish_now(1)
    world.clock.advance(5)
    with pytest.raises(QuotaExceeded, match="bytes"):
        world.come()
    world.topic.limits = replace(limits, size_quota=BacklogQuota(10**6, RAISE))
    with pytest.raises(ProducerBlocked, match="seconds"):
        world.come()


def test_eviction_refuses_no_producer() -> None:
    world = Backlogged(by_size(1, EVICT))
    world.publish_now(5)
    world.come()


def test_quotas_that_are_switched_off_stop_no_producer() -> None:
    world = Backlogged(replace(by_size(1), keeps_quotas=False))
    world.publish_now(5)
    world.come()
    world.sweep()
    assert len(world.topic.producers) == 1


@pytest.mark.parametrize("action", [HOLD, RAISE])
def test_connected_producers_are_closed(
    action: QuotaAction, caplog: pytest.LogCaptureFixture
) -> None:
    world = Backlogged(by_size(3 * SIZE, action))
    connection = RecordingConnection()
    world.producer(connection, name="other")
    world.publish_now(2)
    world.sweep()
    assert len(world.topic.producers) == 2
    world.publish_now(1)
    world.sweep()
    assert connection.closed_producers == [1]
    assert not len(world.topic.producers)
    assert caplog.text.count("producers are disconnected") == 1
    world.sweep()
    assert caplog.text.count("producers are disconnected") == 1, "none is left to be"


def test_waiters_for_the_topic_get_the_reason() -> None:
    world = Backlogged(by_size(SIZE))
    first = world.producer(name="first", claim=Claim(Mode.EXCLUSIVE, None))
    waiting = world.producer(name="second", claim=Claim(Mode.WAITING, None))
    turns: list[object] = []
    waiting.on_turn = turns.append
    world.send(first, entry(0, payload=bytes(200)))
    world.clock.pump()
    world.sweep()
    assert [type(turn) for turn in turns] == [ProducerBlocked]


def test_consumers_continue_while_a_quota_is_full() -> None:
    world = Backlogged(by_size(SIZE))
    world.publish_now(5)
    world.sweep()
    consumer = world.subscribe(sub_type=EXCLUSIVE, permits=10)
    assert world.offsets(consumer) == [0, 1, 2, 3, 4]
    world.ack(consumer, 4, cumulative=True)
    world.come()


# Eviction ---------------------------------------------------------------------------------


def test_the_slowest_are_brought_to_nine_tenths_of_the_size() -> None:
    world = Backlogged(by_size(10 * SIZE, EVICT), "sub", "fast")
    world.publish_now(20)
    world.skip(15, "fast")
    world.sweep()
    assert world.left == 9
    assert world.subscription("fast").counter.entries() == 5
    assert world.topic.evictions == (1, 0)
    world.crash()
    assert world.left == 9, "it is durable"


def test_nothing_is_evicted_below_the_quota() -> None:
    world = Backlogged(by_size(10 * SIZE, EVICT))
    world.publish_now(9)
    world.sweep()
    assert world.left == 9


@pytest.mark.parametrize("precise", [False, True])
def test_what_is_too_old_is_passed_over(precise: bool) -> None:
    world = Backlogged(by_age(60, EVICT, precise))
    for _ in range(4):
        world.publish_now(3)
        world.clock.advance(25)
    world.sweep()
    assert world.left == 6


def test_delayed_messages_are_not_passed_over_for_their_age() -> None:
    world = Backlogged(by_age(60, EVICT))
    world.publish_now(1)
    world.publish_now(1, delay_ms=10**8)
    world.publish_now(1)
    world.clock.advance(61)
    world.sweep()
    cursor = world.subscription().cursor
    assert [cursor.is_acked(offset) for offset in range(3)] == [True, False, True]


@settings(max_examples=examples(60))
@given(
    entries=st.integers(1, 25),
    acked=st.sets(st.integers(0, 24)),
    limit=st.integers(1, 25),
)
def test_as_little_is_evicted_as_is_needed(entries: int, acked: set[int], limit: int) -> None:
    world = Backlogged(by_size(limit * SIZE, EVICT))
    consumer = world.subscribe(sub_type=SHARED)
    world.publish_now(entries)
    acked &= set(range(entries))
    if acked:
        world.ack(consumer, *sorted(acked))
    before = world.left
    world.sweep()
    assert world.left == (before if before < limit else limit * 9 // 10)
    first = world.subscription().next_unacked()
    assert all(o >= first for o in range(entries) if not world.subscription().cursor.is_acked(o))


# Where quotas come from -------------------------------------------------------------------


def test_system_topics_have_none() -> None:
    name = "persistent://public/default/__change_events"
    world = TopicWorld(by_size(1), name=name, settings=Settings())
    assert TopicName.parse(name).is_system
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.publish(entry(0))
    world.do(admit_producer(world.topic))
