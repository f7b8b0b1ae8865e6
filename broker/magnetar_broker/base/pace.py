"""The pace of long work: short pieces with pauses, and a limit of bytes per second."""

from magnetar_storage.world.runtime import Clock, Promise, settling

IDLE_MS = 1
"""The pause after each piece of work.  Threads that return from the disk need the interpreter lock,
and get it at once only while the event loop is idle."""


class Pace:
    """Await `after` at the end of every piece of work."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        """`bytes_per_second` 0 is no limit; the event loop has its turns all the same."""
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
