"""A request that is cancelled while it yields to the loop leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from magnetar_broker.base.pace import Pace
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock
from magnetar_storage.runtime.execution import Clock, yield_turn


@pytest.mark.parametrize("wait", [yield_turn, lambda clock: Pace(clock, 0).after()])
async def test_a_wait_may_be_cancelled(wait: Callable[[Clock], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    errors: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    clock = LoopClock(loop)

    async def request() -> None:
        await wait(clock)

    waiting = asyncio.create_task(request())
    loop.call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await Pace(clock, 0).after()  # its timer is later than that of the cancelled wait
    await yield_turn(clock)
    assert errors == []
