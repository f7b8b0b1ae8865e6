"""The histogram counts what a reader of Prometheus expects."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.metrics.histogram import Histogram

BOUNDS = (0.5, 1, 2, 10)


@given(st.lists(st.floats(0, 20) | st.sampled_from(BOUNDS)))
def test_buckets_are_cumulative_and_bounds_belong_to_their_bucket(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.observe(value)
    samples = histogram.family("h", "text", {"cluster": "c"}).samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name == "h_bucket"}
    expected = {format(bound, "g"): sum(v <= bound for v in values) for bound in BOUNDS}
    assert buckets == {**expected, "+Inf": len(values)}
    (count,) = (s.value for s in samples if s.name == "h_count")
    (total,) = (s.value for s in samples if s.name == "h_sum")
    assert count == len(values)
    assert abs(total - sum(values)) < 1e-6
    assert all(s.labels["cluster"] == "c" for s in samples)


def test_a_family_does_not_change_with_later_values() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe(1)
    family = histogram.family("h", "text", {})
    histogram.observe(1)
    assert [s.value for s in family.samples if s.name == "h_count"] == [1]
