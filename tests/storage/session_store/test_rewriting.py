"""The choice of what is moved to other packs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_storage.session_store import rewriting
from magnetar_storage.session_store.manifest import Extent, SegmentRow, packs_of
from magnetar_storage.session_store.rewriting import Move, moves_in

EXTENTS = st.lists(st.builds(Extent, st.integers(1, 4), st.just(0), st.integers(1, 9)), max_size=6)


def row(*extents: tuple[int, int], is_finished: bool = False) -> SegmentRow:
    places = tuple(Extent(pack, 0, size) for pack, size in extents)
    return SegmentRow(is_finished=is_finished, extents=places)


def test_what_is_left_of_thin_packs_is_moved() -> None:
    rows = {1: row((7, 10), (8, 20)), 2: row((8, 30), (7, 5), (7, 6))}
    assert moves_in(rows, {7: 40, 8: 50}, 9) == []
    assert moves_in(rows, {7: 42, 8: 50}, 9) == []
    assert moves_in(rows, {7: 43, 8: 50}, 9) == [Move(1, 0, 1, 0, 10), Move(2, 1, 3, 30, 11)]
    assert moves_in(rows, {7: 43, 8: 101}, 9) == [Move(1, 0, 2, 0, 30), Move(2, 0, 3, 0, 41)]
    assert moves_in(rows, {7: 43}, 9, limit=10) == [Move(1, 0, 1, 0, 10)]


def test_finished_segments_in_many_parts_are_joined() -> None:
    large = rewriting.JOINED_BYTES
    parts = [(1, 5), (2, 5), (3, large), (4, 5)]
    assert moves_in({1: row(*parts, is_finished=True)}, {}, 3) == [Move(1, 0, 2, 0, 10)]
    assert moves_in({1: row(*parts, is_finished=True)}, {}, 4) == []
    assert moves_in({1: row(*parts)}, {}, 3) == []


@given(
    st.dictionaries(st.integers(1, 5), st.tuples(EXTENTS, st.booleans()), max_size=4),
    st.dictionaries(st.integers(1, 4), st.integers(1, 99)),
    st.integers(1, 3),
)
@settings(max_examples=examples(500))
def test_files_keep_their_size_and_thin_packs_are_left(
    segments: dict[int, tuple[list[Extent], bool]], sizes: dict[int, int], most: int
) -> None:
    rows = {n: SegmentRow(0, 0, 0, done, tuple(each)) for n, (each, done) in segments.items()}
    before = dict(rows)
    moves = moves_in(rows, sizes, most)
    needed = {
        pack: sum(each.size for row in rows.values() for each in row.extents if each.pack == pack)
        for pack in sizes
    }
    rewriting.replace(rows, [(move, Extent(99, 0, move.size)) for move in moves])
    for number, one in rows.items():
        assert one.length == before[number].length
        old = [each for each in one.extents if each.pack != 99]
        assert old == [each for each in before[number].extents if each in old][: len(old)]
    thin = {pack for pack, size in sizes.items() if needed[pack] * rewriting.GARBAGE < size}
    assert not thin & packs_of(rows.values())
