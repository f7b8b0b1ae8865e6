"""Any history of a Key_Shared subscription, against a model."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.key_model import KeyModel
from fakes.logs import BY_THREE
from fakes.topics import TopicWorld
from magnetar_broker.limits.topic_limits import TopicLimits

which = st.integers(0, 4)
small = st.integers(0, 9)

STEPS: dict[str, Callable[[KeyModel, int, int], None]] = {
    "publish": lambda model, which, number: model.publish([which, number, which, number % 3]),
    "join": KeyModel.join,
    "leave": lambda model, which, number: model.leave(which),
    "flow": lambda model, which, number: model.flow(which, number + 1),
    "ack": KeyModel.ack,
    "nack": KeyModel.nack,
    "nack_all": lambda model, which, number: model.nack_all(which),
    "skip": lambda model, which, number: model.skip(number),
    "evict": KeyModel.evict,
    "jam": lambda model, which, number: model.jam(which),
    "restart": lambda model, which, number: model.restart(),
}
OFTEN = ["publish", "publish", "flow", "flow", "join", "leave", "ack", "ack", "ack", "nack"]

histories = st.lists(
    st.tuples(st.sampled_from([*STEPS, *OFTEN]), which, small), min_size=10, max_size=40
)


@pytest.mark.parametrize(
    ("sticky", "out_of_order", "ring"),
    [
        pytest.param(False, False, True, id="ring"),
        pytest.param(False, False, False, id="halves"),
        pytest.param(True, False, False, id="chosen ranges"),
        pytest.param(False, True, True, id="out of order"),
    ],
)
@given(
    steps=histories,
    cached=st.booleans(),
    kept=st.booleans(),
    per_consumer=st.sampled_from([0, 1, 5]),
    per_subscription=st.sampled_from([0, 1, 9]),
    look_ahead=st.sampled_from([0, 1, 4]),
)
@example(
    steps=[*[("publish", 0, 0)] * 7, ("join", 0, 0), ("join", 0, 0), ("skip", 0, 1)],
    cached=False,
    kept=False,
    per_consumer=0,
    per_subscription=1,
    look_ahead=0,
)
@example(
    steps=[
        ("publish", 0, 9),
        ("join", 0, 0),
        ("join", 1, 1),
        *[("publish", 0, 0)] * 4,
        ("leave", 0, 0),
        ("leave", 1, 0),
        ("skip", 0, 2),
    ],
    cached=False,
    kept=False,
    per_consumer=0,
    per_subscription=0,
    look_ahead=0,
)
@settings(max_examples=examples(40))
def test_keys_keep_their_order_and_their_consumer_and_continue(
    sticky: bool,
    out_of_order: bool,
    ring: bool,
    steps: list[tuple[str, int, int]],
    cached: bool,
    kept: bool,
    per_consumer: int,
    per_subscription: int,
    look_ahead: int,
) -> None:
    limits = TopicLimits(
        max_read_entries=4,
        max_unacked_per_consumer=per_consumer,
        max_unacked_per_subscription=per_subscription,
        key_shared_ring=ring,
        key_shared_ring_points=5,
        key_shared_look_ahead_per_subscription=look_ahead,
    )
    world = TopicWorld(limits, roll=BY_THREE, cache_bytes=1 << 20 if cached else 0)
    model = KeyModel(world, sticky, out_of_order)
    model.join(0, 3)
    if not kept:
        world.engine.reading.limit = 1
    for what, which, number in steps:
        STEPS[what](model, which, number)
    model.drain()
