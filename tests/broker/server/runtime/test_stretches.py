"""Each stretch of the loop is counted once, under its cause."""

import asyncio
import gc
from collections.abc import Iterator
from itertools import count

import pytest

from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.stretches import Stretches
from magnetar_storage.runtime.execution import yield_turn


def times(stretches: Stretches) -> dict[str, int]:
    """Return the number of stretches of each cause that occurred."""
    found = {cause: of.buckets[-1][1] for cause, of in stretches.stats.figures().items()}
    return {cause: n for cause, n in found.items() if n and cause != "garbage"}


@pytest.fixture
def stretches() -> Stretches:
    """Return stretches with a timer that advances a second each time it is read."""
    seconds = count()
    return Stretches(timer=lambda: float(next(seconds)))


async def test_calls_of_the_clock_and_timers(stretches: Stretches) -> None:
    clock = LoopClock(asyncio.get_running_loop(), stretches)
    called = asyncio.Event()
    clock.soon(lambda: None)
    clock.soon(lambda: None, "journal")
    clock.later(0, called.set)
    await called.wait()
    assert times(stretches) == {"other": 1, "journal": 1, "timer": 1}
    assert stretches.stats.figures()["journal"].sum == 1.0


async def test_a_task_is_a_stretch_between_two_waits(stretches: Stretches) -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop, stretches)
    ended = loop.create_future()

    async def work() -> None:
        await yield_turn(clock)
        await yield_turn(clock)
        ended.set_result("done")

    LoopTasks(loop, stretches).spawn(work(), "compaction")
    assert await ended == "done"
    assert times(stretches) == {"compaction": 3, "other": 2}


async def test_a_failed_or_cancelled_task_is_counted_and_ends(stretches: Stretches) -> None:
    loop = asyncio.get_running_loop()

    async def fail() -> None:
        raise ValueError("defect")

    with pytest.raises(ValueError, match="defect"):
        await loop.create_task(stretches.measured("http", fail()))
    waiting = loop.create_task(stretches.measured("http", _forever()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert times(stretches) == {"http": 3}


async def test_results_of_threads(stretches: Stretches) -> None:
    workers = ThreadWorkers(asyncio.get_running_loop(), stretches)
    try:
        for worker in (workers.journal, workers.background, workers.metadata):
            assert await worker.run(lambda: "result") == "result"
    finally:
        workers.stop()
    assert times(stretches) == {"journal": 1, "write_behind": 1, "metadata": 1}


def test_a_failing_call_is_counted(stretches: Stretches) -> None:
    with pytest.raises(ZeroDivisionError):
        stretches.run("read", lambda: 1 // 0)
    assert times(stretches) == {"read": 1}


@pytest.fixture
def watching(stretches: Stretches) -> Iterator[Stretches]:
    stretches.watch_garbage()
    yield stretches
    stretches.ignore_garbage()


def test_collections_of_garbage(watching: Stretches) -> None:
    before = watching.stats.figures()["garbage"].buckets[-1][1]
    gc.collect()
    assert watching.stats.figures()["garbage"].buckets[-1][1] > before


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
