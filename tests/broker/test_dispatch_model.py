"""Any history of consumers, permits, acks and redeliveries, against a model."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.dispatch_model import DispatchModel
from fakes.logs import BY_THREE
from fakes.topics import TYPES, TopicWorld
from magnetar_broker.limits import TopicLimits

which = st.integers(0, 3)
small = st.integers(0, 12)
Step = tuple[str, int, int]

STEPS: dict[str, Callable[[DispatchModel, int, int], None]] = {
    "publish": lambda model, which, number: model.publish(number % 5 + 1),
    "join": lambda model, which, number: model.join(number % 2),
    "leave": lambda model, which, number: model.leave(which),
    "flow": lambda model, which, number: model.flow(which, number + 1),
    "ack": DispatchModel.ack,
    "ack_many": DispatchModel.ack_many,
    "ack_part": DispatchModel.ack_part,
    "ack_up_to": DispatchModel.ack_up_to,
    "nack": DispatchModel.nack,
    "nack_all": DispatchModel.nack_all,
    "jam": DispatchModel.jam,
    "tidy": lambda model, which, number: model.tidy(),
    "advance": lambda model, which, number: model.advance(number % 3),
    "settle": lambda model, which, number: model.settle(),
}
OFTEN = ["publish", "flow", "flow", "ack", "ack", "ack_many", "ack_part", "nack", "nack"]

histories = st.lists(
    st.tuples(st.sampled_from([*STEPS, *OFTEN]), which, small), min_size=12, max_size=40
)


@pytest.mark.parametrize("sub_type", TYPES)
@given(
    steps=histories,
    clients=st.integers(0, 3),
    cached=st.booleans(),
    per_consumer=st.sampled_from([0, 1, 5]),
    per_subscription=st.sampled_from([0, 1, 9]),
    partition=st.sampled_from(["", "-partition-1"]),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_doubled_or_forgotten(
    sub_type: int,
    steps: list[Step],
    clients: int,
    cached: bool,
    per_consumer: int,
    per_subscription: int,
    partition: str,
) -> None:
    limits = TopicLimits(
        max_round_robin_entries=3,
        max_read_entries=4,
        max_unacked_per_consumer=per_consumer,
        max_unacked_per_subscription=per_subscription,
    )
    name = f"persistent://public/default/topic{partition}"
    world = TopicWorld(limits, roll=BY_THREE, cache_bytes=1 << 20 if cached else 150, name=name)
    model = DispatchModel(world, sub_type)
    model.publish(9)
    for number in range(clients):
        model.join(0)
        model.flow(number, 9)
    model.advance(1)
    for what, which, number in steps:
        STEPS[what](model, which, number)
    model.settle()
    held = {o: mask for o, mask in enumerate(model.left) if mask}
    model.drain()
    assert world.subscription().dispatcher.in_replay == 0
    assert not held or world.subscription().dispatcher.read_offset >= max(held)
