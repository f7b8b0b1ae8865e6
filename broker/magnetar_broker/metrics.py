"""What Prometheus reads: figures of the broker under Pulsar's names, collected on request."""

from collections.abc import Iterator

from prometheus_client.core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from magnetar_broker.broker import Broker
from magnetar_broker.topic import Topic
from magnetar_broker.version import VERSION

RECORD_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SECOND_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Histogram:
    """Counts by upper bounds, cheap enough for the hot path."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str, labels: dict[str, str]) -> HistogramMetricFamily:
        """The histogram as Prometheus wants it: cumulative."""
        bounds = [*(format(bound, "g") for bound in self._bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
        family = HistogramMetricFamily(name, text, labels=list(labels))
        family.add_metric(list(labels.values()), buckets, self._sum)
        return family


class JournalStats:
    """What the journal tells of its commit rounds."""

    def __init__(self) -> None:
        self.records = Histogram(RECORD_BOUNDS)
        self.seconds = Histogram(SECOND_BOUNDS)
        self.bytes_total = 0

    def observe(self, records: int, size: int, seconds: float | None) -> None:
        """A round of so many records was written and synced."""
        self.records.observe(records)
        self.bytes_total += size
        if seconds is not None:
            self.seconds.observe(seconds)
