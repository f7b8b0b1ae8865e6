"""Looks, in the background, for topics and partitions that come and go."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from magnetar.clock import Clock
from magnetar.errors import Closed, MagnetarError

logger = logging.getLogger(__name__)

MIN_PAUSE_S = 0.05
"""Between two looks, however often something changes."""
RETRY_S = 1.0


class TopicDiscovery:
    """Calls `look` every `interval_s` seconds, and soon after each `wake`.

    A look that fails with an error of the client is logged and repeated a second later.
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
        """Begin; the first look comes after the interval."""
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look soon."""
        self._woken.set()

    async def close(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def forked(self, error: Closed) -> None:
        """The task is the parent's."""
        self._task = None

    async def _run(self) -> None:
        pause_s = self._interval_s
        while True:
            try:
                async with self._clock.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                pass  # it is time for a look, whatever changed
            self._woken.clear()
            pause_s = self._interval_s
            try:
                await self._look()
            except MagnetarError as error:
                logger.warning("topics and partitions could not be listed or opened: %s", error)
                pause_s = RETRY_S
            await self._clock.sleep(MIN_PAUSE_S)
