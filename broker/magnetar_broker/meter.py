"""Rates: what counters grew by in the last window."""

from collections.abc import Sequence


class Meter:
    """Turns running totals into rates a second; a window is closed every so many seconds."""

    __slots__ = ("_before", "rates")

    def __init__(self, counters: int) -> None:
        self.rates: tuple[float, ...] = (0.0,) * counters
        """Of the last closed window, in the order of the totals."""
        self._before: Sequence[int] = (0,) * counters

    def close_window(self, totals: Sequence[int], seconds: float) -> None:
        """The window that began at the last call ends now."""
        self.rates = tuple(
            (total - before) / seconds for total, before in zip(totals, self._before, strict=True)
        )
        self._before = totals
