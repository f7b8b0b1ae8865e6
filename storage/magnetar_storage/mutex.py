"""Mutual exclusion of coroutines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from magnetar_storage.world import Clock, Promise


class Mutex:
    """`async with mutex.held():` runs in one coroutine at a time."""

    __slots__ = ("_clock", "_holding")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holding: Promise | None = None

    @property
    def is_held(self) -> bool:
        return self._holding is not None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait until nobody holds it; hold it meanwhile."""
        while self._holding is not None:
            await self._holding
        self._holding = holding = self._clock.promise()
        try:
            yield
        finally:
            self._holding = None
            holding.set_result(None)
