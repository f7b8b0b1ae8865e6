"""The pace of long work: short pieces with pauses, and a limit of bytes per second."""

from collections.abc import Awaitable, Callable

from magnetar_storage.runtime.execution import Clock, Promise, settling

IDLE_MS = 1
"""The pause, in milliseconds, after each piece of work. Threads that return from the disk need the
interpreter lock, and get it at once only while the event loop is idle.
"""
LEAST_SECONDS, MOST_SECONDS = 0.00025, 0.001
"""The limits of the length of a slice of work: it exceeds the least only where pauses are long."""

Pause = Callable[[], Awaitable[None]]
"""A coroutine function that lets the event loop do other work for a while."""


class Pace:
    """Limits the pace of long work; await `after` at the end of every piece."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        """A limit of 0 `bytes_per_second` means none; the event loop still gets its turns."""
        self._clock = clock
        self._limit = bytes_per_second
        self._begun_ms = clock.now_ms()
        self._done = 0
        self._waiting: Promise | None = None

    async def after(self, size: int = 0) -> None:
        """Count bytes that were read; yield to other work, and wait if that was too fast."""
        self._done += size
        ahead_ms = IDLE_MS
        if self._limit:
            due_ms = self._done * 1000 // self._limit
            ahead_ms = max(due_ms - (self._clock.now_ms() - self._begun_ms), IDLE_MS)
            if ahead_ms == IDLE_MS:  # unused time is not saved up for a later burst
                self._begun_ms, self._done = self._clock.now_ms(), 0
        self._waiting = self._clock.promise()
        timer = self._clock.later(ahead_ms / 1000, self.resume)
        await self._waiting
        timer.cancel()

    def resume(self) -> None:
        """End a wait at once."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            settling(waiting)(None)


class Slices:
    """Slices of work, with a pause after each, which end in time even on a busy loop.

    There are no more pauses than slices of `LEAST_SECONDS`.  When all pauses together have lasted
    longer than the work, slices are longer, up to `MOST_SECONDS`.  So while a pause lasts no longer
    than that, all pauses together last no longer than the work, but for one of them.
    """

    def __init__(self, pause: Pause, timer: Callable[[], float]) -> None:
        """Begin; `timer` returns seconds, including fractions."""
        self._pause = pause
        self._timer = timer
        self._began = timer()
        self._ahead = 0.0
        """The seconds by which the pauses have exceeded the slices."""

    async def after(self) -> bool:
        """End a piece of work that took less than a slice; pauses at the end of a slice.

        Pauses where a slice ends, and returns whether it did.
        """
        now = self._timer()
        worked = now - self._began
        # promise[without or worked < min(self._ahead, MOST_SECONDS)]: a scrape on a busy loop makes
        #   fewer pauses
        # promise[min(self._ahead, MOST_SECONDS) -> self._ahead]: a scrape pauses where pauses are
        #   long, too
        if worked < LEAST_SECONDS or worked < min(self._ahead, MOST_SECONDS):
            return False
        await self._pause()
        self._began = self._timer()
        self._ahead += self._began - now - worked
        return True
