"""Coroutines that wait for the same event."""

from magnetar_storage.runtime.execution import Clock, Promise, settling


class Waiters:
    """Callers that wait for an event, each with a promise of its own: cancelling a caller that
    awaits a promise cancels that promise, and with it all other callers that await it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._promises: list[Promise] = []

    async def wait(self) -> None:
        """Return at the next `release`."""
        promise = self._clock.promise()
        self._promises.append(promise)
        await promise

    def release(self) -> None:
        """Resume the callers that are waiting now."""
        promises, self._promises = self._promises, []
        for promise in promises:
            settling(promise)(None)
