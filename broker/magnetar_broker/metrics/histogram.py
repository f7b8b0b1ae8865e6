"""A histogram for hot paths: counting a value is one binary search and two additions."""

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple


class Counts(NamedTuple):
    """A histogram at one moment."""

    buckets: tuple[tuple[str, int], ...]
    """Cumulative counts: each upper bound, `+Inf` last, and the number of values up to it."""
    sum: float


class Histogram:
    """Counts values in buckets; a value equal to an upper bound belongs to that bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in its bucket."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def counts(self) -> Counts:
        """Return the counts of all buckets."""
        bounds = [*(format(bound, "g") for bound in self._bounds), "+Inf"]
        return Counts(tuple(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
