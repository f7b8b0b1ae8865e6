"""Requests with a time limit."""

import pytest

from fakes.links import Joined
from fakes.world import start
from magnetar_broker.ipc.answer_within import answer_within
from magnetar_storage.errors import ProcessUnavailable


def test_an_answer_in_time() -> None:
    joined = Joined()
    joined.right.serve({"double": lambda number: 2 * number})
    joined.connect()
    answer = start(answer_within(joined.clock, 5, joined.left, "double", 4))
    joined.clock.pump()
    assert answer.result() == 8


def test_a_peer_that_is_silent() -> None:
    joined = Joined()
    joined.right.serve({"double": lambda number: 2 * number})
    joined.connect()
    joined.to_right.held = True
    answer = start(answer_within(joined.clock, 5, joined.left, "double", 4))
    joined.clock.advance(4.9)
    assert not answer.done()
    joined.clock.advance(0.2)
    with pytest.raises(
        ProcessUnavailable, match="the right side has not answered double within 5 s"
    ):
        answer.result()
    joined.to_right.held = False
    joined.to_right.carry()
    joined.clock.pump()  # the answer comes after all, to nobody
    assert not joined.left.has_ended
    later = start(answer_within(joined.clock, 5, joined.left, "double", 5))
    joined.clock.pump()
    assert later.result() == 10


def test_a_peer_that_ends() -> None:
    joined = Joined().connect()
    joined.to_right.held = True
    answer = start(answer_within(joined.clock, 5, joined.left, "double", 4))
    joined.cut()
    joined.clock.pump()
    with pytest.raises(ProcessUnavailable, match="has ended"):
        answer.result()
