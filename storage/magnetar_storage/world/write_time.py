"""How long the last writes took, as those see it whose entries were written."""

from bisect import bisect_left


class WriteTime:
    """Of the round of the journal that is being reported as durable."""

    __slots__ = ("_bounds_ms", "bucket", "ms")

    def __init__(self, bounds_ms: tuple[float, ...]) -> None:
        """`bounds_ms` are the upper bounds of the buckets, ascending; one more is above them."""
        self._bounds_ms = bounds_ms
        self.bucket = 0
        """The bucket of its time, from when its first record was queued."""
        self.ms = 0.0
        """This time in milliseconds."""

    def set_seconds(self, seconds: float) -> None:
        """A round is about to be reported that took so long."""
        self.ms = ms = seconds * 1000
        self.bucket = bisect_left(self._bounds_ms, ms)
