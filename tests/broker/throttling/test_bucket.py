"""Token buckets, against the plainest account of what may happen."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.throttling.bucket import Bucket

RATES = st.integers(1, 5000)
PERIODS = st.integers(1, 60)
TAKES = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 8000)), min_size=1, max_size=40)
"""Milliseconds that pass, and how much is taken then."""


@given(RATES, PERIODS, TAKES)
def test_within_any_time_no_more_than_the_rate_and_one_fill_and_the_last_take(
    rate: int, period: int, takes: list[tuple[int, int]]
) -> None:
    bucket, now = Bucket(rate, period, 0), 0
    taken: list[tuple[int, int]] = []
    for passed, amount in takes:
        now += passed
        now += bucket.wait_ms(now)  # a caller that waits as long as required
        bucket.take(amount, now)
        taken.append((now, amount))
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            before_last = sum(amount for _, amount in taken[first:last])
            span_ms = taken[last][0] - taken[first][0]
            assert before_last * period * 1000 <= rate * (span_ms + period * 1000)


@given(RATES, PERIODS, TAKES)
def test_tokens_are_there_after_the_stated_wait_and_not_before(
    rate: int, period: int, takes: list[tuple[int, int]]
) -> None:
    bucket, now = Bucket(rate, period, 0), 0
    for passed, amount in takes:
        now += passed
        bucket.take(amount, now)
        wait = bucket.wait_ms(now)
        assert (wait == 0) == (bucket.left(now) > 0)
        if wait:
            assert bucket.left(now + wait - 1) <= 0
            now += wait
            assert bucket.left(now) > 0


@given(RATES, PERIODS, st.lists(st.integers(0, 2000), max_size=30))
def test_it_fills_the_same_however_often_one_looks(
    rate: int, period: int, looks: list[int]
) -> None:
    often, once, now = Bucket(rate, period, 0), Bucket(rate, period, 0), 0
    for bucket in (often, once):
        bucket.take(rate * 3, 0)
    for passed in looks:
        now += passed
        often.left(now)
    assert often.left(now) == once.left(now)
    assert often.left(now + 4 * period * 1000) == rate, "it is full in the end, and no fuller"


@given(RATES, st.integers(1, 10**7))
def test_a_clock_that_is_put_back_costs_what_would_have_come_meanwhile(
    rate: int, back_ms: int
) -> None:
    bucket = Bucket(rate, 1, back_ms)
    bucket.take(2 * rate, back_ms)
    assert bucket.left(0) == -rate
    assert bucket.wait_ms(0) == 1000 + -(-1000 // rate)
    assert bucket.left(1000) == 0


def test_a_debt_outlives_a_change_of_the_rate() -> None:
    bucket = Bucket(10, 1, 0)
    bucket.take(30, 0)
    bucket.set_rate(20, 0)
    assert (bucket.left(0), bucket.wait_ms(0)) == (-20, 1050)
    bucket.set_rate(5, 10_000)
    assert bucket.left(10_000) == 5
