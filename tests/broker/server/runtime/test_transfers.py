"""Threads that wait for the network, and a process that stops meanwhile."""

import asyncio
from threading import Event

import pytest

from magnetar_broker.server.runtime.asyncio_runtime import ThreadWorkers
from magnetar_storage.errors import LogClosed


async def test_a_stop_does_not_wait_for_a_transfer_that_hangs() -> None:
    """Whoever awaits it is told, and later transfers are refused; a late result changes nothing."""
    loop = asyncio.get_running_loop()
    workers = ThreadWorkers(loop)
    hanging, unused = workers.transfers(2)
    begun, answered, ended = Event(), Event(), asyncio.Event()

    def transfer() -> int:
        begun.set()
        answered.wait()
        return 7

    async def work() -> None:
        with pytest.raises(LogClosed, match="stopping"):
            await hanging.run(transfer)
        ended.set()

    task = loop.create_task(work())
    await loop.run_in_executor(None, begun.wait)
    workers.abandon_transfers()
    workers.abandon_transfers()
    await ended.wait()
    for worker in (hanging, unused):
        with pytest.raises(LogClosed):
            await worker.run(transfer)
    late = asyncio.Event()
    answered.set()
    loop.call_soon(late.set)
    await late.wait()
    workers.stop()
    await task


async def test_results_of_transfers() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    (worker,) = workers.transfers(1)
    assert await worker.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    workers.stop()
