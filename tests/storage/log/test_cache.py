"""The cache of recent entries: windows, gaps and the budget over all logs."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_storage.log.cache import ENTRY_OVERHEAD, EntryCache, Tail

PLENTY = 1 << 30


def entries(first: int, count: int, size: int = 1) -> list[bytes]:
    return [bytes([(first + i) % 251]) * size for i in range(count)]


def append(tail: Tail, first: int, payloads: list[bytes], counts: list[int]) -> None:
    tail.append(first, payloads, counts, sum(map(len, payloads)))


def window(tail: Tail, upto: int) -> list[int]:
    return [offset for offset in range(upto) if tail.get(offset, 1, 1) is not None]


def test_a_run_is_read_back_with_its_counts() -> None:
    tail = EntryCache(PLENTY).tail()
    append(tail, 7, [b"a", b"bb", b"ccc"], [1, 2, 3])
    assert tail.get(8, 10, PLENTY) == (8, [b"bb", b"ccc"], [2, 3])
    assert tail.get(7, 2, PLENTY) == (7, [b"a", b"bb"], [1, 2])
    assert tail.get(6, 1, PLENTY) is None
    assert tail.get(10, 1, PLENTY) is None


def test_at_least_one_entry_whatever_its_size() -> None:
    tail = EntryCache(PLENTY).tail()
    append(tail, 0, [b"x" * 100, b"y" * 100], [1, 1])
    run = tail.get(0, 2, 10)
    assert run is not None
    assert run.payloads == [b"x" * 100]
    assert list(run.counts) == [1]


def test_a_gap_begins_anew() -> None:
    tail = EntryCache(PLENTY).tail()
    append(tail, 0, [b"a", b"b"], [1, 1])
    append(tail, 5, [b"f"], [1])
    assert window(tail, 10) == [5]


def test_what_a_gap_left_behind_leaves_the_budget_in_its_turn() -> None:
    cache = EntryCache(4 * (ENTRY_OVERHEAD + 1))
    tail = cache.tail()
    append(tail, 0, entries(0, 2), [1, 1])
    append(tail, 5, entries(5, 1), [1])
    append(tail, 6, entries(6, 2), [1, 1])  # one too many: the forgotten two go
    assert window(tail, 10) == [5, 6, 7]
    append(tail, 8, entries(8, 2), [1, 1])  # and now the first of the new window
    assert window(tail, 12) == [6, 7, 8, 9]
    assert cache.used == 4 * (ENTRY_OVERHEAD + 1)
    assert (cache.entries, cache.evicted) == (4, 3)


def test_the_oldest_run_of_all_logs_goes_first() -> None:
    cache = EntryCache(3 * (ENTRY_OVERHEAD + 1))
    one, two = cache.tail(), cache.tail()
    append(one, 0, [b"a"], [1])
    append(two, 0, [b"b"], [1])
    append(two, 1, [b"c"], [1])
    append(two, 2, [b"d"], [1])
    assert window(one, 5) == []
    assert window(two, 5) == [0, 1, 2]
    append(one, 1, [b"e"], [1])
    assert window(one, 5) == [1]
    assert window(two, 5) == [1, 2]


def test_a_run_above_the_whole_budget_is_not_kept() -> None:
    cache = EntryCache(100)
    tail = cache.tail()
    append(tail, 0, [b"x" * 200], [1])
    assert cache.used == 0
    assert window(tail, 3) == []
    append(tail, 1, [b"y"], [1])
    assert window(tail, 3) == [1]


def test_no_budget_keeps_nothing() -> None:
    cache = EntryCache(0)
    tail = cache.tail()
    for offset in range(5):
        append(tail, offset, [b"a"], [1])
    assert cache.used == 0
    assert window(tail, 6) == []


appends = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 30), st.booleans()),
    max_size=40,
)


@given(st.integers(0, 1500), appends)
@settings(max_examples=examples(300))
def test_windows_are_what_was_appended_and_the_budget_holds(
    budget: int, appends: list[tuple[int, int, int, bool]]
) -> None:
    """Each append is (log, entries, bytes each, after a gap); a model keeps every run."""
    cache = EntryCache(budget)
    tails = [cache.tail() for _ in range(3)]
    ends = [0, 0, 0]
    runs: list[tuple[int, int, int, int]] = []  # (log, first, count, cost), oldest first
    for log, count, size, gap in appends:
        ends[log] += 3 if gap else 0
        first = ends[log]
        append(tails[log], first, entries(first, count, size), [first + i for i in range(count)])
        runs.append((log, first, count, count * (size + ENTRY_OVERHEAD)))
        ends[log] += count
        while sum(cost for *_, cost in runs) > budget:
            runs.pop(0)
        assert cache.used == sum(cost for *_, cost in runs)
        for number, tail in enumerate(tails):
            held = [(f, n) for which, f, n, _ in runs if which == number]
            expected = joined_end(held, ends[number])
            assert window(tail, ends[number] + 2) == expected
            for offset in expected:
                run = tail.get(offset, 100, PLENTY)
                assert run is not None
                assert list(run.counts) == list(range(offset, ends[number]))
                known = zip(run.counts, run.payloads, strict=True)
                assert all(payload == bytes([o % 251]) * len(payload) for o, payload in known)


def joined_end(held: list[tuple[int, int]], end: int) -> list[int]:
    """The offsets of the last stretch of runs without a gap: what the window may show."""
    kept = list(itertools.chain.from_iterable(range(f, f + n) for f, n in held))
    return [offset for offset in kept if set(range(offset, end)) <= set(kept)]
