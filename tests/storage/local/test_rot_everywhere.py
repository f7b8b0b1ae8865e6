"""Every byte of every kind of file is changed, and every file is cut at every length.

Whatever rots: entries are read as written or refused with their name, the damage is confined
to its place, and everything else is served.
"""

from collections.abc import Callable, Iterator

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY, Machine, Truth
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import Corrupt, Incomplete, NoSegment, StorageError, Unavailable
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import index_file, rounds
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import encode_entries, flat
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log

MASKS = (0x01, 0x10, 0x80, 0xFF)
LONG_JOURNAL = Limits(
    journal_file_bytes=1000,
    round_bytes=400,
    write_behind_bytes=1 << 20,
    checkpoint_bytes=1 << 20,
    index_bytes=100,
    loaded_segments=4,
)
ENTRIES_OF_A_BLOCK = 3

Rot = Callable[[FaultyDisk, str], Iterator[str]]
"""Damages the disk in one way after the other; yields a description of each."""


def every_flip(disk: FaultyDisk, name: str) -> Iterator[str]:
    content = disk.content(name)
    for offset in range(len(content)):
        for mask in MASKS:
            disk.flip(name, offset, mask)
            yield f"byte {offset} changed by {mask:02x}"
            disk.replace_content(name, content)


def every_cut(disk: FaultyDisk, name: str) -> Iterator[str]:
    content = disk.content(name)
    for size in range(len(content)):
        disk.replace_content(name, content[:size])
        yield f"cut to {size} bytes"


def filled(limits: Limits) -> Machine:
    """Create two segments of four blocks each."""
    machine = Machine(limits=limits)
    machine.open()
    first, second = machine.create(), machine.create()
    for turn in range(4):
        machine.append(first, [b"%d" % turn] * ENTRIES_OF_A_BLOCK, [1, 2, 1])
        machine.append(second, [b"second %d" % turn], [1])
        machine.pump()
    return machine


def closed() -> Machine:
    machine = filled(TINY)
    machine.seal(1)
    machine.close()
    return machine


def unfinished() -> Machine:
    """Create segment files without footers, as described by a checkpoint; then stop the machine."""
    machine = filled(LONG_JOURNAL)
    machine.do(machine.store.checkpoint())
    machine.disk = machine.disk.copy()
    return machine


def killed() -> Machine:
    """Create a machine with all its data in the journal."""
    machine = filled(LONG_JOURNAL)
    machine.disk = machine.disk.copy()
    return machine


def twins(machine: Machine, name: str, rot: Rot) -> Iterator[tuple[str, Machine]]:
    """Yield the machine with a rotten file, ready to be opened."""
    rotten = machine.disk.copy()
    for how in rot(rotten, name):
        twin = Machine(rotten.copy(), machine.limits)
        twin.truths = {
            number: Truth(list(truth.appended), truth.confirmed, truth.sealed)
            for number, truth in machine.truths.items()
        }
        yield f"{name}: {how}", twin


def lost(machine: Machine, number: int) -> set[int]:
    """Return confirmed entries that are not served; check that all others are as written."""
    truth = machine.truths[number]
    everything = set(range(truth.confirmed))
    try:
        reader = machine.do(machine.store.reader(number))
    except Corrupt as error:
        assert error.segment == number and error.file
        return everything
    except NoSegment:
        return everything
    gone = set()
    for entry in everything:
        try:
            part = machine.do(reader.read(entry, 1, 1 << 20))
        except Corrupt as error:
            assert error.segment == number
            assert error.first_entry is not None and error.last_entry is not None
            assert error.first_entry <= entry <= error.last_entry
            gone.add(entry)
        except NoSegment:
            gone.add(entry)
        else:
            if part.payloads:
                assert (part.payloads[0], part.counts[0]) == truth.appended[entry]
            else:
                gone.add(entry)
    return gone


def hurt(machine: Machine) -> dict[int, set[int]]:
    return {number: gone for number in machine.truths if (gone := lost(machine, number))}


@pytest.mark.parametrize("made", [closed, unfinished])
def test_a_changed_byte_of_a_segment_file_costs_one_block_at_most(
    made: Callable[[], Machine],
) -> None:
    machine = made()
    for number in (1, 2):
        blocks_lost = 0
        for how, twin in twins(machine, segment.file_name(number), every_flip):
            twin.open()
            gone = hurt(twin)
            assert gone.keys() <= {number}, how
            assert len(gone.get(number, ())) <= ENTRIES_OF_A_BLOCK, how
            blocks_lost += bool(gone)
        assert blocks_lost > 200
        twin.check_still_works()


