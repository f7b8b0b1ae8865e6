"""What the journal tells of its commit rounds."""

from dataclasses import dataclass

from magnetar_broker.metrics.histogram import Counts, Histogram

RECORD_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SECOND_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class JournalFigures:
    """Of all rounds since the start, at one moment."""

    records: Counts
    """In a round."""
    seconds: Counts
    """A round's time on the disk, where it was timed."""
    bytes_total: int


class JournalStats:
    """Counts rounds as they become durable."""

    def __init__(self) -> None:
        self._records = Histogram(RECORD_BOUNDS)
        self._seconds = Histogram(SECOND_BOUNDS)
        self._bytes_total = 0

    def observe(self, records: int, size: int, seconds: float | None) -> None:
        """A round of so many records and bytes is durable; `seconds` on the disk, if timed."""
        self._records.observe(records)
        self._bytes_total += size
        if seconds is not None:
            self._seconds.observe(seconds)

    def figures(self) -> JournalFigures:
        """The present state; it does not change with later rounds."""
        return JournalFigures(self._records.counts(), self._seconds.counts(), self._bytes_total)
