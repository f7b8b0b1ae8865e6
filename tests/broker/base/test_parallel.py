"""The same work for many things, some of them at a time."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from fakes.logs import LogWorld
from fakes.world import ManualPromise
from magnetar_broker.base.parallel import WIDTH, for_each
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks
from magnetar_storage.errors import Unavailable


def test_so_many_at_a_time_and_all_in_the_end() -> None:
    world = LogWorld()
    gates: list[ManualPromise] = []
    done: list[int] = []

    async def work(thing: int) -> None:
        gates.append(gate := world.clock.promise())
        await gate
        done.append(thing)

    working = world.begin(for_each(world.engine, range(3 * WIDTH), work))
    world.clock.pump()
    while not working.done():
        assert 0 < len(gates) <= WIDTH
        waiting, gates[:] = gates[:], []
        for gate in waiting:
            gate.set_result(None)
        world.clock.pump()
    working.result()
    assert sorted(done) == list(range(3 * WIDTH))


def test_what_storage_refuses_stops_no_other() -> None:
    world = LogWorld()
    done: list[int] = []

    async def work(thing: int) -> None:
        if thing % 2:
            raise Unavailable(f"no room for {thing}")
        done.append(thing)

    with pytest.raises(Unavailable, match="no room for 1"):
        world.do(for_each(world.engine, range(10), work))
    assert sorted(done) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("things", [0, 1, WIDTH - 1, WIDTH + 1])
def test_there_are_no_more_tasks_than_things(things: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = LogWorld()
    spawn, spawned = world.tasks.spawn, list[object]()

    def counted(work: Coroutine[Any, Any, None]) -> None:
        spawned.append(work)
        spawn(work)

    monkeypatch.setattr(world.tasks, "spawn", counted)

    async def work(thing: int) -> None:
        assert thing < things

    world.do(for_each(world.engine, range(things), work))
    assert len(spawned) == min(things, WIDTH)


def test_nothing_is_done_for_nothing() -> None:
    world = LogWorld()

    async def work(thing: object) -> None:
        raise AssertionError(thing)

    world.do(for_each(world.engine, [], work))


async def test_the_end_of_the_broker_ends_it_without_a_defect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    clock, tasks = LoopClock(loop), LoopTasks(loop)
    engine = replace(LogWorld().engine, clock=clock, tasks=tasks)

    async def work(thing: int) -> None:
        await clock.promise()  # which nobody settles

    tasks.spawn(for_each(engine, range(3), work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # All tasks are cancelled, as `asyncio.Runner` does at its end.
    spawned = asyncio.all_tasks() - {asyncio.current_task()}
    for task in spawned:
        task.cancel()
    await asyncio.wait(spawned)
    await asyncio.sleep(0)
    assert "defect" not in caplog.text
