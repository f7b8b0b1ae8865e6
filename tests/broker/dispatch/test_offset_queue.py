"""The queue of offsets against a set."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.dispatch.offset_queue import OffsetQueue

WHAT = ["add", "add", "all", "all", "discard", "discard_all", "ask", "clear", "aside", "restore"]
steps = st.lists(
    st.tuples(st.sampled_from(WHAT), st.integers(0, 15), st.integers(0, 3)), max_size=60
)


@given(steps)
def test_it_is_a_sorted_set(steps: list[tuple[str, int, int]]) -> None:
    queue, model, aside = OffsetQueue(), set[int](), set[int]()
    for what, value, size in steps:
        some = range(value, value + size)
        if what == "add":
            queue.add(value)
            model.add(value)
        elif what == "all":
            queue.add_all([*some, 9, *some])
            model |= {9, *some}
        elif what == "discard":
            queue.discard(value)
            model.discard(value)
            aside.discard(value)
        elif what == "discard_all":
            queue.discard_all(some)
            model -= {*some}
            aside -= {*some}
        elif what == "aside":
            queue.set_aside(some)
            aside |= model & {*some}
        elif what == "restore":
            queue.restore()
            aside.clear()
        elif what == "clear" and value == 0:
            queue.clear()
            model.clear()
            aside.clear()
        assert queue.first_run(max(value, 1)) == first_run(model - aside, max(value, 1))
        assert queue.ready == (model != aside)
        assert (len(queue), bool(queue)) == (len(model), bool(model))
        assert all((offset in queue) == (offset in model) for offset in range(20))


def test_a_queue_moves_to_another_with_what_was_set_aside() -> None:
    one, other = OffsetQueue(), OffsetQueue()
    one.add_all([1, 2, 7])
    one.set_aside(range(2, 3))
    other.add_all([2, 5])
    one.move_to(other)
    assert not one
    assert [offset for offset in range(9) if offset in other] == [1, 2, 5, 7]
    assert other.first_run(9) == (1, 2)


def test_a_million_scattered_entries_can_wait() -> None:
    queue = OffsetQueue()
    queue.add_all(range(0, 2_000_000, 2))
    assert len(queue) == 1_000_000
    assert queue.first_run(20) == (0, 1)
    queue.discard_all(range(1_000_000))
    assert (len(queue), queue.first_run(20)) == (500_000, (1_000_000, 1))


def first_run(model: set[int], limit: int) -> tuple[int, int] | None:
    if not model:
        return None
    length = 1
    while length < limit and min(model) + length in model:
        length += 1
    return min(model), length
