"""One coroutine at a time, in the order of asking, however an owner's turn ends."""

import asyncio

import pytest

from fakes.loop_world import LoopClock, turns
from fakes.world import ManualClock, run, start
from magnetar_storage.runtime.mutex import KeyedMutex, Mutex


def test_others_wait_until_it_is_given_back() -> None:
    clock = ManualClock()
    mutex, gate = Mutex(clock), clock.promise()
    seen: list[str] = []

    async def turn(name: str) -> None:
        async with mutex.held():
            seen.append(f"{name} begins")
            if name == "first":
                await gate
            seen.append(f"{name} ends")

    turns = [start(turn(name)) for name in ("first", "second", "third")]
    assert seen == ["first begins"]
    gate.set_result(None)
    clock.advance(0)
    assert all(each.done() for each in turns)
    assert seen[1] == "first ends"
    assert seen[2:4] == ["second begins", "second ends"]
    assert seen[4:] == ["third begins", "third ends"]
    assert not mutex.is_held


def test_a_failure_gives_it_back() -> None:
    clock = ManualClock()
    mutex = Mutex(clock)

    async def fails() -> None:
        async with mutex.held():
            raise ValueError("no luck")

    async def works() -> bool:
        async with mutex.held():
            return True

    with pytest.raises(ValueError, match="no luck"):
        run(fails(), clock)
    assert run(works(), clock)


async def test_an_owner_that_acquires_again_does_not_overtake_the_waiters() -> None:
    mutex = Mutex(LoopClock())
    order: list[str] = []

    async def greedy() -> None:
        for _ in range(3):
            async with mutex.held():
                order.append("greedy")
                await turns(1)

    async def patient(name: str) -> None:
        async with mutex.held():
            order.append(name)

    await asyncio.gather(greedy(), patient("a"), patient("b"))
    assert order == ["greedy", "a", "b", "greedy", "greedy"]


async def test_a_cancelled_waiter_loses_its_turn_and_nothing_else() -> None:
    mutex = Mutex(LoopClock())
    order: list[str] = []

    async def turn(name: str) -> None:
        async with mutex.held():
            order.append(name)

    async with mutex.held():
        waiters = [asyncio.create_task(turn(name)) for name in "abc"]
        await turns()
        waiters[1].cancel()
        await turns()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert order == ["a", "c"]
    assert waiters[1].cancelled()
    assert not mutex.is_held


async def test_a_waiter_cancelled_as_its_turn_comes_passes_it_on() -> None:
    mutex = Mutex(LoopClock())
    order: list[str] = []

    async def turn(name: str) -> None:
        async with mutex.held():
            order.append(name)

    async with mutex.held():
        waiters = [asyncio.create_task(turn(name)) for name in "ab"]
        await turns()
    waiters[0].cancel()  # it owns the mutex already, and has not run since
    await asyncio.gather(*waiters, return_exceptions=True)
    assert order == ["b"]
    assert waiters[0].cancelled()
    assert not mutex.is_held


async def test_a_waiter_cancelled_just_before_the_release_is_passed_over() -> None:
    mutex = Mutex(LoopClock())
    order: list[str] = []

    async def turn(name: str) -> None:
        async with mutex.held():
            order.append(name)

    async with mutex.held():
        waiters = [asyncio.create_task(turn(name)) for name in "ab"]
        await turns()
        waiters[0].cancel()  # its promise is settled, its coroutine has not run since
    await asyncio.gather(*waiters, return_exceptions=True)
    assert order == ["b"]
    assert not mutex.is_held


async def test_keys_wait_for_themselves_only() -> None:
    mutex: KeyedMutex[str] = KeyedMutex(LoopClock())
    order: list[str] = []

    async def turn(key: str, name: str) -> None:
        async with mutex.held(key):
            order.append(name)
            await turns(2)

    await asyncio.gather(turn("x", "x1"), turn("x", "x2"), turn("y", "y1"), turn("x", "x3"))
    assert order == ["x1", "y1", "x2", "x3"]


async def test_a_key_is_held_until_its_last_waiter_has_left() -> None:
    mutex: KeyedMutex[str] = KeyedMutex(LoopClock())

    async def turn() -> None:
        async with mutex.held("key"):
            assert mutex.is_held("key")

    async with mutex.held("key"):
        waiters = [asyncio.create_task(turn()) for _ in range(2)]
        await turns()
        waiters[0].cancel()
        await turns()
        assert mutex.is_held("key")
        assert not mutex.is_held("another key")
    await asyncio.gather(*waiters, return_exceptions=True)
    assert not mutex.is_held("key")


async def test_a_failure_gives_the_key_back() -> None:
    mutex: KeyedMutex[str] = KeyedMutex(LoopClock())
    with pytest.raises(ValueError, match="no luck"):
        async with mutex.held("key"):
            raise ValueError("no luck")
    assert not mutex.is_held("key")
