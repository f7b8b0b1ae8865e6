"""The number of messages that the broker may send a consumer ahead."""


class QueueSize:
    """A queue size from 1 to `most`; `grow` and `shrink` return the change in permits.

    It doubles when the application waits after the queue was full, and is halved when the
    memory limit of the client is nearly reached.
    """

    def __init__(self, most: int, starts_small: bool) -> None:
        self._most = most
        self.now = min(1, most) if starts_small else most
        self._was_full = False

    def received(self, queued: int) -> None:
        """Record the number of messages that are in the queue."""
        if queued >= self.now:
            self._was_full = True

    def grow(self) -> int:
        """Double the size, if the queue has been full since the last time."""
        if not self._was_full or self.now >= self._most:
            return 0
        self._was_full = False
        former, self.now = self.now, min(2 * self.now, self._most)
        return self.now - former

    def shrink(self) -> int:
        """Halve the size; return the change, which is negative."""
        former, self.now = self.now, max(self.now // 2, min(1, self._most))
        return self.now - former
