"""What consumers hold adds up, whatever they do with it."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fakes.connection import RecordingConnection
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.dispatch.base import Blocker, DispatchLimits
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.dispatch.unacked_messages import UnackedMessages


@dataclass
class World:
    limits: DispatchLimits
    durable: bool = True
    woken: int = 0
    consumers: list[Consumer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = UnackedMessages(self.limits, UnackedBudget(), self.durable, self.wake)
        topic = TopicWorld()
        for _ in range(2):
            self.consumers.append(topic.subscribe(RecordingConnection(), 100, sub_type=SHARED))
        self.held.consumers += self.consumers

    def wake(self) -> None:
        self.woken += 1


def test_a_consumer_is_blocked_at_its_limit_and_continues_at_half() -> None:
    world = World(DispatchLimits(max_unacked_per_consumer=4))
    held, (one, other) = world.held, world.consumers
    assert held.room(one) == 4
    held.give_run(one, 10, [2, 3], 5)
    assert (one.blocked, other.blocked, held.room(one), held.room(other)) == (True, False, -1, 4)
    held.acked(other, 11, 1)
    assert (one.unacked, one.blocked, world.woken) == (3, True, 0)
    held.acked(other, 11, 0)
    assert (one.unacked, one.blocked, world.woken) == (2, False, 1)


def test_a_subscription_is_full_at_its_limit_and_continues_below_half() -> None:
    world = World(DispatchLimits(max_unacked_per_subscription=4))
    held, (one, other) = world.held, world.consumers
    held.give(one, 1, 2)
    held.give(other, 2, 2)
    assert (held.full, held.room_for_new(one), held.room(one)) == (
        Blocker.UNACKED_SUBSCRIPTION,
        0,
        one.permits,
    )
    held.take_back(one, [1])
    assert (held.full, world.woken) == (Blocker.UNACKED_SUBSCRIPTION, 0)
    held.acked_whole(one, range(2, 3))
    assert (held.full, world.woken, held.unacked) == (None, 1, 0)


def test_what_is_not_durable_has_no_limits() -> None:
    world = World(DispatchLimits(max_unacked_per_consumer=1, max_unacked_per_subscription=1), False)
    held, (one, _) = world.held, world.consumers
    held.give_run(one, 0, [1] * 9, 9)
    assert (one.blocked, held.full, held.room_for_new(one)) == (False, None, one.permits)


steps = st.lists(
    st.tuples(
        st.sampled_from(["give", "run", "ack", "part", "whole", "back"]),
        st.integers(0, 1),
        st.integers(0, 19),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([0, 3, 9]), st.sampled_from([0, 3, 9]))
def test_the_sums_are_those_of_the_entries(
    steps: list[tuple[str, int, int, int]], per_consumer: int, per_subscription: int
) -> None:
    world = World(DispatchLimits(
        max_unacked_per_consumer=per_consumer, max_unacked_per_subscription=per_subscription
    ))  # fmt: skip
    held = world.held
    for what, which, offset, size in steps:
        one = world.consumers[which]
        owner = held.owner(offset)
        before = owner.pending[offset] if owner else 0
        if what == "give" and owner is None:
            held.give(one, offset, size + 1)
        elif what == "run" and not any(map(held.owner, range(offset, offset + size))):
            held.give_run(one, offset, [2] * size, 2 * size)
        elif what == "ack":
            held.acked(one, offset, 0)
        elif what == "part":
            held.acked(one, offset, size)
            assert owner is None or owner.pending.get(offset, 0) == min(size, before)
        elif what == "whole":
            wanted = range(offset, offset + size)
            assert held.among(wanted) == {o for o in wanted if held.owner(o)}
            held.acked_whole(one, wanted)
            assert not any(map(held.owner, wanted))
        elif what == "back":
            held.take_back(one, [o for o in (offset, offset + 1) if o in one.pending])
        check(world, per_consumer, per_subscription)


def check(world: World, per_consumer: int, per_subscription: int) -> None:
    held = world.held
    for consumer in world.consumers:
        assert consumer.unacked == sum(consumer.pending.values())
        if consumer.blocked:
            assert 2 * consumer.unacked > per_consumer
        else:
            assert consumer.unacked < per_consumer or not per_consumer
    assert held.unacked == sum(consumer.unacked for consumer in world.consumers)
    if held.full:
        assert 2 * held.unacked >= per_subscription
    else:
        assert held.unacked < per_subscription or not per_subscription
