"""Waiting for the same event."""

import asyncio

from magnetar_broker.base.waiters import Waiters
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock


async def test_each_waits_until_the_next_release_and_may_be_cancelled_alone() -> None:
    waiters = Waiters(LoopClock(asyncio.get_running_loop()))
    gives_up, stays = (asyncio.create_task(waiters.wait()) for _ in range(2))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.sleep(0)
    assert gives_up.cancelled() and not stays.done()
    waiters.release()
    await stays
    late = asyncio.create_task(waiters.wait())
    await asyncio.sleep(0)
    assert not late.done()
    waiters.release()
    await late
