"""Does the same work for many items, up to 64 concurrently, so that they share disk syncs."""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from magnetar_broker.base.runtime import Runtime
from magnetar_storage.runtime.execution import Promise, settling

T = TypeVar("T")
WIDTH = 64


async def for_each(
    runtime: Runtime, things: Collection[T], work: Callable[[T], Awaitable[None]]
) -> None:
    """Do `work` for each item; raise the first of several errors after all have been tried."""
    left = iter(things)
    errors: list[Exception] = []

    async def worker(ended: Promise) -> None:
        try:
            for thing in left:
                try:
                    await work(thing)
                except Exception as error:  # whatever it is, it is raised
                    errors.append(error)
        finally:
            settling(ended)(None)  # not one whose waiter was cancelled, as at the broker's end

    workers = [runtime.clock.promise() for _ in range(min(WIDTH, len(things)))]
    for ended in workers:
        runtime.tasks.spawn(worker(ended))
    for ended in workers:
        await ended
    if errors:
        raise errors[0]
