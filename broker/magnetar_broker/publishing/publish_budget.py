"""How many bytes may wait for the disk over all connections; above it, nobody is read from."""

from collections.abc import Callable


class PublishBudget:
    """`limit` bytes, 0 or less for no limit; reading goes on when half of it is free again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.paused: set[Callable[[], None]] = set()
        """Called when there is room again; each removes itself once it goes on."""

    @property
    def exhausted(self) -> bool:
        """Whether whoever publishes must be paused."""
        return 0 < self.limit <= self.used

    @property
    def is_half_free(self) -> bool:
        """Whether those paused may go on."""
        return self.limit <= 0 or self.used <= self.limit // 2

    def take(self, size: int) -> None:
        """So many bytes wait for the disk."""
        self.used += size

    def give(self, size: int) -> None:
        """So many bytes were answered; those paused are asked whether they can go on."""
        was, self.used = self.used, self.used - size
        if self.paused and was > self.limit // 2 and self.is_half_free:
            for resume in list(self.paused):
                resume()
