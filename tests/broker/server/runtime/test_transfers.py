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
    begun, answered = Event(), Event()

    def transfer() -> int:
        begun.set()
        answered.wait()
        return 7

    transferred = asyncio.ensure_future(hanging.run(transfer))
    try:
        await loop.run_in_executor(None, begun.wait)
        workers.abandon_transfers()
        workers.abandon_transfers()
        assert transferred.done()
        with pytest.raises(LogClosed, match="stopping"):
            await transferred
        for worker in (hanging, unused):
            with pytest.raises(LogClosed):
                await worker.run(transfer)
    finally:
        answered.set()
    workers.stop()


async def test_results_of_transfers() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    (worker,) = workers.transfers(1)
    assert await worker.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    workers.stop()


async def test_a_result_that_comes_after_the_stop_changes_nothing() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda loop, context: failures.append(context))
    workers = ThreadWorkers(loop)
    (worker,) = workers.transfers(1)
    answered, ended = Event(), asyncio.Event()
    transferred = asyncio.ensure_future(worker.run(answered.wait))
    worker.submit(lambda: None, lambda result, error: ended.set())
    workers.abandon_transfers()
    answered.set()
    await ended.wait()  # behind the late result
    with pytest.raises(LogClosed):
        await transferred
    assert not failures
    workers.stop()
