"""Coroutines that begin at once, on the event loop and on a clock of the test's."""

import asyncio

import pytest

from fakes.loop_world import LoopTasks
from fakes.world import ManualClock, ManualTasks
from magnetar_broker.ipc.begin import begin


def test_what_does_not_wait_is_done_on_return() -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        seen.append(name)

    clock = ManualClock()
    begin(ManualTasks(clock), work("a"), "link")
    begin(ManualTasks(clock), work("b"), "link")
    assert seen == ["a", "b"]
    assert not clock.step()


def test_what_waits_goes_on_as_a_task() -> None:
    clock = ManualClock()
    gate, seen = clock.promise(), list[str]()

    async def work() -> None:
        seen.append("began")
        seen.append(await gate)

    begin(ManualTasks(clock), work(), "link")
    assert seen == ["began"]
    gate.set_result("opened")  # before the task begins
    clock.pump()
    assert seen == ["began", "opened"]


def test_an_error_before_the_first_wait_is_raised() -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        begin(ManualTasks(ManualClock()), work(), "link")


async def test_futures_sleeps_and_tasks_can_be_awaited() -> None:
    tasks, seen = LoopTasks(), list[object]()
    loop = asyncio.get_running_loop()
    done, failed, late = loop.create_future(), loop.create_future(), loop.create_future()

    async def work() -> None:
        seen.append(await done)
        await asyncio.sleep(0)
        try:
            await failed
        except ValueError as error:
            seen.append(str(error))
        seen.append(await asyncio.wait_for(late, 60))

    begin(tasks, work(), "link")
    done.set_result("done")
    failed.set_exception(ValueError("failed"))
    loop.call_later(0, late.set_result, "late")
    await tasks.ended()
    assert seen == ["done", "failed", "late"]


async def test_what_it_waits_for_may_fail_before_its_task_begins() -> None:
    tasks, seen = LoopTasks(), list[object]()
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await gate
        except KeyError:
            seen.append("failed")

    begin(tasks, work(), "link")
    gate.set_exception(KeyError())
    await tasks.ended()
    assert seen == ["failed"]


async def test_cancelling_reaches_what_it_awaits() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks, seen = LoopTasks(), list[object]()

    async def work() -> None:
        try:
            await gate
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    begin(tasks, work(), "link")
    await asyncio.sleep(0)
    (task,) = tasks._spawned
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks.ended()
    assert seen == ["cancelled"] and gate.cancelled()
