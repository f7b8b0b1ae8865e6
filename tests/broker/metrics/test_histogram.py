"""The histogram counts what a reader of Prometheus expects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.metrics.histogram import Histogram

BOUNDS = (0.5, 1, 2, 10)


@given(st.lists(st.floats(0, 20) | st.sampled_from(BOUNDS)))
def test_buckets_are_cumulative_and_bounds_belong_to_their_bucket(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.observe(value)
    counts = histogram.counts()
    expected = [(format(bound, "g"), sum(v <= bound for v in values)) for bound in BOUNDS]
    assert list(counts.buckets) == [*expected, ("+Inf", len(values))]
    assert counts.sum == pytest.approx(sum(values))


def test_counts_do_not_change_with_later_values() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe(1)
    counts = histogram.counts()
    histogram.observe(1)
    assert counts.buckets[-1] == ("+Inf", 1)
    assert histogram.counts().buckets[-1] == ("+Inf", 2)
