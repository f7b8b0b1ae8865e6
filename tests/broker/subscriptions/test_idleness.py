"""What is stored of idle subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.subscriptions.idleness import WRITTEN_TOGETHER, Idleness
from magnetar_storage.cursors.cursor_log import DurableCursor


def cursor(number: int) -> DurableCursor:
    return DurableCursor(number, f"sub {number}", -1, {})


def seen(numbers: int = 1, looks: int = 2, seconds: int = 10) -> Idleness:
    idleness = Idleness()
    for _ in range(looks):
        for number in range(numbers):
            idleness.look(cursor(number), 0, False, seconds)
    return idleness


def replayed(*pieces: bytes) -> Idleness:
    idleness = Idleness()
    for piece in pieces:
        idleness.apply(piece)
    return idleness


def test_the_first_look_only_begins() -> None:
    assert seen(looks=1).seconds(cursor(0)) == 0
    assert seen(looks=3).seconds(cursor(0)) == 20


def test_what_changed_is_handed_out_once() -> None:
    idleness = seen()
    pieces = idleness.take_delta()
    assert replayed(*pieces).seconds(cursor(0)) == 10
    assert idleness.take_delta() == []
    idleness.look(cursor(0), 1, False, 10)
    assert replayed(*pieces, *idleness.take_delta()).seconds(cursor(0)) == 0


def test_it_is_written_an_eighth_at_a_time_and_each_hour() -> None:
    idleness = seen(seconds=99)
    assert not idleness.worth_writing(800)
    assert idleness.worth_writing(792)
    idleness = seen(seconds=3599)
    assert not idleness.worth_writing(10**6)
    idleness.look(cursor(0), 0, False, 1)
    assert idleness.worth_writing(10**6)


def test_a_use_is_written_at_once_if_the_stored_state_differs() -> None:
    idleness = seen()
    idleness.look(cursor(0), 1, False, 10)
    assert not idleness.worth_writing(10**6)
    idleness = seen()
    idleness.take_delta()
    idleness.look(cursor(0), 0, True, 10)
    assert idleness.worth_writing(10**6)


def test_cursors_that_are_gone_are_forgotten() -> None:
    idleness = seen(numbers=2)
    idleness.snapshot()
    idleness.keep({1})
    assert replayed(*idleness.snapshot()).seconds(cursor(0)) == 0
    assert idleness.seconds(cursor(1)) == 10


def test_very_many_are_written_in_pieces() -> None:
    idleness = seen(numbers=WRITTEN_TOGETHER + 1)
    pieces = idleness.snapshot()
    assert len(pieces) == 2
    assert all(len(piece) < 1 << 20 for piece in pieces)
    assert replayed(*pieces).seconds(cursor(WRITTEN_TOGETHER)) == 10


@pytest.mark.parametrize("piece", [b"", b"[]", b'{"a": 1}', b'{"1": "a"}', b'{"1": -1}', b"\xff"])
def test_what_is_none_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError):
        Idleness().apply(piece)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=30))
def test_deltas_add_up_to_the_snapshot(steps: list[tuple[int, bool, bool]]) -> None:
    idleness, written = Idleness(), list[bytes]()
    for number, in_use, write in steps:
        idleness.look(cursor(number), 0, in_use, 10)
        if write:
            written += idleness.take_delta()
    written += idleness.take_delta()
    by_deltas = replayed(*written)
    by_snapshot = replayed(*idleness.snapshot())
    for number in range(4):
        expected = idleness.seconds(cursor(number))
        assert by_deltas.seconds(cursor(number)) == by_snapshot.seconds(cursor(number)) == expected
