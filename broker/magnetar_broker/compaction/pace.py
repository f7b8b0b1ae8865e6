"""How fast compaction goes: never for long at once, and no more than so many bytes a second."""

from magnetar_storage.world import Clock, Promise

IDLE_MS = 1
"""So long nothing is done after each piece: threads that come back from the disk want the
interpreter, and get it at once only while the loop is idle."""


class Pace:
    """Ask it after every piece of work."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        """0 is no limit but that others get their turn."""
        self._clock = clock
        self._limit = bytes_per_second
        self._begun_ms = clock.now_ms()
        self._done = 0
        self._waiting: Promise | None = None

    async def after(self, size: int = 0) -> None:
        """So many bytes have been read: let others work, and wait if that was too fast."""
        self._done += size
        ahead_ms = IDLE_MS
        if self._limit:
            due_ms = self._done * 1000 // self._limit
            ahead_ms = max(due_ms - (self._clock.now_ms() - self._begun_ms), IDLE_MS)
            if ahead_ms == IDLE_MS:  # what was not used in time is not saved up
                self._begun_ms, self._done = self._clock.now_ms(), 0
        self._waiting = self._clock.promise()
        timer = self._clock.later(ahead_ms / 1000, self.go_on)
        await self._waiting
        timer.cancel()

    def go_on(self) -> None:
        """Wait no longer."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set_result(None)
