"""Meters, which measure the growth of counters in the last window of time."""

from collections.abc import Sequence
from functools import cache


@cache
def _none(counters: int) -> tuple[float, ...]:
    """Return rates of zero for an idle meter; meters share the tuple, since there can be many."""
    return (0.0,) * counters


class Meter:
    """Turns running totals into rates per second, one window of time after another."""

    __slots__ = ("_before", "rates")

    def __init__(self, counters: int) -> None:
        self.rates: tuple[float, ...] = _none(counters)
        """The rates of the last closed window, in the order of the totals."""
        self._before: Sequence[float] = self.rates

    def close_window(self, totals: Sequence[float], seconds: float) -> None:
        """Close the window that began at the last call; it took `seconds`."""
        if totals == self._before:
            self.rates = _none(len(totals))
            return
        self.rates = tuple(
            (total - before) / seconds for total, before in zip(totals, self._before, strict=True)
        )
        self._before = totals
