"""A manual clock for a store that works in another thread, which the test waits for."""

import time
from collections.abc import Callable
from queue import SimpleQueue
from weakref import WeakSet

from fakes.world import ManualClock, ManualPromise
from magnetar_broker.server.runtime.asyncio_runtime import UPTIME


class PostedClock(ManualClock):
    """Calls of other threads are made by `step`, which waits for one while a promise is open."""

    def __init__(self) -> None:
        super().__init__()
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._promises: WeakSet[ManualPromise] = WeakSet()

    def uptime(self) -> float:
        return time.clock_gettime(UPTIME)

    def post(self, call: Callable[[], None]) -> None:
        """Make a call in the test's thread; for every thread."""
        self._posted.put(call)

    def promise(self) -> ManualPromise:
        promise = ManualPromise()
        self._promises.add(promise)
        return promise

    def step(self) -> bool:
        if super().step():
            return True
        if all(promise.done() for promise in self._promises):
            return False
        self._posted.get()()
        return True
