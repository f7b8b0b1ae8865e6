"""A store of which files are missing is not opened, and nothing on the disk changes."""

from dataclasses import replace

import pytest

from fakes.faulty_disk import nothing
from fakes.local_store import TINY, Machine
from magnetar_storage.errors import Corrupt, Incomplete, NoSegment
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import segment_file as segment

ENTRIES = [b"one", b"two"]


def stopped() -> tuple[Machine, int, int]:
    """A finished segment and an open one, with something in the journal behind their files."""
    machine = Machine(limits=replace(TINY, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20))
    machine.open()
    finished, growing = machine.create(), machine.create()
    for number in (finished, growing):
        machine.append(number, ENTRIES, [1, 1])
    machine.seal(finished)
    machine.do(machine.store.checkpoint())
    machine.append(growing, [b"three"], [1])
    machine.pump()
    machine.disk = machine.disk.copy()
    return machine, finished, growing


def state(machine: Machine) -> dict[str, bytes]:
    return {name: machine.disk.content(name) for name in machine.disk.names() if name != "LOCK"}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("bytes_left", [None, 0, 30])
def test_a_missing_or_short_file_is_refused_and_nothing_changes(
    which: int, bytes_left: int | None
) -> None:
    machine, *numbers = stopped()
    name = segment.file_name(numbers[which])
    whole = machine.disk.content(name)
    if bytes_left is None:
        machine.disk.remove(name)
    else:
        machine.disk.replace_content(name, whole[:bytes_left])
    before = state(machine)
    for _ in range(2):
        with pytest.raises(Incomplete, match="restore a snapshot") as refusal:
            machine.open()
        assert name in str(refusal.value) and refusal.value.segments == (numbers[which],)
        assert machine.disk.locks == set() and state(machine) == before
    file = machine.disk.open(name, create=True)  # put back
    file.close()
    machine.disk.replace_content(name, whole)
    machine.open()
    machine.check()


def test_what_the_journal_has_of_a_missing_file_does_not_make_it_complete() -> None:
    """It is more than is kept in memory while the journal is read."""
    machine, *_ = stopped()
    machine.open()
    number = machine.create()
    machine.append(number, [b"in the file"], [1])
    machine.pump()
    machine.do(machine.store.checkpoint())
    machine.append(number, [b"x" * 500], [1])
    machine.pump()
    machine.disk = machine.disk.copy()
    machine.disk.remove(segment.file_name(number))
    machine.limits = TINY
    for _ in range(2):
        with pytest.raises(Incomplete) as refusal:
            machine.open()
        assert refusal.value.segments == (number,)
        assert segment.base_name(number) not in machine.disk.list("segments")


def test_without_any_segment_all_are_named() -> None:
    machine, *numbers = stopped()
    for number in numbers:
        machine.disk.remove(segment.file_name(number))
    with pytest.raises(Incomplete, match="2 files") as refusal:
        machine.open()
    assert refusal.value.segments == tuple(numbers)


def test_many_missing_files_are_counted() -> None:
    machine = Machine()
    machine.open()
    for _ in range(12):
        number = machine.create()
        machine.append(number, ENTRIES, [1, 1])
        machine.seal(number)
    machine.close()
    for name in machine.disk.list("segments"):
        machine.disk.remove(f"segments/{name}")
    with pytest.raises(Incomplete, match=r"12 files of segments .* and 2 more"):
        machine.open()


@pytest.mark.parametrize("which", [0, 1])
def test_what_was_given_up_is_damaged_and_the_rest_is_there(which: int) -> None:
    machine, *numbers = stopped()
    lost, kept = numbers[which], numbers[1 - which]
    machine.disk.remove(segment.file_name(lost))
    assert machine.open_without_missing() == (lost,)
    assert any(one.data_lost and one.segment == lost for one in machine.store.findings)
    for _ in range(2):
        assert len(machine.read_all(kept)) == len(machine.truths[kept].appended)
        with pytest.raises((NoSegment, Corrupt)):
            machine.read_all(lost)
        machine.close()
        machine.open()  # it is missed no more


def test_a_file_whose_deletion_was_cut_short_is_not_missed() -> None:
    machine, finished, growing = stopped()
    machine.open()
    for number in (finished, growing):
        machine.delete(number)
    assert machine.disk.list("segments") == []
    machine.disk.crash(nothing)
    machine.open()
    machine.check()


def test_one_that_was_deleted_before_is_not_missed_although_it_grew() -> None:
    """Its records are in the journal, the file is gone, and the journal fills memory first."""
    machine, _, growing = stopped()
    machine.open()
    machine.do(machine.store.checkpoint())
    writer = machine.create()
    machine.delete(growing)
    machine.append(writer, [b"x" * 400], [1])
    machine.pump()
    machine.disk = machine.disk.copy()
    machine.limits = TINY
    machine.open()
    machine.check()


@pytest.mark.parametrize("synced", [True, False])
def test_without_synced_journals_a_power_failure_may_have_taken_deletions_back(
    synced: bool,
) -> None:
    machine, finished, _ = stopped()
    machine.limits = replace(machine.limits, journal_is_synced=synced)
    machine.disk.remove(segment.file_name(finished))
    if synced:
        with pytest.raises(Incomplete):
            machine.open()
    else:
        machine.open()
        assert [one.segment for one in machine.store.findings if one.data_lost] == [finished]


def test_a_checkpoint_has_the_bytes_of_every_file() -> None:
    machine, finished, growing = stopped()
    number = checkpoints.numbers(machine.disk)[0]
    name = checkpoints.file_name(number)
    found = checkpoints.decode(machine.disk.content(name))
    assert found is not None and found.finished.keys() == {finished}
    assert found.finished[finished] == len(machine.disk.content(segment.file_name(finished)))
    assert found.rows.keys() == {growing}
