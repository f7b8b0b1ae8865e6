"""Sets of integers kept as sorted, disjoint, non-touching half-open ranges.

Used by `OffsetSet` for its full chunks; all others use `OffsetSet`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """A set of integers; adding and looking up cost a binary search."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges as (start, stop), in order."""
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._starts, value) - 1
        return at >= 0 and value < self._stops[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"

    def copy(self) -> "RangeSet":
        """Return an independent set with the same integers."""
        same = RangeSet()
        same._starts, same._stops = self._starts.copy(), self._stops.copy()
        return same

    @property
    def first(self) -> tuple[int, int]:
        """The lowest range; the set must not be empty."""
        return self._starts[0], self._stops[0]

    @property
    def last(self) -> tuple[int, int]:
        """The highest range; the set must not be empty."""
        return self._starts[-1], self._stops[-1]

    def covered(self) -> int:
        """Return the number of integers in the set."""
        return sum(self._stops) - sum(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Add start..stop-1, joined with the ranges that it touches."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        if stops and start == stops[-1]:  # the usual case: they come in order
            stops[-1] = stop
            return
        # Ranges that overlap or touch start..stop, which replaces all of them.
        left = bisect_left(stops, start)
        right = bisect_right(starts, stop)
        if left < right:
            start = min(start, starts[left])
            stop = max(stop, stops[right - 1])
        starts[left:right] = [start]
        stops[left:right] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Take start..stop-1 out of the set."""
        if start >= stop:
            return
        left = bisect_right(self._stops, start)
        right = bisect_left(self._starts, stop)
        kept = []
        if left < right:
            # What is left of the first range and of the last one, which may be the same.
            kept = [(self._starts[left], start), (stop, self._stops[right - 1])]
            kept = [one for one in kept if one[0] < one[1]]
        self._starts[left:right] = [first for first, _ in kept]
        self._stops[left:right] = [end for _, end in kept]

    def remove_below(self, value: int) -> None:
        """Remove everything smaller than `value`."""
        at = bisect_right(self._stops, value)
        del self._starts[:at], self._stops[:at]
        # The range in which `value` is.
        if self._starts and self._starts[0] < value:
            self._starts[0] = value

    def next_missing(self, value: int) -> int:
        """Return the smallest integer from `value` on that is not in the set."""
        at = bisect_right(self._starts, value) - 1
        return self._stops[at] if at >= 0 and value < self._stops[at] else value

    def last_missing(self, value: int) -> int:
        """Return the largest integer up to `value` that is not in the set."""
        at = bisect_right(self._starts, value) - 1
        return self._starts[at] - 1 if at >= 0 and value < self._stops[at] else value

    def next_present(self, value: int) -> int | None:
        """Return the smallest integer from `value` on that is in the set; None if there is none."""
        at = bisect_right(self._stops, value)
        return max(value, self._starts[at]) if at < len(self._starts) else None

    def present(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..stop-1 that are in the set, in order."""
        for at in range(bisect_right(self._stops, start), bisect_left(self._starts, stop)):
            yield max(start, self._starts[at]), min(stop, self._stops[at])

    def clear(self) -> None:
        """Empty the set."""
        self._starts.clear()
        self._stops.clear()
