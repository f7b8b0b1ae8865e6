"""Segment ids: an id names its directory, and the next one is larger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.faulty_disk import nothing
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt
from magnetar_storage.local import layout
from magnetar_storage.local.segment_ids import (
    DIRECTORIES,
    FIRST_WITH_DIRECTORY,
    directory_of,
    first_above,
    following,
)

IDS = st.one_of(
    st.integers(0, 1 << 50),
    st.integers(FIRST_WITH_DIRECTORY - 300, FIRST_WITH_DIRECTORY + 300),
)
NUMBERS = st.integers(0, DIRECTORIES - 1)


@given(IDS, NUMBERS)
def test_the_first_id_above_another_is_the_next_of_its_directory(segment: int, own: int) -> None:
    found = first_above(segment, own)
    assert found > segment and found >= FIRST_WITH_DIRECTORY
    assert directory_of(found) == own
    assert found - DIRECTORIES < max(segment + 1, FIRST_WITH_DIRECTORY)


@given(IDS, st.integers(1, 1 << 20))
def test_the_ids_that_follow_are_of_the_same_directory(segment: int, count: int) -> None:
    found = following(segment, count)
    assert found > segment
    assert directory_of(found) == directory_of(segment)


def test_small_ids_count_in_ones_and_end_where_ids_name_directories() -> None:
    assert [following(1), following(1, 9)] == [2, 10]
    assert directory_of(FIRST_WITH_DIRECTORY - 1) == 0
    assert following(FIRST_WITH_DIRECTORY - 1) == FIRST_WITH_DIRECTORY
    assert following(FIRST_WITH_DIRECTORY - 5, 1 << 16) == FIRST_WITH_DIRECTORY


def test_a_directory_begins_with_its_own_ids() -> None:
    machine = Machine(directory=7)
    machine.open()
    made = [machine.create() for _ in range(3)]
    first = FIRST_WITH_DIRECTORY + 7
    assert made == [first, first + DIRECTORIES, first + 2 * DIRECTORIES]
    assert machine.store.last_id >= made[-1]
    assert all(name.startswith("workers/7/") for name in machine.disk.names())


@pytest.mark.parametrize("own", [0, 7])
def test_after_an_unclean_stop_ids_are_left_out(own: int) -> None:
    machine = Machine(directory=own)
    machine.open()
    before = machine.create()
    machine.disk.crash(nothing)
    machine.open()
    after = machine.create()
    assert after >= following(before, 1 << 16)
    assert directory_of(after) == own


@pytest.mark.parametrize(("own", "other"), [(0, 1), (1, 0), (1, 2)])
def test_a_directory_in_the_place_of_another_is_refused(own: int, other: int) -> None:
    machine = Machine(directory=own)
    machine.open()
    machine.close()
    machine.directory = other
    moved = Machine(directory=other)
    prefixes = [f"workers/{number}/" if number else "" for number in (own, other)]
    for name in machine.disk.names():
        content = machine.disk.content(name)
        moved.disk.open(prefixes[1] + name.removeprefix(prefixes[0]), create=True).write(
            0, [content]
        )
    with pytest.raises(Corrupt, match=f"this is store directory {own}, in the place of {other}"):
        moved.open()


# Topics that come from another directory ---------------------------------------------


@pytest.mark.parametrize("own", [0, 7])
def test_ids_advance_beyond_those_of_another_directory(own: int) -> None:
    machine = Machine(directory=own)
    machine.open()
    machine.create()
    other = FIRST_WITH_DIRECTORY + 1000 * DIRECTORIES + 3
    machine.do(machine.store.advance_beyond(other))
    machine.do(machine.store.advance_beyond(other - 1))
    made = machine.create()
    assert made == following(first_above(other, own))
    assert machine.store.last_id > other
    machine.close()
    machine.open()
    assert machine.create() > made
    machine.check()


def test_ids_do_not_go_back_when_a_lower_one_is_passed() -> None:
    machine = Machine(directory=2)
    machine.open()
    made = [machine.create() for _ in range(3)]
    machine.do(machine.store.advance_beyond(made[0] + 1))
    assert machine.create() > made[-1]


def test_a_start_that_has_lost_the_last_round_knows_how_far_ids_have_come() -> None:
    machine = Machine(directory=2)
    machine.open()
    machine.do(machine.store.advance_beyond(FIRST_WITH_DIRECTORY << 4))
    lost = machine.create()
    journal = next(name for name in machine.disk.names() if name.endswith(".wal"))
    machine.disk.flip_bit(journal, len(machine.disk.content(journal).rstrip(b"\0")) - 1)
    machine.disk.locks.clear()
    del machine.truths[lost]
    machine.open()
    assert machine.create() > lost


def test_a_segment_that_was_made_ahead_is_not_handed_out_after() -> None:
    machine = Machine(directory=2)
    machine.open()
    made = [machine.create() for _ in range(40)]
    assert machine.store.last_id > following(made[-1]), "none was made ahead"
    machine.do(machine.store.advance_beyond(FIRST_WITH_DIRECTORY << 4))
    assert machine.create() > FIRST_WITH_DIRECTORY << 4
    machine.clock.advance(10)
    machine.check()


def test_an_advance_that_failed_is_made_again() -> None:
    machine = Machine(directory=2)
    machine.open()
    beyond = FIRST_WITH_DIRECTORY << 4
    machine.disk.room = 0
    with pytest.raises(Exception, match="room"):
        machine.do(machine.store.advance_beyond(beyond))
    machine.disk.room = 1 << 40
    machine.clock.advance(60)
    syncs = machine.disk.operations
    machine.do(machine.store.advance_beyond(beyond))
    assert machine.disk.operations > syncs
    assert machine.create() > beyond


def test_a_store_directory_names_the_format_that_earlier_releases_refuse() -> None:
    machine = Machine(directory=2)
    machine.open()
    assert machine.disk.content("workers/2/FORMAT") == layout.HEAD + b"3\n"
