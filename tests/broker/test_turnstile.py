"""How many get in, and in which order."""

from fakes.world import ManualClock, start
from magnetar_broker.turnstile import Turnstile


def test_places_are_given_in_order() -> None:
    turnstile = Turnstile(ManualClock(), 2)
    entering = [start(turnstile.enter()) for _ in range(4)]
    assert [one.done() for one in entering] == [True, True, False, False]
    turnstile.leave()
    assert [one.done() for one in entering] == [True, True, True, False]
    turnstile.leave()
    turnstile.leave()
    late = [start(turnstile.enter()) for _ in range(2)]
    assert [one.done() for one in [*entering, *late]] == [True, True, True, True, True, False]


def test_without_a_limit_nobody_waits() -> None:
    turnstile = Turnstile(ManualClock(), 0)
    assert all(start(turnstile.enter()).done() for _ in range(100))
