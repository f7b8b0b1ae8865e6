"""A background search for topics and partitions that are created or deleted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from magnetar.base.errors import Closed, MagnetarError
from magnetar.clock import Clock

logger = logging.getLogger(__name__)

MIN_PAUSE_S = 0.05
"""The shortest pause between two calls of `look`, in seconds."""
RETRY_S = 1.0


class TopicDiscovery:
    """Calls `look` every `interval_s` seconds, and soon after each `wake`.

    If `look` raises an error of the client, it is logged and repeated a second later.
    """

    def __init__(
        self, look: Callable[[], Awaitable[None]], interval_s: float, clock: Clock
    ) -> None:
        self._look = look
        self._interval_s = interval_s
        self._clock = clock
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start; the first call comes after the interval."""
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Request an early call of `look`."""
        self._woken.set()

    async def close(self) -> None:
        """Stop calling `look`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def forked(self, error: Closed) -> None:
        """Drop the task in a forked child: it is the parent's."""
        self._task = None

    async def _run(self) -> None:
        pause_s = self._interval_s
        while True:
            try:
                async with self._clock.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                pass  # the interval has passed
            self._woken.clear()
            pause_s = self._interval_s
            try:
                await self._look()
            except MagnetarError as error:
                logger.warning("topics and partitions could not be listed or opened: %s", error)
                pause_s = RETRY_S
            await self._clock.sleep(MIN_PAUSE_S)
