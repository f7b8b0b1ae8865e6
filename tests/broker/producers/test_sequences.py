"""What is known of producers' sequence ids, and how it survives."""

from collections.abc import Sequence
from struct import error as StructError
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.producers.deduplication_state import NO_ID
from magnetar_broker.producers.sequences import OFF, PIECE_BYTES, Sequences

NAMES = st.sampled_from(["a", "b", "ünïcode", ""])
ENTRIES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda e: (e[0], e[0] + e[1])), min_size=1
)
MINUS_ONE = (1 << 64) - 1


def replayed(pieces: Sequence[bytes]) -> Sequences:
    other = Sequences()
    for piece in pieces:
        other.apply(piece)
    return other


def contents(sequences: Sequences, names: Sequence[str]) -> tuple[int, list[int]]:
    return sequences.covered, [sequences.highest(name) for name in names]


# Sorting --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(NAMES, ENTRIES), max_size=20))
def test_an_entry_is_new_if_its_lowest_id_is_above_all_before(
    runs: list[tuple[str, list[tuple[int, int]]]],
) -> None:
    sequences = Sequences()
    top: dict[str, int] = {}
    for name, entries in runs:
        verdicts = sequences.sort(name, [low for low, _ in entries], [high for _, high in entries])
        for (low, high), verdict in zip(entries, verdicts, strict=True):
            is_new = low > top.get(name, -1)
            assert verdict == (high if is_new else None)
            if is_new:
                top[name] = high
        assert sequences.highest(name) == top[name]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=10))
def test_the_fast_path_equals_the_general_one(runs: list[tuple[int, int]]) -> None:
    short, long = Sequences(), Sequences()
    for first, n in runs:
        ids = list(range(first, first + n))
        verdicts = long.sort("p", ids, [0] * n)
        if short.push("p", ids):
            assert verdicts == ids
        else:
            assert short.sort("p", ids, [0] * n) == verdicts
        assert short.highest("p") == long.highest("p")


@pytest.mark.parametrize("ids", [[5, 7], [5, 5], [6, 5], [3], [4], [(1 << 63) - 1, 1 << 63]])
def test_the_short_way_is_for_what_counts_up(ids: list[int]) -> None:
    sequences = Sequences()
    sequences.sort("p", [4], [0])
    assert not sequences.push("p", ids)
    assert sequences.highest("p") == 4


def test_exempt_entries_change_nothing() -> None:
    sequences = Sequences()
    assert sequences.sort("p", [0, 0, 0], [0, 0, 0], exempt=[0, 1]) == [NO_ID, NO_ID, 0]
    assert sequences.sort("p", [0, 0, 0], [0, 0, 0], exempt=[0, 1]) == [NO_ID, NO_ID, None]


def test_ids_are_signed() -> None:
    sequences = Sequences()
    assert sequences.sort("p", [MINUS_ONE, MINUS_ONE, 0], [0, 0, 0]) == [0, None, None]


# Being durable --------------------------------------------------------------------------------


@given(st.lists(st.tuples(NAMES, st.integers(0, 50), st.booleans()), max_size=30))
def test_what_was_handed_out_gives_what_was_stored(
    steps: list[tuple[str, int, bool]],
) -> None:
    sequences, pieces = Sequences(), []
    names = ["a", "b", "ünïcode", ""]
    sequences.cover(0)
    pieces += sequences.take_delta()
    for end, (name, highest, taken) in enumerate(steps, 1):
        sequences.count(name, highest, end, now_ms=end)
        if taken:
            pieces += sequences.take_delta()
            assert contents(replayed(pieces), names) == contents(sequences, names)
            assert sequences.take_delta() == []
    pieces += sequences.take_delta()
    assert contents(replayed(pieces), names) == contents(sequences, names)
    assert contents(replayed(sequences.snapshot()), names) == contents(sequences, names)
    assert sequences.take_delta() == []


