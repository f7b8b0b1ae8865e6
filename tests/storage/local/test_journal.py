"""Journal files are used again, and what stood in them before is never taken for a round."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effort import seeds
from fakes.faulty_disk import seeded
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt, DiskFull
from magnetar_storage.local.journal_scan import JournalScan
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import CREATE, DELETE, Record, encode
from magnetar_storage.local.rounds import encode_round

ROUND_BYTES = 150
SMALL = Limits(
    journal_file_bytes=6 * ROUND_BYTES,
    round_bytes=400,
    write_behind_bytes=1 << 20,
    checkpoint_bytes=8 * ROUND_BYTES,
    loaded_segments=2,
)


def journal(machine: Machine, suffix: str) -> list[str]:
    return [name for name in machine.disk.names() if name.endswith(suffix)]


def checkpoint_of(machine: Machine) -> str:
    return next(name for name in machine.disk.names() if name.startswith("checkpoint"))


def after_rounds(rounds: int) -> tuple[Machine, int]:
    """A store whose rounds all look alike: one entry of the same size for the same segment."""
    machine = Machine(limits=SMALL)
    machine.open()
    segment = machine.create()
    for number in range(rounds):
        machine.append(segment, [b"entry %9d" % number], [1])
        machine.pump()
    return machine, segment


def test_a_bounded_number_of_files_takes_turns() -> None:
    machine, _ = after_rounds(200)
    created = machine.disk.log.count("create " + journal(machine, ".wal")[-1])
    assert created == 0, "a file is made under the name of a spare one"
    files = journal(machine, ".wal") + journal(machine, ".spare")
    assert len(files) <= SMALL.spare_journal_files + 2
    made = [line for line in machine.disk.log if line.startswith("create journal/")]
    assert len(made) <= len(files) + 1
    reserved = [line for line in machine.disk.log if line.startswith("allocate journal/")]
    assert len(reserved) == len(made), "a file that is used again has its room"


def test_a_spare_file_that_a_checkpoint_removes_while_it_is_taken_is_replaced() -> None:
    """On a full disk a checkpoint removes spare files in its thread, whatever the journal does."""
    machine, segment = after_rounds(100)
    removed: list[str] = []

    def remove_once(what: str, name: str) -> None:
        if what == "rename" and name.endswith(".wal") and not removed:
            spare = name.partition(" ")[0]
            removed.append(spare)
            machine.disk.remove(spare)

    machine.disk.before = remove_once
    for number in range(20):
        machine.append(segment, [b"entry %9d" % number], [1])
        machine.pump()
    assert removed and machine.store.trouble is None
    machine.check()
    machine.disk.crash(seeded(1))
    machine.open()
    assert machine.store.findings == []
    machine.check()


def test_an_old_record_in_the_place_of_a_torn_one_is_not_taken() -> None:
    """The header of the last round arrived on the disk, its record did not."""
    machine, segment = after_rounds(100)
    checked = 0
    for number in range(100, 112):
        name, checkpoint = journal(machine, ".wal")[-1], checkpoint_of(machine)
        before = machine.disk.content(name)
        machine.append(segment, [b"entry %9d" % number], [1])
        machine.pump()
        if journal(machine, ".wal")[-1] != name or checkpoint_of(machine) != checkpoint:
            continue
        after = machine.disk.content(name)
        at = after.index(b"entry %9d" % number)
        twin = Machine(machine.disk.copy(), SMALL)
        twin.disk.replace_content(name, after[: at - 40] + before[at - 40 :])
        twin.open()
        found = twin.read_all(segment)
        assert [payload for payload, _ in found] == [b"entry %9d" % n for n in range(number)]
        (finding,) = twin.store.findings
        assert "cut short" in finding.text and not finding.data_lost
        checked += b"entry" in before[at - 40 : at + 20]
    assert checked > 3, "old records of the same size stood there"


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.sampled_from([CREATE, DELETE])), max_size=4)
)
@example([(1, CREATE)])
def test_a_directory_does_not_pass_for_that_of_other_records(
    records: list[tuple[int, int]],
) -> None:
    """A checksum right behind what it sums adds nothing to a sum over both."""

    def checksum(numbers: list[int]) -> bytes:
        encoded = [encode(kind, number) for number, (_, kind) in zip(numbers, records, strict=True)]
        crcs = [record[:4] for record in encoded]
        return encode_round(10, 7, [32] * len(crcs), numbers, [0] * len(crcs), crcs)[4:8]

    numbers = [number for number, _ in records]
    for i, number in enumerate(numbers):
        other = [*numbers[:i], number ^ 2, *numbers[i + 1 :]]
        assert checksum(other) != checksum(numbers)


def test_a_clean_end_is_clean_whatever_stood_behind_it_before() -> None:
    for rounds in range(60, 75):
        machine, segment = after_rounds(rounds)
        twin = Machine(machine.disk.copy(), SMALL)
        twin.open()
        assert twin.store.findings == []
        assert len(twin.read_all(segment)) == rounds


def test_a_file_under_another_name_is_refused() -> None:
    machine, _ = after_rounds(3)
    (name,) = journal(machine, ".wal")
    twin = Machine(machine.disk.copy(), SMALL)
    older, _ = after_rounds(20)
    twin.disk.replace_content(name, older.disk.content(journal(older, ".wal")[-1]))
    with pytest.raises(Corrupt, match="expected journal file"):
        twin.open()


def test_ids_continue_after_a_stop_in_good_order() -> None:
    machine, segment = after_rounds(5)
    machine.close()
    machine.open()
    assert machine.create() == segment + 1


def test_ids_of_rounds_that_vanished_without_a_trace_are_not_given_out_again() -> None:
    """As after a power failure where the journal is not synced."""
    machine, _ = after_rounds(2)
    (name,) = journal(machine, ".wal")
    before = machine.disk.content(name)
    lost = machine.create()
    twin = Machine(machine.disk.copy(), SMALL)
    twin.disk.replace_content(name, before)
    twin.open()
    assert twin.store.findings == []
    assert twin.create() > lost


@pytest.mark.parametrize("seed", seeds(20))
def test_a_round_that_found_no_room_is_gone_after_a_crash(seed: int) -> None:
    """Even where the disk finds out only as it syncs, with all of the round written."""
    machine, segment = after_rounds(3)

    def full(what: str, name: str) -> DiskFull | None:
        if what != "sync" or not name.endswith(".wal"):
            return None
        machine.disk.fault = None
        return DiskFull(f"no room for {name}")

    machine.disk.fault = full
    machine.append(segment, [b"too much"], [1])
    machine.pump()
    assert machine.disk.fault is None and machine.truths[segment].confirmed == 3
    machine.disk.crash(seeded(seed))
    machine.open()
    assert len(machine.read_all(segment)) == 3


def test_rounds_count_up_or_are_none() -> None:
    def round_of(number: int, segment: int) -> bytes:
        record = encode(CREATE, segment)
        return encode_round(number, 7, [len(record)], [segment], [0], [record[:4]]) + record

    data = round_of(5, 1) + round_of(4, 2) + bytes(100)
    scan = JournalScan(data, seed=7, complete=False, end=None, last_round=4)
    assert [item.segment for item in scan.items(0) if isinstance(item, Record)] == [1]
    assert (scan.last_round, scan.torn_at) == (5, len(round_of(5, 1)))
