"""The metrics of coordinators of transactions."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from magnetar_broker.metrics.text import Row, labels_of, table
from magnetar_broker.transactions.coordinators import Coordinators
from magnetar_broker.transactions.figures import LATENCY_BOUNDS_MS


class CoordinatorCounts(NamedTuple):
    """The counts of one loaded coordinator, for the page."""

    number: int
    active: int
    begun: int
    committed: int
    aborted: int
    timed_out: int
    steps: int
    latencies: tuple[int, ...]


def counts_of(coordinators: Coordinators) -> list[CoordinatorCounts]:
    """Return the present counts of all loaded coordinators."""
    return [
        CoordinatorCounts(
            one.number,
            len(one.state.transactions),
            one.figures.begun,
            one.figures.committed,
            one.figures.aborted,
            one.figures.timed_out,
            one.figures.steps,
            tuple(one.figures.latencies),
        )
        for one in coordinators
    ]


COUNTED = (
    ("created", "Transactions that were begun", lambda one: one.begun),
    ("committed", "Transactions that were committed", lambda one: one.committed),
    ("aborted", "Transactions that were aborted", lambda one: one.aborted),
    ("timeout", "Transactions that were aborted because their time was over",
     lambda one: one.timed_out),
    ("append_log", "Writes to the log of the coordinator", lambda one: one.steps),
)  # fmt: skip


def _rows() -> Iterator[Row]:
    yield Row("active_count", "Transactions that have not ended", lambda one: one.active)
    for name, text, value in COUNTED:
        yield Row(f"{name}_total", f"{text}, since the coordinator was loaded", value)
        yield Row(f"{name}_count", f"The same as pulsar_txn_{name}_total, for dashboards", value)
    for at, bound in enumerate((*LATENCY_BOUNDS_MS, None)):
        name = "overflow" if bound is None else f"le_{bound}"
        most = "longer than all bounds" if bound is None else f"up to {bound} ms"
        yield Row(
            f"execution_latency_{name}",
            f"Transactions that have ended and took {most}, and more than the bound before",
            partial(_latency, at),
        )


def _latency(at: int, one: CoordinatorCounts) -> float:
    return one.latencies[at]


ROWS = tuple(_rows())


def of_transactions(counts: Sequence[CoordinatorCounts], cluster: str) -> bytes:
    """Return the metrics of the loaded coordinators; empty if there are none."""
    measured = [
        (labels_of({"cluster": cluster, "coordinator_id": str(one.number)}), one) for one in counts
    ]
    return b"".join(table("pulsar_txn_", ROWS, measured))
