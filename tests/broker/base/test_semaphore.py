"""How many get in, and in which order."""

from fakes.world import ManualClock, start
from magnetar_broker.base.semaphore import Semaphore


def test_places_are_given_in_order() -> None:
    semaphore = Semaphore(ManualClock(), 2)
    entering = [start(semaphore.acquire()) for _ in range(4)]
    assert [one.done() for one in entering] == [True, True, False, False]
    semaphore.release()
    assert [one.done() for one in entering] == [True, True, True, False]
    semaphore.release()
    semaphore.release()
    late = [start(semaphore.acquire()) for _ in range(2)]
    assert [one.done() for one in [*entering, *late]] == [True, True, True, True, True, False]


def test_without_a_limit_nobody_waits() -> None:
    semaphore = Semaphore(ManualClock(), 0)
    assert all(start(semaphore.acquire()).done() for _ in range(100))
