"""Figures of the event loop: the length of its busy stretches, and their causes."""

from typing import get_args

from magnetar_broker.metrics.histogram import Counts, Histogram
from magnetar_broker.metrics.journal import SECOND_BOUNDS
from magnetar_storage.runtime.execution import Cause

LoopFigures = dict[str, Counts]
"""The lengths of all stretches since the start, in seconds, by cause."""


class LoopStats:
    """Counts stretches of the loop by cause."""

    def __init__(self) -> None:
        self._by_cause: dict[str, Histogram] = {
            cause: Histogram(SECOND_BOUNDS) for cause in get_args(Cause)
        }

    def observe(self, cause: Cause, seconds: float) -> None:
        """Count one run of the event loop for a cause."""
        self._by_cause[cause].observe(seconds)

    def figures(self) -> LoopFigures:
        """Return the present figures of the event loop."""
        return {cause: histogram.counts() for cause, histogram in self._by_cause.items()}
