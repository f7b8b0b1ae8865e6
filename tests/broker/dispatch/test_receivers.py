"""What consumers hold adds up, whatever they do with it."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from fakes.connection import RecordingConnection
from fakes.logs import numbered
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.dispatch.base import Blocker, DispatchLimits
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.receivers import Receivers
from magnetar_storage.interfaces import Run

ENTRIES = 25


@dataclass
class World:
    limits: DispatchLimits
    durable: bool = True
    woken: int = 0
    consumers: list[Consumer] = field(default_factory=list)

    def __post_init__(self) -> None:
        topic = TopicWorld()
        topic.publish(*numbered(0, ENTRIES))
        for _ in range(2):
            self.consumers.append(topic.subscribe(RecordingConnection(), 100, sub_type=SHARED))
        stream = topic.subscription()._stream
        stream = replace(stream, limits=self.limits, durable=self.durable)
        self.receivers = Receivers(stream, self.wake)
        for consumer in self.consumers:
            self.receivers.add(consumer)

    def deliver(self, consumer: Consumer, first: int, *counts: int) -> None:
        """Deliver consecutive entries with these numbers of messages."""
        run = Run(first, numbered(first, first + len(counts)), counts)
        self.receivers.deliver(consumer, run, sum(counts))

    def owner(self, offset: int) -> Consumer | None:
        return next((one for one in self.consumers if offset in one.pending), None)

    def wake(self) -> None:
        self.woken += 1


def test_a_consumer_is_blocked_at_its_limit_and_continues_at_half() -> None:
    world = World(DispatchLimits(max_unacked_per_consumer=4))
    receivers, (one, other) = world.receivers, world.consumers
    assert receivers.room(one) == 4
    world.deliver(one, 10, 2, 3)
    assert (one.blocked, other.blocked, receivers.room(one), receivers.room(other)) == (
        True,
        False,
        -1,
        4,
    )
    receivers.acked_in_part(other, 11, 1)
    assert (one.unacked, one.blocked, world.woken) == (3, True, 0)
    receivers.acked_in_part(other, 11, 0)
    assert (one.unacked, one.blocked, world.woken) == (2, False, 1)


def test_a_subscription_is_full_at_its_limit_and_continues_below_half() -> None:
    world = World(DispatchLimits(max_unacked_per_subscription=4))
    receivers, (one, other) = world.receivers, world.consumers
    world.deliver(one, 1, 2)
    world.deliver(other, 2, 2)
    assert (receivers.full, receivers.room_for_new(one), receivers.room(one)) == (
        Blocker.UNACKED_SUBSCRIPTION,
        0,
        one.permits,
    )
    receivers.take_back(one, [1])
    assert (receivers.full, world.woken) == (Blocker.UNACKED_SUBSCRIPTION, 0)
    receivers.acked(one, range(2, 3))
    assert (receivers.full, world.woken, receivers.unacked) == (None, 1, 0)


def test_what_is_not_durable_has_no_limits() -> None:
    world = World(DispatchLimits(max_unacked_per_consumer=1, max_unacked_per_subscription=1), False)
    receivers, (one, _) = world.receivers, world.consumers
    world.deliver(one, 0, *[1] * 9)
    assert (one.blocked, receivers.full, receivers.room_for_new(one)) == (False, None, one.permits)


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
    receivers = world.receivers
    for what, which, offset, size in steps:
        one = world.consumers[which]
        owner = world.owner(offset)
        before = owner.pending[offset] if owner else 0
        if what == "give" and owner is None:
            receivers.deliver_entry(one, offset, b"", size + 1, ())
        elif what == "run" and size and not any(map(world.owner, range(offset, offset + size))):
            world.deliver(one, offset, *[2] * size)
        elif what == "ack":
            receivers.acked_in_part(one, offset, 0)
        elif what == "part":
            receivers.acked_in_part(one, offset, size)
            assert owner is None or owner.pending.get(offset, 0) == min(size, before)
        elif what == "whole":
            wanted = range(offset, offset + size)
            assert receivers.pending_among(wanted) == {o for o in wanted if world.owner(o)}
            receivers.acked(one, wanted)
            assert not any(map(world.owner, wanted))
        elif what == "back":
            receivers.take_back(one, [o for o in (offset, offset + 1) if o in one.pending])
        check(world, per_consumer, per_subscription)


def check(world: World, per_consumer: int, per_subscription: int) -> None:
    receivers = world.receivers
    for consumer in world.consumers:
        assert consumer.unacked == sum(consumer.pending.values())
        if consumer.blocked:
            assert 2 * consumer.unacked > per_consumer
        else:
            assert consumer.unacked < per_consumer or not per_consumer
    assert receivers.unacked == sum(consumer.unacked for consumer in world.consumers)
    if receivers.full:
        assert 2 * receivers.unacked >= per_subscription
    else:
        assert receivers.unacked < per_subscription or not per_subscription
