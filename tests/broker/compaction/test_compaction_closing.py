"""Closing a log that is being compacted, in an event loop, which can cancel."""

import asyncio

from fakes.keyed import single_entry
from fakes.loop_world import LoopWorld, turns
from fakes.runs import append
from magnetar_broker.compaction.run import CompactionRun
from magnetar_broker.policies.compaction_rules import CompactionRules
from magnetar_storage.compacted.compacted_log import CompactedLog


async def test_who_gives_up_closing_disturbs_neither_the_compaction_nor_others() -> None:
    world = LoopWorld()
    log = await world.open()
    await log.rollover.start_writing()
    append(log, [single_entry("key", b"value")], [1], lambda error: None)
    await turns()
    world.store.gate.clear()
    compaction = CompactionRun(log, CompactedLog(log), CompactionRules())
    running = asyncio.create_task(compaction.run())
    await world.store.asked.wait()
    gives_up, stays = asyncio.create_task(log.close()), asyncio.create_task(log.close())
    await turns()
    gives_up.cancel()
    await turns()
    assert gives_up.cancelled()
    assert not stays.done()
    world.store.gate.set()
    await running
    await stays
    assert log.failed is not None