@pytest.mark.parametrize("made", [closed, unfinished])
def test_a_segment_file_that_was_cut_costs_what_is_missing(made: Callable[[], Machine]) -> None:
    machine = made()
    for number in (1, 2):
        for how, twin in twins(machine, segment.file_name(number), every_cut):
            missing = twin.open_without_missing()
            assert missing == (number,) or not machine.truths[number].sealed, how
            gone = hurt(twin)
            assert gone.keys() <= set(missing), how
            assert gone.keys() <= {number}, how
            if machine.truths[number].sealed:
                assert gone or any(f.segment == number for f in twin.store.findings), how
            twin.check_still_works()


@pytest.mark.parametrize("rot", [every_flip, every_cut])
def test_a_rotten_index_file_costs_nothing(rot: Rot) -> None:
    machine = unfinished()
    for number in (1, 2):
        for how, twin in twins(machine, index_file.file_name(number), rot):
            twin.open()
            assert not hurt(twin), how
            twin.check_still_works()


@pytest.mark.parametrize("rot", [every_flip, every_cut])
def test_rot_in_a_complete_journal_file_is_reported(rot: Rot) -> None:
    machine = killed()
    names = [name for name in machine.disk.names() if name.endswith(".wal")]
    assert len(names) >= 2
    losses = 0
    for how, twin in twins(machine, names[0], rot):
        try:
            twin.open()
        except Corrupt as error:
            assert rot is every_cut and error.file == names[0], how
            assert twin.disk.locks == set()
            continue
        gone = hurt(twin)
        reported = [finding for finding in twin.store.findings if finding.data_lost]
        assert all(finding.file == names[0] for finding in reported)
        if rot is every_flip:
            assert len(gone) <= 1 and all(len(some) <= 3 for some in gone.values()), how
            assert {finding.segment for finding in reported} == gone.keys(), how
        assert bool(reported) >= bool(gone), how
        losses += bool(gone)
        twin.check_still_works()
    assert losses > 100


def test_a_changed_byte_in_the_last_journal_file_is_never_silent() -> None:
    machine = killed()
    name = [name for name in machine.disk.names() if name.endswith(".wal")][-1]
    losses = 0
    for how, twin in twins(machine, name, every_flip):
        twin.open()
        if hurt(twin):
            assert any(finding.file == name for finding in twin.store.findings), how
            losses += 1
    assert losses > 100


def test_the_last_journal_file_cut_anywhere_but_behind_a_round_is_never_silent() -> None:
    machine = killed()
    name = [name for name in machine.disk.names() if name.endswith(".wal")][-1]
    data = machine.disk.content(name)
    (seed,) = rounds.seeds(data)
    ends, at = {rounds.FIRST_ROUND_AT}, rounds.FIRST_ROUND_AT
    while (found := rounds.round_at(data, at, seed)) is not None:
        at = found.end
        ends.add(at)
    sizes = iter(range(len(data)))
    losses = 0
    for how, twin in twins(machine, name, every_cut):
        size = next(sizes)
        try:
            twin.open()
        except Corrupt as error:
            assert error.file == name, how
            continue
        if hurt(twin) and size not in ends:
            assert any(finding.file == name for finding in twin.store.findings), how
            losses += 1
    assert losses > 100


@pytest.mark.parametrize("rot", [every_flip, every_cut])
def test_a_rotten_checkpoint_or_format_is_refused_by_name(rot: Rot) -> None:
    machine = closed()
    checkpoint = checkpoints.file_name(checkpoints.numbers(machine.disk)[0])
    for name in (checkpoint, "FORMAT"):
        for how, twin in twins(machine, name, rot):
            try:
                twin.open()
            except Corrupt as error:
                assert error.file == name and "restore" in str(error), how
            except Unavailable as error:
                assert name == "FORMAT" and "use a release" in str(error), how
            else:
                assert name == "FORMAT", how  # the end of its line
                assert not hurt(twin), how
                continue
            assert twin.disk.locks == set(), how


