"""What retention keeps and what may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.retention import Retention, released_to
from magnetar_storage.log_record import Segment

MEGABYTE = 1 << 20
MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS


def segments(*sealed: tuple[int, int, int], open_size: int = 0) -> tuple[Segment, ...]:
    """(entries, megabytes, minutes since sealed) each, and the open one at the end."""
    made = [
        Segment(number, 0, entries, entries, size * MEGABYTE, NOW_MS - age * MINUTE_MS)
        for number, (entries, size, age) in enumerate(sealed)
    ]
    return (*made, Segment(len(made), 0, None, 0, open_size))


def released(retention: Retention, *sealed: tuple[int, int, int]) -> int:
    return released_to(segments(*sealed), 100, retention, NOW_MS) - 100


THREE = ((10, 4, 30), (10, 4, 20), (10, 4, 10))


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (Retention(), 30),
        (Retention(minutes=-1, megabytes=-1), 0),
        (Retention(minutes=-1, megabytes=8), 10),
        (Retention(minutes=-1, megabytes=7), 20),
        (Retention(minutes=15, megabytes=-1), 20),
        (Retention(minutes=20, megabytes=-1), 20),
        (Retention(minutes=21, megabytes=-1), 10),
        (Retention(minutes=100, megabytes=8), 10),
        (Retention(minutes=5, megabytes=1000), 30),
        (Retention(minutes=0, megabytes=1000), 30),
        (Retention(minutes=1000, megabytes=0), 30),
    ],
)
def test_segments_may_go_when_too_old_or_too_many(retention: Retention, gone: int) -> None:
    assert released(retention, *THREE) == gone


def test_nothing_goes_without_segments() -> None:
    assert released_to((), 5, Retention(), NOW_MS) == 5


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 100)), max_size=6),
    st.builds(Retention, st.integers(-1, 100), st.integers(-1, 20)),
)
def test_whole_settled_segments_go_and_what_is_kept_keeps_all_behind_it(
    sealed: list[tuple[int, int, int]], retention: Retention
) -> None:
    gone = released(retention, *sealed)
    ends = [sum(entries for entries, *_ in sealed[:n]) for n in range(len(sealed) + 1)]
    assert gone in ends
    kept = sealed[ends.index(gone) :]
    if kept:
        size = sum(megabytes for _, megabytes, _ in kept) * MEGABYTE
        assert retention.keeps(kept[0][2] * MINUTE_MS, size)
