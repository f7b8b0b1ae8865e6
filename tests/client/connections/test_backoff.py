"""Pauses double up to a limit, and jitter keeps them within half and the whole."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.connections.backoff import Backoff


def test_pauses_double_until_the_limit() -> None:
    backoff = Backoff(100, 1000, uniform=lambda: 1.0)
    assert [backoff.pause_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@given(st.integers(1, 10_000), st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_jitter_never_leaves_the_upper_half(first_ms: int, factor: int, chance: float) -> None:
    lowest = Backoff(first_ms, first_ms * factor, uniform=lambda: 0.0)
    drawn = Backoff(first_ms, first_ms * factor, uniform=lambda: chance)
    for _ in range(10):
        floor_s = lowest.pause_s()
        assert floor_s <= drawn.pause_s() <= 2 * floor_s
