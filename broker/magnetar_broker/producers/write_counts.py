"""Counts of a topic's entries by size, and by the time of their write.

Each run of entries is counted once, under the mean size of its entries.  This module is compiled.
"""

from bisect import bisect_left

from magnetar_storage.runtime.write_time import WriteTime

LATENCY_BOUNDS_MS = (0.5, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 1000.0)
SIZE_BOUNDS = (128, 512, 1024, 2048, 4096, 16384, 102400, 1048576)


class WriteCounts:
    """Counts what has been written to one topic since the first message after its load."""

    __slots__ = ("_before", "_latencies", "_ms", "_size", "_sizes", "_time", "window")

    def __init__(self, time: WriteTime) -> None:
        self._time = time
        self._latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._ms = 0.0
        self._sizes = [0] * (len(SIZE_BOUNDS) + 1)
        self._size = 0
        self._before: tuple[float, ...] = ()
        self.window: tuple[float, ...] = ()
        """The counts of the last window: entries by the bucket of their write's time, the last one
        above all bounds, and the sum of the times in ms; entries by the bucket of their size, and
        the sum of the sizes.  () if there was no window."""

    def count(self, entries: int, size: int) -> None:
        """Count a durable run of `entries` entries, of `size` bytes together."""
        time = self._time
        self._latencies[time.bucket] += entries
        self._ms += time.ms * entries
        # promise[size // entries)] += entries -> size)] += 1]: a run counts each of its entries
        self._sizes[bisect_left(SIZE_BOUNDS, size // entries)] += entries
        self._size += size

    def close_window(self) -> None:
        """Close the window that began at the last call."""
        now = (*self._latencies, self._ms, *self._sizes, float(self._size))
        # A window is a difference of totals: counting itself never resets anything.
        before = self._before or (0.0,) * len(now)
        if now == before:
            self.window = ()
        else:
            self.window = tuple([after - then for after, then in zip(now, before, strict=True)])
        self._before = now
