"""Watches within one process: iterators over the changes of keys."""

from collections import deque
from collections.abc import AsyncIterator
from weakref import WeakSet

from magnetar_storage.interfaces import RESYNC, Change, Resync
from magnetar_storage.runtime.execution import Clock, Promise

QUEUE_LIMIT = 1024
"""The most changes queued for a watcher; beyond it the watcher gets `RESYNC` instead."""


class Watch(AsyncIterator[Change | Resync]):
    """The changes under one prefix; ends when the store is closed.  For one reader."""

    def __init__(self, prefix: str, clock: Clock, limit: int) -> None:
        self.prefix = prefix
        self._clock = clock
        self._limit = limit
        self._queue: deque[Change | Resync] = deque()
        self._waiter: Promise | None = None
        self._closed = False

    def offer(self, change: Change) -> None:
        """Queue a change for the reader of the watch."""
        if len(self._queue) >= self._limit:
            self.resync()
        elif not self._queue or self._queue[-1] is not RESYNC:
            self._queue.append(change)
            self._wake()

    def resync(self) -> None:
        """Make the reader read all keys again, which covers the changes still in the queue."""
        self._queue.clear()
        self._queue.append(RESYNC)
        self._wake()

    def end(self) -> None:
        """End the changes; those that are queued can still be read."""
        self._closed = True
        self._wake()

    async def __anext__(self) -> Change | Resync:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = self._clock.promise()
            await self._waiter
        return self._queue.popleft()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Watchers:
    """All watches of a metadata store; held weakly, so that an unused one is freed."""

    def __init__(self, clock: Clock, limit: int = QUEUE_LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._watches: WeakSet[Watch] = WeakSet()

    def watch(self, prefix: str) -> Watch:
        watch = Watch(prefix, self._clock, self._limit)
        self._watches.add(watch)
        watch.resync()  # promise: a reader of changes begins by listing
        return watch

    def publish(self, change: Change) -> None:
        """Queue a change for the watches of its key; call this in the order of the changes."""
        for watch in self._watches:
            if change.key.startswith(watch.prefix):
                watch.offer(change)

    def close(self) -> None:
        for watch in self._watches:
            watch.end()
