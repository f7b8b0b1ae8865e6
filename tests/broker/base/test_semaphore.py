"""How many get in, and in which order, also when waiting coroutines are cancelled."""

import asyncio

from fakes.world import ManualClock, start
from magnetar_broker.base.semaphore import Semaphore
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock


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


def test_without_a_limit_no_coroutine_waits() -> None:
    semaphore = Semaphore(ManualClock(), 0)
    assert all(start(semaphore.acquire()).done() for _ in range(100))


class Race:
    """A semaphore with one place, which is taken, and two coroutines that wait for it."""

    def __init__(self) -> None:
        self.semaphore = Semaphore(LoopClock(asyncio.get_running_loop()), 1)
        self.waiters: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        await self.semaphore.acquire()
        self.waiters = [asyncio.create_task(self.semaphore.acquire()) for _ in range(2)]
        await asyncio.sleep(0)

    async def check_second_has_place(self) -> None:
        first, second = self.waiters
        await asyncio.wait([first, second], timeout=60)
        assert first.cancelled()
        assert second.done()
        second.result()

    async def check_place_is_free(self) -> None:
        self.semaphore.release()
        await asyncio.wait_for(self.semaphore.acquire(), 60)


async def test_a_cancelled_waiter_is_passed_over() -> None:
    race = Race()
    await race.begin()
    race.waiters[0].cancel()
    await asyncio.wait(race.waiters[:1])
    race.semaphore.release()
    await race.check_second_has_place()
    await race.check_place_is_free()


async def test_a_waiter_cancelled_just_before_the_release_is_passed_over() -> None:
    race = Race()
    await race.begin()
    race.waiters[0].cancel()  # its promise is settled, its coroutine has not run since
    race.semaphore.release()
    await race.check_second_has_place()
    await race.check_place_is_free()


async def test_a_waiter_cancelled_as_it_gets_its_place_passes_it_on() -> None:
    race = Race()
    await race.begin()
    race.semaphore.release()
    race.waiters[0].cancel()  # the place is its own already, and it has not run since
    await race.check_second_has_place()
    await race.check_place_is_free()


async def test_places_are_free_after_all_waiters_were_cancelled() -> None:
    race = Race()
    await race.begin()
    for waiter in race.waiters:
        waiter.cancel()
    await asyncio.wait(race.waiters)
    await race.check_place_is_free()