def test_what_is_not_durable_is_not_handed_out() -> None:
    sequences = Sequences()
    sequences.cover(0)
    sequences.sort("p", [0, 1, 2], [0, 0, 0])
    sequences.count("p", 0, 1, now_ms=0)
    assert replayed(sequences.snapshot()).highest("p") == 0
    sequences.sort("q", [7], [0])
    sequences.count("p", 1, 2, now_ms=0)
    after = replayed([*sequences.take_delta()])
    assert (after.highest("p"), after.highest("q"), after.covered) == (1, -1, 2)


def test_off_forgets_everything() -> None:
    sequences = Sequences()
    sequences.cover(0)
    sequences.count("p", 3, 1, now_ms=0)
    pieces = sequences.take_delta()
    sequences.stop()
    pieces += sequences.take_delta()
    assert contents(replayed(pieces), ["p"]) == (OFF, [-1])
    assert sequences.snapshot() == []
    sequences.cover(9)
    pieces += sequences.take_delta()
    assert contents(replayed(pieces), ["p"]) == (9, [-1])


def test_many_names_go_in_pieces_of_which_the_last_one_covers() -> None:
    sequences = Sequences()
    sequences.cover(0)
    names = [f"{'n' * 1000}{number}" for number in range(2000)]
    for end, name in enumerate(names, 1):
        sequences.count(name, end, end, now_ms=0)
    pieces = sequences.snapshot()
    assert len(pieces) > 3 and max(map(len, pieces)) < 2 * PIECE_BYTES
    assert replayed(pieces[:-1]).covered == 0
    assert contents(replayed(pieces), names) == contents(sequences, names)


@pytest.mark.parametrize("cut", [0, 3, 12, 38])
def test_a_truncated_piece_is_refused(cut: int) -> None:
    sequences = Sequences()
    sequences.cover(0)
    sequences.count("producer", 3, 1, now_ms=0)
    (piece,) = sequences.take_delta()
    with pytest.raises(Exception, match=r"requires|behind|bytes|decode"):
        Sequences().apply(piece[:cut] if cut else piece + b"x")


@given(st.binary(max_size=80), st.integers(-2, 100), st.integers(0, 3))
def test_what_is_no_piece_is_refused(body: bytes, covered: int, n: int) -> None:
    sequences = Sequences()
    try:
        sequences.apply(pack("<qI", covered, n) + body)
    except (ValueError, StructError):
        return
    assert sequences.covered == covered and len(sequences) <= n


# Forgetting -----------------------------------------------------------------------------------


def test_idle_names_are_forgotten_and_stay_so() -> None:
    sequences = Sequences()
    sequences.cover(0)
    for end, name in enumerate(("gone", "idle", "busy"), 1):
        sequences.count(name, 5, end, now_ms=end * 1000)
    pieces = sequences.take_delta()
    sequences.purge(3000, lambda name: name == "idle")
    assert [sequences.highest(name) for name in ("gone", "idle", "busy")] == [-1, 5, 5]
    sequences.count("busy", 6, 4, now_ms=4000)
    pieces += sequences.take_delta()
    assert replayed(pieces).highest("gone") == -1


def test_of_too_many_names_the_longest_unused_go() -> None:
    sequences = Sequences(max_names=2)
    sequences.cover(0)
    for end, name in enumerate(("a", "b", "c", "a", "d"), 1):
        sequences.count(name, end, end, now_ms=0)
    sequences.purge(0, lambda name: False)
    assert [sequences.highest(name) for name in "abcd"] == [4, -1, -1, 5]
    assert len(sequences) == 2


def test_what_is_on_its_way_is_not_forgotten() -> None:
    sequences = Sequences()
    sequences.cover(0)
    sequences.count("p", 1, 1, now_ms=0)
    sequences.sort("p", [2], [0])
    sequences.purge(1000, lambda name: False)
    assert sequences.highest("p") == 2
