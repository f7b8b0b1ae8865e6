"""The replay queue against a set."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.dispatch.replay import ReplayQueue

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "discard", "ask", "clear", "aside", "restore"]),
        st.integers(0, 15),
    ),
    max_size=60,
)


@given(steps)
def test_it_is_a_sorted_set(steps: list[tuple[str, int]]) -> None:
    queue, model, aside = ReplayQueue(), set[int](), set[int]()
    for what, value in steps:
        if what == "add":
            queue.add(value)
            model.add(value)
        elif what == "discard":
            queue.discard(value)
            model.discard(value)
            aside.discard(value)
        elif what == "aside":
            queue.set_aside(range(value, value + 3))
            aside |= {offset for offset in range(value, value + 3) if offset in model}
        elif what == "restore":
            queue.restore()
            aside.clear()
        elif what == "clear" and value == 0:
            queue.clear()
            model.clear()
            aside.clear()
        assert queue.first_run(max(value, 1)) == first_run(model - aside, max(value, 1))
        assert queue.stuck == (bool(aside) and model == aside)
        assert len(queue) == len(model)
        assert all((offset in queue) == (offset in model) for offset in range(16))


def first_run(model: set[int], limit: int) -> tuple[int, int] | None:
    if not model:
        return None
    length = 1
    while length < limit and min(model) + length in model:
        length += 1
    return min(model), length
