"""Figures of the journal's commit rounds; a round is one write and one sync."""

from dataclasses import dataclass

from magnetar_broker.metrics.histogram import Counts, Histogram
from magnetar_broker.producers.write_counts import LATENCY_BOUNDS_MS
from magnetar_storage.runtime.write_time import WriteTime

RECORD_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SECOND_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class JournalFigures:
    """A snapshot of all rounds since the start."""

    records: Counts
    """The number of records per round."""
    seconds: Counts
    """The duration of a round's write and sync, for the rounds that were timed."""
    waits: Counts
    """The time from the queuing of a round's first record until the round is durable."""
    bytes_total: int


class JournalStats:
    """Counts rounds as they become durable."""

    def __init__(self) -> None:
        self._records = Histogram(RECORD_BOUNDS)
        self._seconds = Histogram(SECOND_BOUNDS)
        self._bytes_total = 0
        self._waits = Histogram(SECOND_BOUNDS)
        self.write_time = WriteTime(LATENCY_BOUNDS_MS)

    def written(self, seconds: float) -> None:
        """Count the seconds from the queuing of a round's first record to its report."""
        self.write_time.set_seconds(seconds)
        self._waits.observe(seconds)

    def observe(self, records: int, size: int, seconds: float | None) -> None:
        """Count a durable round: its records, its bytes, and its duration if that was measured."""
        self._records.observe(records)
        self._bytes_total += size
        if seconds is not None:
            self._seconds.observe(seconds)

    def figures(self) -> JournalFigures:
        """Return the present figures of the journal."""
        return JournalFigures(
            self._records.counts(), self._seconds.counts(), self._waits.counts(), self._bytes_total
        )
