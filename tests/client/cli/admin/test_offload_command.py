"""The ledger from which on `topics offload` leaves data in the broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.cli.admin.groups.topics import first_kept

SIZES = st.lists(st.integers(0, 100), max_size=6)


def stats(*sizes: int) -> dict[str, object]:
    """Statistics of ledgers of these sizes, the oldest first; the newest is open."""
    ledgers = [{"ledgerId": number, "size": size} for number, size in enumerate(sizes)]
    if ledgers:
        ledgers[-1]["size"] = 0
    return {"ledgers": ledgers, "currentLedgerSize": sizes[-1] if sizes else 0}


@pytest.mark.parametrize(
    ("sizes", "size", "first"),
    [
        ((), 0, None),
        ((10,), 10, None),
        ((10,), 9, 0),
        ((10, 10, 10), 30, None),
        ((10, 10, 10), 29, 1),
        ((10, 10, 10), 10, 2),
        ((10, 10, 10), 0, 2),
    ],
)
def test_first_kept(sizes: tuple[int, ...], size: int, first: int | None) -> None:
    assert first_kept(stats(*sizes), size) == first


@given(SIZES, st.integers(0, 400))
def test_what_stays_has_the_size_at_most_except_the_newest(sizes: list[int], size: int) -> None:
    first = first_kept(stats(*sizes), size)
    if first is None:
        assert sum(sizes) <= size
    else:
        assert sum(sizes[first:]) <= size or first == len(sizes) - 1
        assert sum(sizes[max(first - 1, 0) :]) > size