def test_a_write_that_never_reached_a_file_used_again_is_found() -> None:
    """Rounds have equal size: in place of a lost one there is an old one, still valid."""
    machine = Machine(limits=LONG_JOURNAL)
    machine.open()
    number = machine.create()
    for turn in range(60):
        machine.append(number, [b"entry %02d" % turn], [1])
        machine.pump()
        if turn == 30:
            machine.do(machine.store.checkpoint())
    machine.disk = machine.disk.copy()
    record, _ = encode_entries(number, 0, [b"entry 00"], [1])
    (old,) = flat([record])
    found = 0
    for name, place in live_places(machine.disk):
        assert place.size == len(old)
        twin = Machine(machine.disk.copy(), machine.limits)
        twin.truths = {number: Truth(list(machine.truths[number].appended), 60)}
        data = machine.disk.content(name)
        rest = data[place.at + place.size :]
        twin.disk.replace_content(name, data[: place.at] + old + rest)
        twin.open()
        assert len(lost(twin, number)) == 1, f"{name}: an old record in the place of a new one"
        assert any(finding.file == name for finding in twin.store.findings)
        found += 1
    assert found >= 20


def live_places(disk: FaultyDisk) -> Iterator[tuple[str, rounds.RoundEntry]]:
    """Yield the places of records that only the journal has, without the last file."""
    start = checkpoints.read_newest(disk).position
    names = [name for name in disk.list("journal") if name.endswith(".wal")]
    for name in names[:-1]:
        file = rounds.file_number(name) or 0
        data = disk.content(f"journal/{name}")
        (seed,) = rounds.seeds(data)
        at = start.offset if file == start.file else rounds.FIRST_ROUND_AT
        while file >= start.file and (one := rounds.round_at(data, at, seed)) and one.places:
            yield from ((f"journal/{name}", place) for place in one.places)
            at = one.end


class Topics:
    """Two topics with cursors on one disk; the metadata is elsewhere and intact."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadata(ManualClock())
        self.segments: dict[str, int] = {}
        clock, engine, store = self.start()
        for key in ("/topics/a", "/topics/b"):
            log = run(Log.open(key, engine, create=True), clock)
            assert log is not None
            run(log.rollover.start_writing(), clock)
            append(log, [b"%d" % n for n in range(9)], [1] * 9, lambda error: None)
            cursors = run(CursorLog.open(log), clock)
            cursor = run(cursors.create("s", -1, {"p": "q"}), clock)
            for offset in (0, 1, 4):
                cursor.ack([offset])
                cursors.cursor_changed(cursor, lambda error: None)
                clock.pump()
            run(cursors.close(), clock)
            run(log.close(), clock)
            assert log.record.cursor_segment is not None
            self.segments[key] = log.record.cursor_segment
        run(store.close(), clock)

    def start(self, disk: FaultyDisk | None = None) -> tuple[ManualClock, Engine, LocalStore]:
        clock = ManualClock()
        store = run(LocalStore.open(disk or self.disk, InlineWorkers(clock), clock, TINY), clock)
        return clock, Engine(store, self.copied(), EntryCache(0), clock, ManualTasks(clock)), store

    def copied(self) -> MemoryMetadata:
        twin = MemoryMetadata(ManualClock())
        twin._values, twin._keys = self.metadata._values, self.metadata._keys
        twin._writes = self.metadata._writes
        return twin

    def acked(self, disk: FaultyDisk, key: str) -> list[int]:
        """Return the offsets acknowledged by the topic's cursor; `StorageError` if unknown."""
        clock, engine, _ = self.start(disk)
        log = run(Log.open(key, engine, create=False), clock)
        assert log is not None
        cursor = run(CursorLog.open(log), clock).cursors["s"]
        assert cursor.properties == {"p": "q"}
        return [offset for offset in range(9) if cursor.is_acked(offset)]


@pytest.mark.parametrize("rot", [every_flip, every_cut])
def test_rotten_cursors_are_refused_and_other_topics_served(rot: Rot) -> None:
    topics = Topics()
    name = segment.file_name(topics.segments["/topics/a"])
    rotten, refused = topics.disk.copy(), 0
    for how in rot(rotten, name):
        try:
            assert topics.acked(rotten.copy(), "/topics/a") == [0, 1, 4], how
        except StorageError as error:
            refused += 1
            number = topics.segments["/topics/a"]
            if rot is every_cut:
                assert isinstance(error, Incomplete) and error.segments == (number,), how
                continue
            assert isinstance(error, Corrupt) and error.segment == number
            assert topics.acked(rotten.copy(), "/topics/b") == [0, 1, 4], how
    assert refused > 100
