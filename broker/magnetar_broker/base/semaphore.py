"""A limit of the number of coroutines that do something concurrently."""

from collections import deque

from magnetar_storage.runtime.execution import Clock, Promise


class Semaphore:
    """A limit of concurrent work: call `acquire` before it, and `release` after it in any case."""

    def __init__(self, clock: Clock, limit: int) -> None:
        """A `limit` of 0 means no limit."""
        self._clock = clock
        self._limit = limit
        self._inside = 0
        self._waiting: deque[Promise] = deque()

    async def acquire(self) -> None:
        """Wait for a place; places are given in the order in which they were asked for.

        A cancelled caller has no place, and must not `release`.
        """
        if not 0 < self._limit <= self._inside:
            self._inside += 1
            return
        place = self._clock.promise()
        self._waiting.append(place)
        try:
            await place
        except BaseException:
            # The caller was cancelled.  If `release` had given it the place just before, pass it
            # on: the caller will not, because its `acquire` has failed.
            if place in self._waiting:
                self._waiting.remove(place)
            else:
                self.release()
            raise

    def release(self) -> None:
        """Give the place to the coroutine that has waited longest."""
        for place in self._waiting:
            if not place.done():  # else cancelled in this turn: it removes itself when it runs
                self._waiting.remove(place)
                place.set_result(None)
                return
        self._inside -= 1
