"""The duration of the last write, for the callers whose entries were written."""

from bisect import bisect_left


class WriteTime:
    """The duration of the journal round that is being reported as durable."""

    __slots__ = ("_bounds_ms", "bucket", "ms")

    def __init__(self, bounds_ms: tuple[float, ...]) -> None:
        """`bounds_ms` are the upper bounds of the buckets, ascending; one more is above them."""
        self._bounds_ms = bounds_ms
        self.bucket = 0
        """The histogram bucket of a round's time, from the queueing of its first record."""
        self.ms = 0.0
        """The duration in milliseconds."""

    def set_seconds(self, seconds: float) -> None:
        """Set the duration of the round that is about to be reported."""
        self.ms = ms = seconds * 1000
        # Once for a round, and not for each of its runs, of which there may be thousands.
        self.bucket = bisect_left(self._bounds_ms, ms)
