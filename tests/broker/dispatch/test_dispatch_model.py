"""Any history of consumers, permits, acks, redeliveries, seeks and crashes, against a model.

`make model` looks for longer.
"""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from effort import examples
from fakes.dispatch_model import DispatchModel, Kind
from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld
from magnetar_broker.limits.topic_limits import TopicLimits

EXAMPLES = int(os.environ.get("DISPATCH_EXAMPLES", examples(150)))

which = st.integers(0, 3)
small = st.integers(0, 12)
kinds = st.builds(
    Kind,
    key=st.integers(0, 3),
    delay_ms=st.sampled_from([0, 0, 0, 0, 500, 2500, 9000]),
    chunks=st.sampled_from([0, 0, 0, 0, 2, 3]),
)
permits = st.one_of(st.integers(1, 13), st.just(1000))
UPSETS_APART = 7
"""Steps between crashes and seeks at least: right after one there is little to go wrong."""


class History(RuleBasedStateMachine):
    """What happens to one subscription."""

    def __init__(self, sub_type: int) -> None:
        super().__init__()
        self.sub_type = sub_type
        self.calm = 0

    def has_clients(self) -> bool:
        return bool(self.model.clients)

    def holds(self) -> bool:
        return bool(self.model.held(*self.model.clients))

    def is_calm(self) -> bool:
        return self.calm > UPSETS_APART

    @initialize(
        clients=st.sampled_from([1, 2, 3, 0]),
        cached=st.booleans(),
        read_bytes=st.sampled_from([1 << 20, 1, 2000]),
        per_consumer=st.sampled_from([0, 1, 5]),
        per_subscription=st.sampled_from([0, 1, 9]),
        partition=st.sampled_from(["", "-partition-1"]),
        strict=st.booleans(),
        ring=st.booleans(),
        look_ahead=st.sampled_from([20_000, 3]),
        out_of_order=st.booleans(),
    )
    def begin(
        self,
        clients: int,
        cached: bool,
        read_bytes: int,
        per_consumer: int,
        per_subscription: int,
        partition: str,
        strict: bool,
        ring: bool,
        look_ahead: int,
        out_of_order: bool,
    ) -> None:
        limits = TopicLimits(
            max_round_robin_entries=3,
            max_read_entries=4,
            max_unacked_per_consumer=per_consumer,
            max_unacked_per_subscription=per_subscription,
            strict_delays=strict,
            key_shared_ring=ring,
            key_shared_look_ahead_per_subscription=look_ahead,
        )
        name = f"persistent://public/default/topic{partition}"
        world = TopicWorld(limits, roll=BY_THREE, cache_bytes=1 << 20 if cached else 150, name=name)
        world.engine.reading.limit = read_bytes
        self.model = DispatchModel(world, self.sub_type, out_of_order)
        self.model.publish(*(Kind(key=number % 4) for number in range(9)))
        for number in range(clients):
            self.model.join(0)
            self.model.flow(number, 9)
        self.model.advance(1)

    @invariant()
    def a_step_was_made(self) -> None:
        self.calm += 1

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.model.settle()
            self.model.drain()

    @rule(kinds=st.lists(kinds, min_size=1, max_size=4))
    def publish(self, kinds: list[Kind]) -> None:
        self.model.publish(*kinds)

    @rule(priority=st.integers(0, 1), beside=st.none() | which)
    def join(self, priority: int, beside: int | None) -> None:
        self.model.join(priority, beside)

    @precondition(has_clients)
    @rule(which=which)
    def leave(self, which: int) -> None:
        self.model.leave(which)

    @precondition(has_clients)
    @precondition(is_calm)
    @rule(which=which)
    def lose(self, which: int) -> None:
        self.calm = 0
        self.model.lose(which)

    @precondition(is_calm)
    @rule()
    def crash(self) -> None:
        self.calm = 0
        self.model.crash()

    @precondition(has_clients)
    @rule(which=which, permits=permits)
    def flow(self, which: int, permits: int) -> None:
        self.model.flow(which, permits)

    @precondition(has_clients)
    @rule(which=which, room=st.booleans())
    def jam(self, which: int, room: bool) -> None:
        self.model.jam(which, room)

    @precondition(holds)
    @rule(which=which, pick=small, answered=st.booleans())
    def ack(self, which: int, pick: int, answered: bool) -> None:
        self.model.ack(which, pick, answered)

    @precondition(holds)
    @rule(which=which, step=small, answered=st.booleans())
    def ack_many(self, which: int, step: int, answered: bool) -> None:
        self.model.ack_many(which, step, answered)

    @precondition(holds)
    @rule(which=which, pick=small, answered=st.booleans())
    def ack_part(self, which: int, pick: int, answered: bool) -> None:
        self.model.ack_part(which, pick, answered)

    @precondition(has_clients)
    @rule(which=which, pick=small)
    def ack_again(self, which: int, pick: int) -> None:
        self.model.ack_again(which, pick)

    @precondition(holds)
    @rule(which=which, pick=small, part=st.booleans())
    def ack_up_to(self, which: int, pick: int, part: bool) -> None:
        self.model.ack_up_to(which, pick, part)

    @precondition(holds)
    @rule(which=which, pick=small)
    def nack(self, which: int, pick: int) -> None:
        self.model.nack(which, pick)

    @precondition(holds)
    @rule(which=which)
    def nack_all(self, which: int) -> None:
        self.model.nack_all(which)

    @precondition(is_calm)
    @rule(to=st.integers(0, 40), keep=st.integers(0, 3))
    def seek(self, to: int, keep: int) -> None:
        self.calm = 0
        self.model.seek(to, keep)

    @precondition(is_calm)
    @rule(to=st.integers(0, 40))
    def seek_to_time(self, to: int) -> None:
        self.calm = 0
        self.model.seek_to_time(to)

    @rule(to=st.integers(0, 40))
    def expire(self, to: int) -> None:
        self.model.expire(to)

    @rule(messages=st.integers(0, 9))
    def skip(self, messages: int) -> None:
        self.model.skip(messages)

    @precondition(is_calm)
    @rule()
    def skip_all(self) -> None:
        self.calm = 0
        self.model.skip_all()

    @rule()
    def trim(self) -> None:
        self.model.trim()

    @rule(rate=st.sampled_from([0, 2, 7]))
    def limit(self, rate: int) -> None:
        self.model.limit(rate)

    @rule(seconds=st.integers(0, 2))
    def advance(self, seconds: int) -> None:
        self.model.advance(seconds)

    @rule()
    def settle(self) -> None:
        self.model.settle()

    often_flow = more_often_flow = flow
    often_ack, often_ack_many, often_ack_part = ack, ack_many, ack_part
    often_nack = more_often_nack = nack
    """A rule with several names is followed as many times as often."""


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_nothing_is_lost_doubled_or_forgotten(sub_type: int) -> None:
    run_state_machine_as_test(
        lambda: History(sub_type),  # type: ignore[arg-type]  # any that makes one will do
        settings=settings(max_examples=EXAMPLES, stateful_step_count=40),
    )
