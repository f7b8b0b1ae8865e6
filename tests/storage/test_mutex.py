"""One coroutine at a time, whatever ends its turn."""

import pytest

from fakes.world import ManualClock, run, start
from magnetar_storage.mutex import Mutex


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
