"""The limits at which a segment is closed: entries, bytes and age."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RollLimits:
    """The limits at which a segment is closed and the next one is begun."""

    max_entries: int = 50_000
    max_bytes: int = 2048 << 20
    min_age_ms: int = 10 * 60_000
    max_age_ms: int = 240 * 60_000

    def reached(self, entries: int, size: int, age_ms: int) -> bool:
        """Return whether a segment of this size and age should end."""
        # A segment without entries costs nothing, and an idle topic would get one every few hours.
        if entries == 0:
            return False
        big = self.is_big(entries, size)
        return age_ms >= self.max_age_ms or (big and age_ms >= self.min_age_ms)

    def is_big(self, entries: int, size: int) -> bool:
        """Return whether a segment of this size should end once it has its minimum age."""
        return entries >= self.max_entries or size >= self.max_bytes
