"""A bound on how many coroutines do something at a time."""

from collections import deque

from magnetar_storage.world import Clock, Promise


class Turnstile:
    """`enter` before and `leave` behind it, whatever comes between."""

    def __init__(self, clock: Clock, limit: int) -> None:
        """0 is no limit."""
        self._clock = clock
        self._limit = limit
        self._inside = 0
        self._waiting: deque[Promise] = deque()

    async def enter(self) -> None:
        """Wait for a place; places are given in the order in which they were asked for."""
        if 0 < self._limit <= self._inside:
            place = self._clock.promise()
            self._waiting.append(place)
            await place
        else:
            self._inside += 1

    def leave(self) -> None:
        """Give the place to whoever waits longest."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._inside -= 1
