"""The counters of a coordinator."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from magnetar_broker.base.transaction_ids import Outcome

LATENCY_BOUNDS_MS: Final = (
    10, 20, 50, 100, 500, 1000, 5000, 15_000, 30_000, 60_000, 300_000, 1_500_000, 3_000_000,
)  # fmt: skip


@dataclass
class CoordinatorFigures:
    """The counters since the coordinator was loaded."""

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    """The number of aborted transactions that reached their timeout."""
    steps: int = 0
    """The number of writes to the log."""
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_MS) + 1))
    """Histogram of ended transactions: counts by the time from beginning to end."""

    def ended(self, outcome: Outcome, took_ms: int) -> None:
        """Count a transaction that has ended everywhere."""
        self.steps += 1
        self.latencies[bisect_left(LATENCY_BOUNDS_MS, took_ms)] += 1
        if outcome is Outcome.COMMIT:
            self.committed += 1
        else:
            self.aborted += 1
