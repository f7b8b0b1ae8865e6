"""How many bytes may wait for the disk over all connections; above it, nobody is read from."""

from collections.abc import Callable


class PublishBudget:
    """`limit` bytes, 0 or less for no limit; reading goes on when half of it is free again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._paused: list[Callable[[], None]] = []

    @property
    def exhausted(self) -> bool:
        """Whether whoever publishes must be paused."""
        return 0 < self.limit <= self.used

    def take(self, size: int) -> None:
        """So many bytes wait for the disk."""
        self.used += size

    def give(self, size: int) -> None:
        """So many bytes were answered; may resume who was paused."""
        self.used -= size
        if self._paused and self.used <= self.limit // 2:
            paused, self._paused = self._paused, []
            for resume in paused:
                resume()

    def when_free(self, resume: Callable[[], None]) -> None:
        """Call once when there is room again."""
        self._paused.append(resume)
