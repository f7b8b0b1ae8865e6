"""The broker's budget of unacknowledged messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.topics import SHARED, TopicWorld
from fakes.world import ManualClock
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.unread_total import UnreadTotal
from magnetar_broker.throttling.rate_limit import BrokerRates


class Holder:
    def __init__(self) -> None:
        self.unacked = 0
        self.woken = 0

    def resume(self) -> None:
        self.woken += 1


def change(budget: UnackedBudget, holder: Holder, messages: int) -> None:
    holder.unacked += messages
    budget.add(holder, messages)


def test_below_the_limit_all_subscriptions_have_room() -> None:
    budget, one, other = UnackedBudget(100, 0.2), Holder(), Holder()
    assert budget.room(one) == 100
    change(budget, one, 90)
    assert (budget.room(one), budget.room(other)) == (10, 20)


def test_at_the_limit_only_subscriptions_below_their_share_have_room() -> None:
    budget, large, small = UnackedBudget(100, 0.2), Holder(), Holder()
    change(budget, small, 5)
    change(budget, large, 95)
    assert (budget.room(large), budget.room(small)) == (0, 15)
    assert (budget.stops(large), budget.stops(small)) == (True, False)
    change(budget, small, 15)
    assert budget.room(small) == 0
    assert budget.stops(small)


def test_a_stopped_subscription_continues_below_half_of_its_share() -> None:
    budget, large, small = UnackedBudget(100, 0.2), Holder(), Holder()
    change(budget, large, 80)
    change(budget, small, 20)
    assert budget.room(large) == 0
    assert budget.room(small) == 0
    change(budget, small, -10)
    assert (budget.stops(small), small.woken) == (True, 0)
    change(budget, small, -1)
    assert (budget.stops(small), small.woken, budget.room(small)) == (False, 1, 11)
    assert budget.stops(large)


def test_all_continue_when_together_they_hold_less_than_half() -> None:
    budget, one, other = UnackedBudget(100, 0.2), Holder(), Holder()
    change(budget, one, 50)
    change(budget, other, 50)
    assert budget.room(one) <= 0
    assert budget.room(other) <= 0
    change(budget, one, -50)
    assert (one.woken, other.woken) == (1, 0)
    change(budget, other, -1)
    assert (one.woken, other.woken) == (1, 1)
    assert budget.room(other) == 51


def test_the_limit_was_exceeded_only_as_long_as_much_is_out() -> None:
    budget, one, other = UnackedBudget(100, 0.2), Holder(), Holder()
    change(budget, one, 80)
    change(budget, other, 20)
    assert budget.room(other) == 0
    change(budget, other, -20)
    change(budget, one, -80)
    assert (budget.stops(other), budget.room(one)) == (False, 100)


def test_without_a_limit_there_is_no_room_to_ask_for() -> None:
    budget, one = UnackedBudget(), Holder()
    change(budget, one, 10**9)
    with pytest.raises(ValueError, match="limit"):
        budget.room(one)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.booleans()), max_size=60))
def test_no_consumer_stays_stopped_without_reason(steps: list[tuple[int, int, bool]]) -> None:
    budget, holders = UnackedBudget(100, 0.2), [Holder(), Holder(), Holder()]
    for which, messages, gives in steps:
        holder = holders[which]
        if gives:
            room = budget.room(holder)
            change(budget, holder, min(messages, max(room, 0)))
        else:
            change(budget, holder, -min(messages, holder.unacked))
        assert budget.total == sum(one.unacked for one in holders) <= 100 + 3 * 20
        for one in holders:
            assert not budget.stops(one) or (budget.total >= 50 and one.unacked >= 10)
    for one in holders:
        change(budget, one, -one.unacked)
    assert not any(map(budget.stops, holders))


def shared_by(budget: UnackedBudget) -> SharedLimits:
    return SharedLimits(BrokerRates(), budget, UnreadTotal(-1), ClockWatch(ManualClock()))


def shared(world: TopicWorld, permits: int, **asked: Any) -> Consumer:
    return world.subscribe(permits=permits, sub_type=SHARED, **asked)


def test_subscriptions_share_it() -> None:
    budget = UnackedBudget(20, 0.25)
    world = TopicWorld(shared=shared_by(budget))
    first, second = shared(world, 100, sub="first"), shared(world, 100, sub="second")
    world.publish(*[b"x"] * 30)
    assert (len(world.got(first)), len(world.got(second))) == (20, 5)
    names = ("first", "second")
    blockers = [world.subscription(name).dispatcher.blocker() for name in names]
    assert blockers == [Blocker.UNACKED_BROKER] * 2
    world.ack(first, *range(15))
    assert (world.offsets(first), world.offsets(second)) == ([], [])
    world.ack(first, 15)  # nine of both are left, less than half
    assert world.offsets(first)[0] == 20
    assert world.offsets(second)[0] == 5


def test_what_a_consumer_leaves_behind_is_free_again() -> None:
    budget = UnackedBudget(10)
    world = TopicWorld(shared=shared_by(budget))
    first = shared(world, 100, sub="first")
    world.publish(*[b"x"] * 10)
    assert budget.total == 10
    first.close()
    assert budget.total == 0
    second = shared(world, 100, sub="second", earliest=True)
    assert len(world.got(second)) == 10


def test_what_is_not_durable_has_no_part_in_it() -> None:
    budget = UnackedBudget(10)
    world = TopicWorld(shared=shared_by(budget))
    reader = shared(world, 100, durable=False)
    world.publish(*[b"x"] * 30)
    assert (len(world.got(reader)), budget.total) == (30, 0)
