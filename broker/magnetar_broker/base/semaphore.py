"""A limit of how many coroutines do something concurrently."""

from collections import deque

from magnetar_storage.world.runtime import Clock, Promise


class Semaphore:
    """`acquire` before and `release` after it, also if it fails."""

    def __init__(self, clock: Clock, limit: int) -> None:
        """`limit` 0 is no limit."""
        self._clock = clock
        self._limit = limit
        self._inside = 0
        self._waiting: deque[Promise] = deque()

    async def acquire(self) -> None:
        """Wait for a place; places are given in the order in which they were asked for."""
        if 0 < self._limit <= self._inside:
            place = self._clock.promise()
            self._waiting.append(place)
            await place
        else:
            self._inside += 1

    def release(self) -> None:
        """Give the place to the coroutine that has waited longest."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._inside -= 1
