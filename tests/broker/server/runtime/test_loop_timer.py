"""Each stretch of the loop is counted once, under its cause."""

import asyncio
import gc
from collections.abc import Iterator
from itertools import count

import pytest

from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.loop_timer import LoopTimer, timed
from magnetar_storage.runtime.execution import yield_turn


def times(loop_timer: LoopTimer) -> dict[str, int]:
    """Return the number of stretches of each cause that occurred."""
    found = {cause: of.buckets[-1][1] for cause, of in loop_timer.stats.figures().items()}
    return {cause: n for cause, n in found.items() if n and cause != "garbage"}


@pytest.fixture
def loop_timer() -> LoopTimer:
    """Return stretches with a timer that advances a second each time it is read."""
    seconds = count()
    return LoopTimer(timer=lambda: float(next(seconds)))


async def test_calls_of_the_clock_and_timers(loop_timer: LoopTimer) -> None:
    clock = LoopClock(asyncio.get_running_loop(), loop_timer)
    called = asyncio.Event()
    clock.soon(lambda: None)
    clock.soon(lambda: None, "journal")
    clock.later(0, called.set)
    await called.wait()
    assert times(loop_timer) == {"other": 1, "journal": 1, "timer": 1}
    assert loop_timer.stats.figures()["journal"].sum == 1.0


class Socket:
    """The protocol of a socket, which fails for negative numbers of bytes."""

    def __init__(self, loop_timer: LoopTimer) -> None:
        self.loop_timer = loop_timer
        self.taken = 0

    @timed("read")
    def buffer_updated(self, count: int) -> None:
        if count < 0:
            raise ValueError("defect")
        self.taken += count


def test_a_method_that_a_socket_calls_is_counted_even_if_it_fails(loop_timer: LoopTimer) -> None:
    socket = Socket(loop_timer)
    socket.buffer_updated(5)
    socket.buffer_updated(7)
    with pytest.raises(ValueError, match="defect"):
        socket.buffer_updated(-1)
    assert (socket.taken, times(loop_timer)) == (12, {"read": 3})
    assert loop_timer.stats.figures()["read"].sum == 3.0


async def test_a_task_is_a_stretch_between_two_waits(loop_timer: LoopTimer) -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop, loop_timer)
    ended = loop.create_future()

    async def work() -> None:
        await yield_turn(clock)
        await yield_turn(clock)
        ended.set_result("done")

    LoopTasks(loop, loop_timer).spawn(work(), "compaction")
    assert await ended == "done"
    assert times(loop_timer) == {"compaction": 3, "other": 2}


async def test_a_failed_or_cancelled_task_is_counted_and_ends(loop_timer: LoopTimer) -> None:
    loop = asyncio.get_running_loop()

    async def fail() -> None:
        raise ValueError("defect")

    with pytest.raises(ValueError, match="defect"):
        await loop.create_task(loop_timer.measured("http", fail()))
    waiting = loop.create_task(loop_timer.measured("http", _forever()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert times(loop_timer) == {"http": 3}


async def test_results_of_threads(loop_timer: LoopTimer) -> None:
    workers = ThreadWorkers(asyncio.get_running_loop(), loop_timer)
    try:
        for worker in (workers.journal, workers.background, workers.metadata):
            assert await worker.run(lambda: "result") == "result"
    finally:
        workers.stop()
    assert times(loop_timer) == {"journal": 1, "write_behind": 1, "metadata": 1}


def test_a_failing_call_is_counted(loop_timer: LoopTimer) -> None:
    with pytest.raises(ZeroDivisionError):
        loop_timer.run("read", lambda: 1 // 0)
    assert times(loop_timer) == {"read": 1}


@pytest.fixture
def watching(loop_timer: LoopTimer) -> Iterator[LoopTimer]:
    loop_timer.watch_garbage()
    yield loop_timer
    loop_timer.ignore_garbage()


def test_collections_of_garbage(watching: LoopTimer) -> None:
    before = watching.stats.figures()["garbage"].buckets[-1][1]
    gc.collect()
    assert watching.stats.figures()["garbage"].buckets[-1][1] > before


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
