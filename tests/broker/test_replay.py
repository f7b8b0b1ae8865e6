"""The replay queue against a set."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.dispatch.replay import ReplayQueue

steps = st.lists(
    st.tuples(st.sampled_from(["add", "discard", "ask", "clear"]), st.integers(0, 15)),
    max_size=60,
)


@given(steps)
def test_it_is_a_sorted_set(steps: list[tuple[str, int]]) -> None:
    queue, model = ReplayQueue(), set[int]()
    for what, value in steps:
        if what == "add":
            queue.add(value)
            model.add(value)
        elif what == "discard":
            queue.discard(value)
            model.discard(value)
        elif what == "clear" and value == 0:
            queue.clear()
            model.clear()
        assert queue.first_run(max(value, 1)) == first_run(model, max(value, 1))
        assert len(queue) == len(model)
        assert all((offset in queue) == (offset in model) for offset in range(16))


def first_run(model: set[int], limit: int) -> tuple[int, int] | None:
    if not model:
        return None
    length = 1
    while length < limit and min(model) + length in model:
        length += 1
    return min(model), length
