"""The record of which messages subscriptions have acknowledged."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.subscriptions import read_history
from magnetar_broker.subscriptions.read_history import ReadHistory, ReadOffsets
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.ranges import RangeSet

END = 30
"""The limit of offsets in these tests."""


def offsets(ranges: RangeSet) -> set[int]:
    return {offset for offset in range(END) if offset in ranges}


def replayed(pieces: list[bytes]) -> ReadHistory:
    history = ReadHistory()
    for piece in pieces:
        history.apply(piece)
    return history


def parsed(history: ReadHistory) -> list[Any]:
    return [json.loads(piece) for piece in history.snapshot()]


class Model:
    """The starts and positions of subscriptions, and every offset that was read."""

    def __init__(self) -> None:
        self.present: dict[str, tuple[int, int]] = {}
        self.read: set[int] = set()

    def held_or_read(self) -> set[int]:
        starts = [start for start, _ in self.present.values()]
        return self.read | set(range(min(starts, default=END), END))


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, END - 1), st.integers(-1, END - 1)),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(STEPS, st.data())
def test_it_knows_what_present_and_deleted_subscriptions_have_read(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    model, history, stored = Model(), ReadHistory(), list[bytes]()
    for name, start, mark_delete in steps:
        if name not in model.present:
            model.present[name] = (start, mark_delete)
            history.begin(name, start)
        else:
            began, read_to = model.present.pop(name)
            model.read |= set(range(began, read_to + 1))
            history.end(name, read_to)
        if data.draw(st.booleans()):
            stored += history.take_delta()
        if data.draw(st.integers(0, 9)) == 0:
            stored = history.snapshot()
        assert offsets(history.held_or_read(model.present)) == model.held_or_read()
    after_restart = replayed(stored + history.take_delta())
    assert offsets(after_restart.held_or_read(model.present)) == model.held_or_read()
    assert parsed(after_restart) == parsed(history)


SETS = st.sets(st.integers(0, END - 1))


@settings(max_examples=examples(300))
@given(SETS, SETS, SETS, st.integers(0, END), st.integers(0, END))
def test_what_is_in_none_of_the_sets_is_unread(
    read: set[int], hidden: set[int], holes: set[int], start: int, stop: int
) -> None:
    offsets = ReadOffsets(RangeSet(), OffsetSet(), OffsetSet())
    for offset in read:
        offsets.held_or_read.add(offset, offset + 1)
    for offset in hidden:
        offsets.hidden.add(offset, offset + 1)
    for offset in holes:
        offsets.holes.add(offset, offset + 1)
    expected = [n for n in range(start, stop) if n not in read | hidden | holes]
    found = list(offsets.unread(start, stop))
    assert [n for run in found for n in range(*run)] == expected
    assert all(one[1] < other[0] for one, other in pairwise(found))
    assert offsets.next_unread(start) == next(
        n for n in range(start, END + 1) if n not in read | hidden | holes
    )


def test_a_seek_to_before_its_start_makes_a_subscription_hold_more() -> None:
    history = ReadHistory()
    history.begin("sub", 10)
    history.seek("sub", 20)
    assert offsets(history.held_or_read(("sub",))) == set(range(10, END))
    history.seek("sub", 4)
    assert offsets(history.held_or_read(("sub",))) == set(range(4, END))
    assert offsets(replayed(history.take_delta()).held_or_read(("sub",))) == set(range(4, END))


def test_without_subscriptions_nothing_was_read() -> None:
    assert not ReadHistory().held_or_read(())


def test_a_subscription_of_which_nothing_is_known_holds_everything() -> None:
    assert offsets(ReadHistory().held_or_read(("sub",))) == set(range(END))


def test_it_forgets_the_oldest_where_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_history, "MOST_RANGES", 2)
    history = ReadHistory()
    for start in (0, 10, 20):
        history.begin("sub", start)
        history.end("sub", start + 1)
    assert offsets(history.held_or_read(())) == {10, 11, 20, 21}


def test_what_the_log_has_deleted_is_left_out() -> None:
    history = ReadHistory()
    history.end("sub", 9)
    history.forget_below(5)
    assert json.loads(history.snapshot()[0]) == {"ended": [[5, 10]]}


def test_many_names_are_stored_in_pieces() -> None:
    history = ReadHistory()
    for number in range(250):
        history.begin(f"sub-{number}", number)
    pieces = history.snapshot()
    assert len(pieces) == 3
    assert offsets(replayed(pieces).held_or_read(("sub-7",))) == set(range(7, END))


@pytest.mark.parametrize(
    "data", [b"[]", b"{", b'{"starts": {"a": -1}}', b'{"ended": [[0, "1"]]}', b'{"ended": [[0]]}']
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        ReadHistory().apply(data)
