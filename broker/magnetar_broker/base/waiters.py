"""Coroutines that wait for the same event."""

from magnetar_storage.world.runtime import Clock, Promise, settling


class Waiters:
    """Each has a promise of its own: cancelling one that awaits a promise cancels that promise, and
    with it all others that await it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._promises: list[Promise] = []

    async def wait(self) -> None:
        """Return at the next `release`."""
        promise = self._clock.promise()
        self._promises.append(promise)
        await promise

    def release(self) -> None:
        """Resume all callers that are waiting now."""
        promises, self._promises = self._promises, []
        for promise in promises:
            settling(promise)(None)
