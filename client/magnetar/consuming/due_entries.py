"""The times at which unacknowledged messages are redelivered. Pure: time is an argument."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

Position = tuple[int, int]
"""The ledger id and the entry id of an entry."""


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """Pauses that grow with each redelivery: first_s, then times `multiplier`, at most max_s."""

    first_s: float = 1.0
    max_s: float = 60.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.max_s or self.multiplier < 1:
            raise ValueError(
                f"{self}: first_s must be above 0 and at most max_s, multiplier at least 1"
            )

    def pause_s(self, redeliveries: int) -> float:
        """Return the pause, in seconds, after this number of redeliveries of a message."""
        # The exponent is limited, so that the power fits a float.
        return min(self.first_s * self.multiplier ** min(redeliveries, 100), self.max_s)


class DueEntries:
    """Entries with the times at which they are due, rounded up to multiples of `tick_s`."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._tick_of: dict[Position, int] = {}
        self._by_tick: dict[int, set[Position]] = {}

    def __len__(self) -> int:
        return len(self._tick_of)

    def add(self, position: Position, due_s: float) -> None:
        """Set the time at which an entry is due, in place of an earlier one."""
        self.discard(position)
        # promise[ceil -> int]: a message is not delivered again before its time
        tick = ceil(due_s / self._tick_s)
        self._tick_of[position] = tick
        self._by_tick.setdefault(tick, set()).add(position)

    def discard(self, position: Position) -> None:
        """Remove an entry, if it is present."""
        tick = self._tick_of.pop(position, None)
        if tick is not None:
            due = self._by_tick[tick]
            due.discard(position)
            if not due:
                del self._by_tick[tick]

    def discard_all(self, positions: Iterable[Position]) -> None:
        """Remove these entries where present."""
        if self._tick_of:
            for position in positions:
                self.discard(position)

    def discard_up_to(self, position: Position) -> None:
        """Remove all entries up to and including this one."""
        self.discard_all([known for known in self._tick_of if known <= position])

    def clear(self) -> None:
        """Remove all entries."""
        self._tick_of.clear()
        self._by_tick.clear()

    def next_s(self) -> float | None:
        """Return the time at which the next entry is due; None if there are no entries."""
        return min(self._by_tick) * self._tick_s if self._by_tick else None

    def take(self, now_s: float) -> list[Position]:
        """Remove and return the entries that are due, in order."""
        due: list[Position] = []
        for tick in [tick for tick in self._by_tick if tick * self._tick_s <= now_s]:
            due += self._by_tick.pop(tick)
        for position in due:
            del self._tick_of[position]
        return sorted(due)
