"""Beginning and ending segments while some of those who wait for it are cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fakes.logs import BY_THREE, NEVER, LogWorld, numbered
from fakes.loop_world import LoopWorld, turns
from fakes.runs import append
from magnetar_storage.interfaces import Version
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits

Waiting = Callable[[Log], Coroutine[Any, Any, None]]
WAITS: list[Waiting] = [
    lambda log: log.rollover.start_writing(),
    lambda log: log.rollover.idle(),
    lambda log: log.rollover.terminate(),
    lambda log: log.close(),
]


@pytest.mark.parametrize("waits", WAITS, ids=["start_writing", "idle", "terminate", "close"])
async def test_a_cancelled_wait_for_the_first_segment_does_not_affect_others(
    waits: Waiting,
) -> None:
    world = LoopWorld(NEVER)
    log = await world.open()
    world.store.gate.clear()
    begins = asyncio.create_task(log.rollover.start_writing())
    await turns()
    gives_up = asyncio.create_task(waits(log))
    stays = asyncio.create_task(waits(log))
    await turns()
    gives_up.cancel()
    await turns()
    assert gives_up.cancelled()
    assert not stays.done()
    world.store.gate.set()
    await begins
    await stays
    assert world.store.created == 1
    assert len(log.segments) == 1


@pytest.mark.parametrize("waits", WAITS, ids=["start_writing", "idle", "terminate", "close"])
async def test_a_cancelled_wait_for_a_roll_does_not_affect_others(waits: Waiting) -> None:
    world = LoopWorld(BY_THREE)
    log = await world.open()
    await log.rollover.start_writing()
    world.store.gate.clear()
    append(log, numbered(0, 3), [1] * 3, lambda _: None)
    await turns()
    gives_up = asyncio.create_task(waits(log))
    stays = asyncio.create_task(waits(log))
    await turns()
    gives_up.cancel()
    await turns()
    assert gives_up.cancelled()
    assert not stays.done()
    world.store.gate.set()
    await stays
    await world.tasks.ended()
    assert world.store.created == 2, "the first segment, and one roll"
    assert [segment.entries for segment in log.segments][:1] == [3]


async def test_a_roll_that_is_due_is_waited_for_before_it_has_begun() -> None:
    world = LoopWorld(RollLimits(max_entries=1, min_age_ms=0))
    log = await world.open()
    await log.rollover.start_writing()
    append(log, [b"0"], [1], lambda _: None)
    append(log, [b"1"], [1], lambda _: None)
    while not log.end:
        await asyncio.sleep(0)
    log.rollover.roll_if_due()
    await log.rollover.idle()
    assert [segment.entries for segment in log.segments] == [2, None]
    assert world.store.created == 2


async def test_a_cancelled_close_of_a_log_in_compaction_does_not_affect_others() -> None:
    world = LoopWorld(NEVER)
    log = await world.open()
    async with log.compacting.held():
        gives_up = asyncio.create_task(log.close())
        stays = asyncio.create_task(log.close())
        await turns()
        gives_up.cancel()
        await turns()
        assert gives_up.cancelled()
        assert not stays.done()
    await stays


def test_the_size_counts_a_segment_while_it_is_being_settled() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    entries, sizes = numbered(0, 12), list[int]()
    put = world.metadata.put

    async def measured_put(*asked: Any) -> Version:
        sizes.append(log.size)
        return await put(*asked)

    world.metadata.put = measured_put  # type: ignore[assignment]
    for first in range(0, 12, 4):
        world.append(log, *entries[first : first + 4])
        sizes.append(log.size)
    assert len(log.segments) > 2
    assert sizes == sorted(sizes)
    assert sizes[-1] == sum(map(len, entries))
    world.do(log.close())
    assert log.size == sizes[-1]


def test_a_segment_has_a_larger_id_than_the_last_one_of_another_process() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    append(log, numbered(0, 3), [1] * 3, lambda _: None)
    world.clock.pump()
    last = log.segments[-1].id
    world.store._next = 1  # as of one that has given few ids
    append(log, numbered(3, 6), [1] * 3, lambda _: None)
    world.clock.pump()
    assert [segment.id for segment in log.segments][-2:] == [last, last + 1]
