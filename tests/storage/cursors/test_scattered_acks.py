"""Many acknowledgements at once are what they are one by one."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import BY_THREE, LogWorld, numbered
from magnetar_storage.cursors.cursor import TrackedCursor
from magnetar_storage.log.offset_set import OffsetSet

near = st.lists(st.integers(0, 30), max_size=12)
anywhere = st.lists(st.integers(0, 30) | st.integers(1000, 1050) | st.integers(0, 10**6))


@given(st.lists(anywhere, max_size=4), st.sampled_from([1, 3, 2000]))
def test_a_set_takes_many_as_it_takes_each(batches: list[list[int]], length: int) -> None:
    together, one_by_one = OffsetSet(), OffsetSet()
    for batch in batches:
        together.add_all([(offset, offset + length) for offset in batch])
        for offset in batch:
            one_by_one.add(offset, offset + length)
    assert together == one_by_one


@given(
    mark_delete=st.integers(-1, 10),
    masks=st.dictionaries(st.integers(0, 30), st.integers(1, 7), max_size=4),
    counted=near,
    batches=st.lists(near, max_size=4),
)
def test_a_cursor_takes_many_as_it_takes_each(
    mark_delete: int, masks: dict[int, int], counted: list[int], batches: list[list[int]]
) -> None:
    together, one_by_one = TrackedCursor(mark_delete), TrackedCursor(mark_delete)
    replayed = TrackedCursor(mark_delete)
    for cursor in (together, one_by_one):
        for offset, mask in masks.items():
            cursor.ack_batch(offset, mask)
        cursor.count_redelivery(counted)
    for batch in batches:
        together.ack_scattered(batch)
        for offset in batch:
            one_by_one.ack([offset])
    for piece in together.take_delta():
        replayed.apply(*piece)
    for cursor in (together, replayed):
        assert cursor.mark_delete == one_by_one.mark_delete
        assert cursor.acked == one_by_one.acked
        assert cursor.partial == one_by_one.partial
        assert cursor.redelivered == one_by_one.redelivered
    assert not together.take_delta()


def test_entries_of_a_ledger_as_offsets() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    for first in (0, 3, 6):
        world.append(log, *numbered(first, first + 3))
    ledger, entry = log.position(4)
    assert entry == 1
    assert log.offsets_among(ledger, [2, 0, -1, 3, 99]) == [5, 3]
    assert log.offsets_among(ledger + 1000, [0]) == []
