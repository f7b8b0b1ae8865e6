"""A flipped bit anywhere is detected or harmless, reported, and confined."""

from collections.abc import Iterator

import pytest

from effort import some
from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY, Machine, Truth
from magnetar_storage.errors import Corrupt
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.recovery import Finding
from magnetar_storage.runtime.whole_files import write_file

NO_CHECKPOINTS = Limits(
    journal_file_bytes=1000,
    round_bytes=400,
    write_behind_bytes=1 << 20,
    checkpoint_bytes=1 << 20,
    loaded_segments=4,
)


def stopped(limits: Limits, tidy: bool) -> Machine:
    """Create two segments with several blocks each; `tidy` closes the store, else it is killed."""
    machine = Machine(limits=limits)
    machine.open()
    first, second = machine.create(), machine.create()
    for turn in range(4):
        machine.append(first, [b"%d" % turn] * 3, [1, 2, 1])
        machine.append(second, [b"second %d" % turn], [1])
        machine.pump()
    if tidy:
        machine.seal(first)
        machine.close()
    else:
        machine.disk = machine.disk.copy()
    return machine


def rotten(machine: Machine, name: str) -> Iterator[tuple[int, Machine]]:
    """Yield the machine before a start with a flipped bit, for the bytes of a file in turn."""
    for offset in some(range(len(machine.disk.content(name))), 5):
        disk = machine.disk.copy()
        disk.flip_bit(name, offset, offset % 8)
        twin = Machine(disk, machine.limits)
        twin.truths = {
            number: Truth(list(truth.appended), truth.confirmed, truth.sealed)
            for number, truth in machine.truths.items()
        }
        yield offset, twin


def lost_entries(machine: Machine, segment: int) -> set[int]:
    """Return the entries that are refused as unreadable; check that all others are unchanged."""
    truth = machine.truths[segment]
    reader = machine.do(machine.store.reader(segment))
    lost = set()
    for entry, expected in enumerate(truth.appended[: truth.confirmed]):
        try:
            run = machine.do(reader.read(entry, 1, 1 << 20))
        except Corrupt as error:
            assert error.segment == segment
            assert error.first_entry is not None and error.last_entry is not None
            assert error.first_entry <= entry <= error.last_entry
            lost.add(entry)
            continue
        if run.payloads:
            assert (run.payloads[0], run.counts[0]) == expected
        else:
            lost.add(entry)
    return lost


def test_rot_in_a_segment_file_costs_one_block_at_most() -> None:
    machine = stopped(TINY, tidy=True)
    names = [name for name in machine.disk.names() if name.startswith("segments/")]
    assert len(names) == 2
    blocks_lost = 0
    for name in names:
        for _, twin in rotten(machine, name):
            twin.open()
            lost = {segment: lost_entries(twin, segment) for segment in twin.truths}
            hurt = [segment for segment in lost if lost[segment]]
            assert len(hurt) <= 1
            assert all(len(lost[segment]) <= 3 for segment in hurt)
            assert all(name.endswith(f"{segment:016x}.seg") for segment in hurt)
            blocks_lost += len(hurt)
            twin.check_still_works()
    assert blocks_lost > 0


def test_rot_in_a_complete_journal_file_costs_one_record_at_most() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    names = [name for name in machine.disk.names() if name.startswith("journal/")]
    assert len(names) >= 2
    found = 0
    for name in names[:-1]:
        for _, twin in rotten(machine, name):
            twin.open()
            lost = {segment: lost_entries(twin, segment) for segment in twin.truths}
            hurt = {segment for segment in lost if lost[segment]}
            assert len(hurt) <= 1
            assert all(len(lost[segment]) <= 3 for segment in hurt)
            losses = [finding for finding in twin.store.findings if finding.data_lost]
            assert {finding.segment for finding in losses} == hurt
            assert all(finding.file == name for finding in losses)
            found += len(losses)
            twin.check_still_works()
    assert found > 0


def test_rot_in_the_last_journal_file_is_never_silent() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    name = [name for name in machine.disk.names() if name.startswith("journal/")][-1]
    for offset, twin in rotten(machine, name):
        twin.open()
        lost = any(lost_entries(twin, segment) for segment in twin.truths)
        if lost:
            assert any(finding.file == name for finding in twin.store.findings), offset
        twin.check_still_works()


def test_damaged_entries_stay_refused_after_checkpoints_and_restarts() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    name = "journal/0000000000000001.wal"
    at = machine.disk.content(name).index(b"second 0")
    machine.disk.flip_bit(name, at)
    machine.open()
    assert lost_entries(machine, 2) == {0}
    sealed = machine.do(machine.store.recover(2))
    assert sealed.entries == 4
    machine.close()
    machine.open()
    assert machine.store.findings == []
    assert lost_entries(machine, 2) == {0}
    machine.close()
    machine.open()
    assert lost_entries(machine, 2) == {0}
    assert lost_entries(machine, 1) == set()


def test_a_round_that_cannot_be_attributed_makes_open_segments_suspect() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    name = "journal/0000000000000001.wal"
    content = bytearray(machine.disk.content(name))
    last_round = content.rindex(b"MRND", 0, content.rindex(b"MRND"))
    content[last_round:] = bytes(len(content) - last_round)
    machine.disk.replace_content(name, bytes(content))
    machine.open()
    assert [finding.data_lost for finding in machine.store.findings].count(True) >= 1
    refused = readable = 0
    for segment, truth in machine.truths.items():
        try:
            lost = lost_entries(machine, segment)
        except Corrupt as error:
            assert error.segment == segment and error.first_entry is None
            with pytest.raises(Corrupt):
                machine.do(machine.store.recover(segment))
            refused += 1
        else:
            assert len(lost) < truth.confirmed
            readable += 1
    assert refused + readable == 2
    before = refused
    machine.check_still_works()
    machine.close()
    machine.open()
    still = sum(1 for segment in (1, 2) if refuses(machine, segment))
    assert still == before


def refuses(machine: Machine, segment: int) -> bool:
    try:
        machine.do(machine.store.reader(segment))
    except Corrupt:
        return True
    return False


def test_rot_in_the_checkpoint_is_refused_with_a_remedy() -> None:
    machine = stopped(TINY, tidy=True)
    name = checkpoints.file_name(checkpoints.numbers(machine.disk)[0])
    for _, twin in rotten(machine, name):
        with pytest.raises(Corrupt, match="restore") as refused:
            twin.open()
        assert refused.value.file == name
        assert twin.disk.locks == set()


def test_a_damaged_checkpoint_falls_back_while_the_journal_is_there() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    newer = checkpoints.read_newest(machine.disk)
    newer.number += 1
    write_file(machine.disk, checkpoints.file_name(newer.number), b"rot")
    machine.open()
    machine.check()


def test_rot_in_the_format_file_is_refused() -> None:
    machine = stopped(TINY, tidy=True)
    machine.disk.replace_content("FORMAT", b"something else")
    with pytest.raises(Corrupt, match="restore"):
        machine.open()


def test_a_missing_journal_file_is_refused() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    disk: FaultyDisk = machine.disk
    disk.remove("journal/0000000000000001.wal")
    with pytest.raises(Corrupt, match="missing"):
        machine.open()


def test_findings_are_text_for_people() -> None:
    machine = stopped(NO_CHECKPOINTS, tidy=False)
    name = "journal/0000000000000001.wal"
    machine.disk.flip_bit(name, machine.disk.content(name).index(b"second 0"))
    machine.open()
    (finding,) = machine.store.findings
    assert isinstance(finding, Finding)
    assert name in finding.text and "segment 2: entries 0 to 0 are damaged" in finding.text
