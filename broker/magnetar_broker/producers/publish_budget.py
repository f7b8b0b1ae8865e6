"""The limit of published bytes that wait for the disk, over all connections of the broker."""

from collections.abc import Callable


class PublishBudget:
    """A budget of `limit` bytes, 0 or less for no limit.

    Above it no connection is read from; reading resumes when half of it is free again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.paused: set[Callable[[], None]] = set()
        """Called when there is room again; each removes itself when it resumes."""

    @property
    def exhausted(self) -> bool:
        """Whether connections that publish must be paused."""
        return 0 < self.limit <= self.used

    @property
    def is_half_free(self) -> bool:
        """Whether paused connections may resume."""
        return self.limit <= 0 or self.used <= self.limit // 2

    def take(self, size: int) -> None:
        """Count `size` more bytes that wait for the disk."""
        self.used += size

    def give(self, size: int) -> None:
        """Count `size` bytes as answered; resume paused connections if they have room."""
        # Only when the half is crossed: otherwise every answer would go through the paused ones.
        was, self.used = self.used, self.used - size
        if self.paused and was > self.limit // 2 and self.is_half_free:
            # A copy, since each removes itself.
            for resume in list(self.paused):
                resume()
