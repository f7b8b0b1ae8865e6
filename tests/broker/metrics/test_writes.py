"""Times and sizes of what topics write, counted by bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.metrics.writes import LATENCIES, ROWS, entries_of, quantile_of, summed
from magnetar_broker.producers.write_counts import LATENCY_BOUNDS_MS, SIZE_BOUNDS, WriteCounts
from magnetar_storage.runtime.write_time import WriteTime

RUNS = st.lists(
    st.tuples(
        st.integers(1, 100),
        st.integers(1, 2 << 20),
        st.sampled_from([0.0, *LATENCY_BOUNDS_MS, 0.7, 1500.0]),
    )
)


def counted(runs: list[tuple[int, int, float]]) -> WriteCounts:
    """Runs, each of so many entries of a size, and how many ms they took."""
    time = WriteTime(LATENCY_BOUNDS_MS)
    counts = WriteCounts(time)
    for entries, size, ms in runs:
        time.set_seconds(ms / 1000)
        counts.count(entries, entries * size)
    return counts


@given(RUNS)
def test_every_entry_is_in_one_bucket_of_each_kind(runs: list[tuple[int, int, float]]) -> None:
    counts = counted(runs)
    counts.close_window()
    if not runs:
        assert counts.window == ()
        return
    values = {row.name: row.value(counts.window) for row in ROWS}
    entries = sum(run[0] for run in runs)
    for kind in ("storage_write_latency_le_", "entry_size_le_"):
        buckets = [value or 0 for name, value in values.items() if name.startswith(kind)]
        above = values["storage_write_latency_overflow"] or 0 if "latency" in kind else 0
        assert sum(buckets) + above == entries
    assert values["entry_size_count"] == values["storage_write_latency_count"] == entries
    assert values["entry_size_sum"] == sum(run[0] * run[1] for run in runs)
    assert values["storage_write_latency_sum"] == pytest.approx(sum(r[0] * r[2] for r in runs))


def test_a_bound_belongs_to_its_bucket_and_runs_count_under_their_mean_size() -> None:
    counts = counted([(2, 128, 0.5), (3, 129, 0.6), (1, SIZE_BOUNDS[-1] + 1, 2000.0)])
    counts.close_window()
    values = {row.name: row.value(counts.window) for row in ROWS}
    assert (values["storage_write_latency_le_0_5"], values["storage_write_latency_le_1"]) == (2, 3)
    assert values["storage_write_latency_overflow"] == 1
    assert (values["entry_size_le_128"], values["entry_size_le_512"]) == (2, 3)
    assert values["entry_size_le_overflow"] == 1


def test_a_window_has_what_came_since_the_one_before() -> None:
    counts = counted([(5, 10, 1.0)])
    counts.close_window()
    assert entries_of(counts.window) == 5
    counts.count(2, 20)
    counts.close_window()
    assert entries_of(counts.window) == 2
    counts.close_window()
    assert counts.window == ()


def test_quantiles_are_interpolated_within_their_bucket() -> None:
    window = (*[0.0, 10.0, 10.0], *[0.0] * (LATENCIES - 3))
    assert quantile_of(window, 0.0) == 0.5
    assert quantile_of(window, 0.25) == 0.75
    assert quantile_of(window, 0.5) == 1.0
    assert quantile_of(window, 0.75) == 3.0
    assert quantile_of(window, 1.0) == 5.0
    beyond = (*[0.0] * (LATENCIES - 1), 7.0)
    assert quantile_of(beyond, 0.99) == LATENCY_BOUNDS_MS[-1]


def test_sums_are_those_of_each_bucket() -> None:
    assert summed(()) == summed([(), ()]) == ()
    assert summed([(1.0, 2.0), (), (3.0, 4.0)]) == (4.0, 6.0)
