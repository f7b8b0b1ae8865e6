"""How ranges are divided among tasks and micro-batches."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pyspark_magnetar.source.offsets import Mean, Position, Range
from pyspark_magnetar.source.range_division import (
    LEAST_MESSAGES,
    Limits,
    Run,
    Sizes,
    bytes_in,
    entries_in,
    limited,
    messages_in,
    position_after,
    runs,
    split,
)


@st.composite
def some_range(draw: st.DrawFn, topic: str = "t") -> Range:
    """A range over ledgers of which all are known, or some are not."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    ledgers = [3 + 2 * index for index in range(len(sizes))]
    lasts = [(ledger, size - 1) for ledger, size in zip(ledgers, sizes, strict=True)]
    start = draw(st.sampled_from([(-1, -1), (3, -1), (3, draw(st.integers(-1, sizes[0] - 1)))]))
    known = lasts[:-1] if draw(st.booleans()) else draw(st.lists(st.sampled_from(lasts)))
    mean = draw(
        st.sampled_from([Mean(), Mean(1, 10), Mean(1000, 100_000), Mean(LEAST_MESSAGES, 1)])
    )
    skipped = draw(st.integers(0, 3))
    end = lasts[-1] if lasts[-1] > start else (start[0], start[1] + 1)
    inside = tuple(at for at in sorted(set(known)) if start <= at < end)
    return Range(topic, start, end, skipped, draw(st.integers(0, 3)), inside, mean)


some_sizes = st.builds(
    Sizes,
    st.integers(1, 1 << 20),
    st.integers(0, 20),
    st.none() | st.integers(1, 100),
)


def positions(wanted: Range) -> list[Position]:
    return [(run.ledger, entry) for run in runs(wanted) for entry in range(run.first, run.last + 1)]


def test_runs() -> None:
    wanted = Range("t", (1, 5), (4, 2), ledger_ends=((1, 5), (2, 1), (4, 2)))
    assert runs(wanted) == [Run(2, 0, 1), Run(4, 0, 2)]
    assert runs(Range("t", (1, 5), (1, 9))) == [Run(1, 6, 9)]
    assert entries_in(wanted) == 5
    assert [position_after(wanted, count) for count in (0, 1, 2, 3, 5, 9)] == [
        (2, 0), (2, 0), (2, 1), (4, 0), (4, 2), (4, 2),
    ]  # fmt: skip


@given(st.lists(some_range(), max_size=3), some_sizes)
def test_tasks_read_all_of_it_once(found: list[Range], sizes: Sizes) -> None:
    found = [
        Range(f"t{index}", *(getattr(one, name) for name in Range.__slots__[1:]))
        for index, one in enumerate(found)
    ]
    parts = split(found, sizes)
    assert parts == split(list(found), sizes), "it depends on the arguments alone"
    for wanted in found:
        own = [part for part in parts if part.topic == wanted.topic]
        assert own[0].start == wanted.start
        assert own[-1].end == wanted.end
        for left, right in pairwise(own):
            assert left.end == right.start
        assert all(part.start < part.end and part.mean == wanted.mean for part in own)
        assert [part.skipped for part in own] == [wanted.skipped] + [0] * (len(own) - 1)
        assert [part.kept for part in own] == [0] * (len(own) - 1) + [wanted.kept]
        assert [at for part in own for at in positions(part)] == positions(wanted)


@given(some_range(), some_sizes)
def test_tasks_are_no_smaller_than_they_are_worth(wanted: Range, sizes: Sizes) -> None:
    parts = split([wanted], Sizes(sizes.target_bytes))
    if len(parts) > 1:
        assert messages_in(wanted) // len(parts) >= LEAST_MESSAGES


@given(some_range(), st.integers(1, 60))
def test_at_least_so_many_tasks(wanted: Range, least: int) -> None:
    assert len(split([wanted], Sizes(min_partitions=least))) == max(
        1, min(least, entries_in(wanted))
    )


@given(some_range(), st.integers(1, 5000))
def test_no_task_has_more_messages(wanted: Range, most: int) -> None:
    for part in split([wanted], Sizes(max_records=most)):
        assert entries_in(part) <= 1 or messages_in(part) <= most or not wanted.mean.messages


@given(st.lists(some_range(), min_size=1, max_size=4), st.integers(1, 10**6), st.booleans())
def test_limits_are_kept_but_for_an_entry_each(
    found: list[Range], most: int, counts_bytes: bool
) -> None:
    found = [
        Range(f"t{index}", *(getattr(one, name) for name in Range.__slots__[1:]))
        for index, one in enumerate(found)
    ]
    measure = bytes_in if counts_bytes else messages_in
    limits = Limits(bytes=most) if counts_bytes else Limits(messages=most)
    ends = limited(found, limits)
    total = 0
    for wanted in found:
        end = ends[wanted.topic]
        assert wanted.start < end <= wanted.end, "every range makes progress"
        inside = tuple(at for at in wanted.ledger_ends if at < end)
        taken = Range(wanted.topic, wanted.start, end, 0, 0, inside, wanted.mean)
        first = measure(taken) // entries_in(taken)
        total += measure(taken) - first
    assert total <= most
    if sum(map(measure, found)) <= most:
        assert ends == {wanted.topic: wanted.end for wanted in found}
