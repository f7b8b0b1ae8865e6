"""Index files: what they hold, what is not believed, when they grow and when they go."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_disk import FaultyDisk
from fakes.local_store import Machine
from magnetar_storage.errors import Unavailable
from magnetar_storage.local import index_file
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Flush, flush
from magnetar_storage.local.index_file import Growth
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import Buffers, encode_entries
from magnetar_storage.local.segment_file import Index

STEP = 300
LIMITS = Limits(journal_file_bytes=4096, index_bytes=STEP, loaded_segments=2)
RUNS = st.lists(
    st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 5)), min_size=1, max_size=5),
    min_size=1,
    max_size=12,
)
Runs = list[list[tuple[bytes, int]]]


def indexed(number: int, runs: Runs) -> tuple[Index, list[Buffers]]:
    """The index and the records of a segment with a block for each run."""
    index, records = Index(), []
    for entries in runs:
        payloads, counts = [p for p, _ in entries], [c for _, c in entries]
        buffers, size = encode_entries(number, index.entries, payloads, counts)
        records.append(buffers)
        index.add(len(entries), counts, size)
    return index, records


def open_segment(runs: Runs, stops: list[int] | None = None) -> tuple[FaultyDisk, Index]:
    """Segment 7 without a footer, and its index file, which has grown up to each of `stops`."""
    index, records = indexed(7, runs)
    disk = FaultyDisk()
    flush(disk, [Flush(7, 0, records, None)])
    grow(disk, index, [index.blocks] if stops is None else stops)
    return disk, index


def grow(disk: FaultyDisk, index: Index, stops: list[int]) -> None:
    start = at = 0
    for stop in stops:
        at = index_file.append(disk, Growth(7, index, start, stop, at))
        start = stop
    assert not stops or at == len(disk.content(index_file.file_name(7)))


def same(left: Index, right: Index) -> bool:
    return left.begins_with(right) and right.begins_with(left)


def loaded(disk: FaultyDisk, index: Index) -> Index:
    """The index as a start finds it that knows how much the segment holds."""
    length, entries, messages = index.offsets[-1], index.entries, index.messages.all
    return index_file.load_unfinished(disk, 7, length, entries, messages)


def kept_blocks(disk: FaultyDisk, number: int) -> int:
    """How many blocks an index file holds."""
    file = disk.open(index_file.file_name(number))
    try:
        return index_file.read(file, number).found.blocks
    finally:
        file.close()


@settings(max_examples=examples(200))
@given(RUNS, st.data(), st.integers(1, 9))
def test_what_was_kept_is_read_back(runs: Runs, data: st.DataObject, part_entries: int) -> None:
    stops = sorted(data.draw(st.sets(st.integers(1, len(runs)), min_size=1)))
    usual, index_file.PART_ENTRIES = index_file.PART_ENTRIES, part_entries
    try:
        disk, index = open_segment(runs, stops)
    finally:
        index_file.PART_ENTRIES = usual
    assert kept_blocks(disk, 7) == stops[-1]
    assert same(loaded(disk, index), index)


def test_only_what_is_behind_the_index_is_read_of_the_segment() -> None:
    disk, index = open_segment([[(bytes(40_000), 1)]] * 100, [30, 60, 95])
    reads: list[str] = []
    disk.fault = lambda what, name: reads.append(name) if what == "read" else None
    assert same(loaded(disk, index), index)
    of_parts, of_blocks = 3, 5
    assert reads.count(segment.file_name(7)) == of_parts + of_blocks


@pytest.mark.parametrize("damaged", ["changed", "cut"])
def test_a_damaged_index_file_is_not_needed(damaged: str) -> None:
    disk, index = open_segment([[(b"%d" % n, 1 + n % 3)] * (1 + n % 2) for n in range(9)], [4, 7])
    name = index_file.file_name(7)
    content = disk.content(name)
    for offset in range(len(content)):
        if damaged == "cut":
            disk.replace_content(name, content[:offset])
        else:
            disk.replace_content(name, content)
            disk.flip(name, offset, 0x10)
        assert kept_blocks(disk, 7) in (0, 4), offset
        assert same(loaded(disk, index), index), offset


def test_parts_of_another_segment_or_version_are_not_used() -> None:
    disk, _ = open_segment([[(b"a", 1)]] * 3)
    name = index_file.file_name(7)
    content = disk.content(name)
    disk.open(index_file.file_name(8), create=True).write(0, [content])
    assert kept_blocks(disk, 8) == 0
    other_head = index_file.encode_file_head(8)
    disk.open(index_file.file_name(8)).write(0, [other_head, content[len(other_head) :]])
    assert kept_blocks(disk, 8) == 0
    usual, index_file.FILE_VERSION = index_file.FILE_VERSION, 2
    try:
        assert kept_blocks(disk, 7) == 0
    finally:
        index_file.FILE_VERSION = usual


def test_a_part_that_does_not_follow_the_one_before_is_not_used() -> None:
    disk, index = open_segment([[(b"%d" % n, 1 + n % 3)] for n in range(9)], [2, 5, 9])
    name = index_file.file_name(7)
    content = disk.content(name)
    first, second, third = (at for at in range(len(content)) if content[at:].startswith(b"MIDX"))
    disk.replace_content(name, content[:first] + content[second:])
    assert kept_blocks(disk, 7) == 0
    assert same(loaded(disk, index), index)
    disk.replace_content(name, content[:second] + content[third:])
    assert kept_blocks(disk, 7) == 2
    assert same(loaded(disk, index), index)


CONTRADICTIONS: dict[str, Runs] = {
    "another border of blocks": [[(b"a", 1)], [(b"b", 2), (b"c", 3)], [(b"d", 4)]],
    "another size": [[(b"ax", 1), (b"b", 2)], [(b"c", 3)], [(b"d", 4)]],
    "sizes that add up": [[(b"", 1), (b"b", 2)], [(b"cx", 3)], [(b"d", 4)]],
    "another number of messages": [[(b"a", 1), (b"b", 3)], [(b"c", 3)], [(b"d", 4)]],
    "more than there is": [[(b"a", 1), (b"b", 2)], [(b"c", 3)], [(b"d", 4)], [(b"e", 5)]],
}


@pytest.mark.parametrize("kept", list(CONTRADICTIONS))
def test_an_index_that_contradicts_the_segment_is_not_used(kept: str) -> None:
    disk, index = open_segment([[(b"a", 1), (b"b", 2)], [(b"c", 3)], [(b"d", 4)]], [])
    wrong, _ = indexed(7, CONTRADICTIONS[kept])
    grow(disk, wrong, list(range(1, wrong.blocks + 1)))
    assert same(loaded(disk, index), index)


@pytest.mark.parametrize("broken_call", ["open", "read", "look at"])
def test_an_index_file_that_cannot_be_read_is_not_needed(broken_call: str) -> None:
    disk, index = open_segment([[(b"a", 1)]] * 3)
    name = index_file.file_name(7)

    def broken(what: str, of: str) -> Unavailable | None:
        return Unavailable(f"cannot {what} {of}") if of == name and what == broken_call else None

    disk.fault = broken
    assert same(loaded(disk, index), index)


# In a store ---------------------------------------------------------------------------


def grown(machine: Machine, number: int, bytes_more: int) -> None:
    """Let a segment grow, and write a checkpoint."""
    entries = [b"%04d" % n * 10 for n in range(bytes_more // 80 + 1)]
    for entry in entries:
        machine.append(number, [entry], [2])
    machine.pump()
    machine.do(machine.store.checkpoint())


def index_names(machine: Machine) -> list[str]:
    return [name for name in machine.disk.names() if name.endswith(".idx")]


def killed(machine: Machine) -> Machine:
    """The machine after a kill: ready to be opened, with all that was written."""
    twin = Machine(machine.disk.copy(), machine.limits)
    twin.truths = {
        number: replace(truth, appended=list(truth.appended))
        for number, truth in machine.truths.items()
    }
    return twin


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine(limits=LIMITS)
    made.open()
    yield made


def test_an_index_file_grows_by_what_is_new(machine: Machine) -> None:
    number = machine.create()
    grown(machine, number, STEP // 2)
    assert not index_names(machine), "too little for a file"
    sizes = [0]
    for _ in range(3):
        grown(machine, number, STEP)
        sizes.append(len(machine.disk.content(index_file.file_name(number))))
        assert kept_blocks(machine.disk, number) == len(machine.truths[number].appended)
    writes = [line for line in machine.disk.log if line.startswith("write segments/")]
    assert sum(line.endswith(".idx") for line in writes) == 1 + 3, "the head, and three parts"
    assert sizes == sorted(set(sizes))
    machine = killed(machine)
    machine.open()
    machine.check()


def test_an_index_file_goes_when_its_segment_is_finished_or_deleted(machine: Machine) -> None:
    sealed, deleted, kept = machine.create(), machine.create(), machine.create()
    for number in (sealed, deleted, kept):
        grown(machine, number, STEP)
    assert len(index_names(machine)) == 3
    machine.seal(sealed)
    machine.delete(deleted)
    machine.do(machine.store.checkpoint())
    assert index_names(machine) == [index_file.file_name(kept)]
    machine = killed(machine)
    machine.open()
    machine.check()
    machine.close()
    assert index_names(machine) == []


def test_an_index_file_that_a_crash_left_behind_goes(machine: Machine) -> None:
    number = machine.create()
    grown(machine, number, STEP)
    content = machine.disk.content(index_file.file_name(number))
    machine.seal(number)
    machine.close()
    machine.disk.open(index_file.file_name(number), create=True).write(0, [content])
    machine.open()
    machine.check()
    machine.close()
    assert index_names(machine) == []


def test_a_checkpoint_does_not_need_the_index_files(machine: Machine) -> None:
    number = machine.create()
    error = Unavailable("this disk does not like index files")

    def refuses(what: str, name: str) -> Unavailable | None:
        return error if what == "write" and name.endswith(".idx") else None

    machine.disk.fault = refuses
    grown(machine, number, STEP)
    (found,) = machine.store.findings
    assert found.text == f"index files of open segments cannot be written at present: {error}"
    assert kept_blocks(machine.disk, number) == 0
    twin = killed(machine)
    twin.open()
    twin.check()
    machine.disk.fault = None
    grown(machine, number, STEP)
    assert kept_blocks(machine.disk, number) == len(machine.truths[number].appended)


def test_an_index_file_whose_first_write_failed_goes_with_its_segment(machine: Machine) -> None:
    number = machine.create()
    error = Unavailable("no room")
    machine.disk.fault = lambda what, name: (
        error if what == "write" and name.endswith(".idx") else None
    )
    grown(machine, number, STEP)
    machine.disk.fault = None
    machine.seal(number)
    machine.do(machine.store.checkpoint())
    assert index_names(machine) == []
