"""How many messages a consumer has the broker send ahead."""


class QueueSize:
    """Between 1 and `most`; `grow` and `shrink` return by how many permits it changed.

    It grows, doubling, when the application waits after the queue was full, and is halved when the
    memory limit of the client is nearly reached.
    """

    def __init__(self, most: int, starts_small: bool) -> None:
        self._most = most
        self.now = min(1, most) if starts_small else most
        self._was_full = False

    def received(self, queued: int) -> None:
        """So many messages are in the queue now."""
        if queued >= self.now:
            self._was_full = True

    def grow(self) -> int:
        """Take up more, if the queue has been full since the last time."""
        if not self._was_full or self.now >= self._most:
            return 0
        self._was_full = False
        former, self.now = self.now, min(2 * self.now, self._most)
        return self.now - former

    def shrink(self) -> int:
        """Take up less; returns a negative number."""
        former, self.now = self.now, max(self.now // 2, min(1, self._most))
        return self.now - former
