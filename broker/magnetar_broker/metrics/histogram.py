"""A histogram that costs a search and two additions a value."""

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily


class Histogram:
    """Counts values by upper bounds (each bound counts with its own bucket)."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str, labels: dict[str, str]) -> HistogramMetricFamily:
        """The present state as Prometheus wants it: cumulative, with +Inf."""
        bounds = [*(format(bound, "g") for bound in self._bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
        family = HistogramMetricFamily(name, text, labels=list(labels))
        family.add_metric(list(labels.values()), buckets, self._sum)
        return family
