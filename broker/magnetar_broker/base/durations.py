"""Counts how often something is done, and how long it takes."""

from magnetar_storage.runtime.execution import Clock


class Durations:
    """The number and the total duration of one kind of work since the start."""

    __slots__ = ("_clock", "count", "total_ms", "under_way")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.count = self.total_ms = self.under_way = 0

    def begin(self) -> int:
        """Begin a piece of work; pass the result to `end`."""
        self.under_way += 1
        return self._clock.now_ms()

    def end(self, began_ms: int) -> None:
        """End the piece of work that `begin` returned `began_ms` for."""
        self.under_way -= 1
        self.count += 1
        self.total_ms += self._clock.now_ms() - began_ms
