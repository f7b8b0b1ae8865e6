"""`verify`: its findings, valid data that it must not report, and that it changes nothing."""

import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY
from fakes.logs import numbered
from fakes.memory_metadata import MemoryMetadata
from fakes.origins import MESSAGES
from fakes.runs import append
from fakes.tiered import TieredWorld
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_storage.compacted.compacted_part import Stretch
from magnetar_storage.compacted.compacted_writer import CompactedWriter, Scratch
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.errors import Unavailable
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import index_file
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.index_file import Growth
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import encode_entries
from magnetar_storage.local.segment_file import Index
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log import rewriting
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.compacted_record import Compacted
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.verify.report import Problem, Report
from magnetar_storage.verify.verify import size_of, verify

T = TypeVar("T")

KEY = "/topics/public/default/persistent/orders"
LONG_JOURNAL = Limits(
    journal_file_bytes=900,
    round_bytes=400,
    write_behind_bytes=1 << 20,
    checkpoint_bytes=1 << 20,
    index_bytes=40,
    loaded_segments=4,
)


class Directory:
    """A topic of three segments with a cursor: its disk and its metadata."""

    def __init__(
        self,
        limits: Limits = TINY,
        close: bool = True,
        rewrite: bool = False,
        compact: bool = False,
    ) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadata(self.clock)
        self.store = self.do(
            LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, limits)
        )
        engine = Engine(
            self.store, self.metadata, EntryCache(0), self.clock, ManualTasks(self.clock),
            RollLimits(max_entries=9, min_age_ms=0),
        )  # fmt: skip
        log = self.do(Log.open(KEY, engine, create=True))
        assert log is not None
        cursors = self.do(CursorLog.open(log))
        self.do(log.rollover.start_writing())
        self.do(cursors.create("reader", -1, {}))
        for turn in range(6):
            append(log, [b"%d %d" % (turn, i) for i in range(3)], [1, turn + 1, 2], fail_on_error)
            cursors.cursors["reader"].ack([turn])
            cursors.cursor_changed(cursors.cursors["reader"], fail_on_error)
            self.clock.pump()
        if rewrite:
            self.rewrite(log)
        if compact:
            self.do(self.compact(log))
        self.segments = [listed.id for listed in log.segments]
        self.sparse = log.segments[0].kept_in or 0
        self.cursor_segment = log.record.cursor_segment or 0
        if close:
            self.do(cursors.close())
            self.do(log.close())
            self.do(self.store.close())
        self.record = LogRecord.decode(KEY, self.metadata._values[KEY].value)
        self.names = [name for name in self.disk.names() if name != "LOCK"]

    def rewrite(self, log: Log) -> None:
        """Rewrite the log: one entry of the first segment is needed, and none of the second."""
        append(log, [b"last"], [1], fail_on_error)
        self.clock.pump()
        needs = Cursor(4)
        needs.ack(range(6, 18))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rewriting, "NEEDED_OF_WHOLE", 9)
            assert self.do(log.reclaim(needed_by([needs]), 99))

    async def compact(self, log: Log) -> None:
        """Compact the first segment to two entries."""
        writer = CompactedWriter(log, Scratch(log))
        await writer.add(Stretch(log.segments[0].id, 0, [3, 7], [b"3", b"7"], [1, 2]))
        await writer.end(9)
        await writer.list()

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock)

    def verify(self, disk: FaultyDisk | None = None) -> Report:
        return verify(disk or self.disk, {KEY: self.record.encode()})

    def create_segment(self, *payloads: bytes) -> int:
        """Create one more segment, which no topic lists, in a separate run of the store."""
        self.disk.locks.clear()
        clock = ManualClock()
        store = run(LocalStore.open(self.disk, InlineWorkers(clock), clock, TINY), clock)
        writer = run(store.create(MESSAGES), clock)
        if payloads:
            writer.append(list(payloads), [1] * len(payloads), fail_on_error)
        run(store.close(), clock)
        return writer.segment


def fail_on_error(error: BaseException | None) -> None:
    assert error is None


def only(report: Report) -> Problem:
    (problem,) = report.problems
    return problem


@pytest.mark.parametrize("limits", [TINY, LONG_JOURNAL])
@pytest.mark.parametrize("close", [True, False])
def test_all_is_well_after_a_stop_and_after_a_kill(limits: Limits, close: bool) -> None:
    directory = Directory(limits, close)
    report = directory.verify()
    assert report.problems == []
    assert (report.topics, report.segments) == (1, len(directory.segments) + 1)
    assert report.entries >= 18
    assert report.bytes > 0


def test_nothing_is_changed() -> None:
    directory = Directory(LONG_JOURNAL, close=False)
    before = {name: directory.disk.content(name) for name in directory.disk.names()}
    operations = directory.disk.operations
    directory.verify()
    assert directory.disk.operations == operations
    assert {name: directory.disk.content(name) for name in directory.disk.names()} == before
    assert not any(file for file in directory.disk.open_files if file._name.endswith(".seg"))


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_every_byte_of_a_segment_file_is_watched_over(mask: int) -> None:
    directory = Directory()
    for number in (*directory.segments, directory.cursor_segment):
        name = segment.file_name(number)
        for offset in range(len(directory.disk.content(name))):
            disk = directory.disk.copy()
            disk.flip(name, offset, mask)
            report = directory.verify(disk)
            assert report.damaged, f"{name} at {offset}"
            assert {(found.file, found.segment) for found in report.problems} == {(name, number)}
            assert all(found.topic == KEY for found in report.problems)
            assert sum(found.entries for found in report.problems) <= 3


def test_every_length_of_a_segment_file_is_noticed() -> None:
    directory = Directory()
    name = segment.file_name(directory.segments[0])
    content = directory.disk.content(name)
    for size in range(len(content)):
        disk = directory.disk.copy()
        disk.replace_content(name, content[:size])
        report = directory.verify(disk)
        assert {found.file for found in report.problems if found.damage} == {name}, size


def with_index_file() -> tuple[Directory, str]:
    """Create an unfinished segment with an index file: a checkpoint, and then a kill."""
    directory = Directory(LONG_JOURNAL, close=False)
    directory.do(directory.store.checkpoint())
    names = [name for name in directory.disk.names() if name.endswith(".idx")]
    assert names
    return directory, names[0]


def test_every_byte_of_an_index_file_is_watched_over_and_none_is_needed() -> None:
    directory, name = with_index_file()
    assert directory.verify().problems == []
    for offset in range(len(directory.disk.content(name))):
        disk = directory.disk.copy()
        disk.flip(name, offset, 1 << offset % 8)
        problem = only(directory.verify(disk))
        assert not problem.damage and problem.file == name and problem.offset <= offset


@pytest.mark.parametrize("broken_call", ["look at", "open", "read"])
def test_an_index_file_that_cannot_be_read_is_no_damage(broken_call: str) -> None:
    directory, name = with_index_file()

    def broken(what: str, of: str) -> Unavailable | None:
        return Unavailable(f"cannot {what} {of}") if of == name and what == broken_call else None

    directory.disk.fault = broken
    problem = only(directory.verify())
    assert size_of(directory.disk) > 0
    assert not problem.damage and problem.file == name
    assert problem.text.endswith(f"the segment is read instead: cannot {broken_call} {name}")


def test_the_index_of_another_segment_is_reported() -> None:
    directory, name = with_index_file()
    number = index_file.segment_of(name.removeprefix("segments/"))
    assert number is not None
    other = Index()
    _, size = encode_entries(number, 0, [b"other"], [1])
    other.add(1, [1], size)
    directory.disk.remove(name)
    index_file.append(directory.disk, Growth(number, other, 0, 1, 0))
    problem = only(directory.verify())
    assert (
        problem.damage and problem.file == name and "not the index of its segment" in problem.text
    )


def test_an_index_file_that_a_crash_left_is_no_damage() -> None:
    directory, name = with_index_file()
    left = index_file.file_name(4711)
    directory.disk.open(left, create=True).write(0, [directory.disk.content(name)])
    problem = only(directory.verify())
    assert not problem.damage and problem.file == left and "left by a crash" in problem.text


def test_every_byte_of_a_complete_journal_file_is_watched_over() -> None:
    directory = Directory(LONG_JOURNAL, close=False)
    wals = [name for name in directory.names if name.endswith(".wal")]
    assert len(wals) >= 2
    for name in wals[:-1]:
        end = directory.disk.content(name).rindex(b"MRND") + 32  # the END round
        for offset in range(end):
            disk = directory.disk.copy()
            disk.flip(name, offset, 1 << offset % 8)
            report = directory.verify(disk)
            assert report.damaged, f"{name} at {offset}"
            assert any(found.file == name for found in report.problems)


def test_every_byte_of_the_checkpoint_and_of_the_format_is_watched_over() -> None:
    directory = Directory()
    checkpoint = checkpoints.file_name(checkpoints.numbers(directory.disk)[0])
    for name in (checkpoint, "FORMAT"):
        for offset in range(len(directory.disk.content(name)) - (name == "FORMAT")):
            disk = directory.disk.copy()
            disk.flip(name, offset, 1 << offset % 7)
            try:
                report = directory.verify(disk)
            except Unavailable as error:
                assert name == "FORMAT" and "use a release that knows it" in str(error)
            else:
                assert report.damaged, f"{name} at {offset}"
                assert any(found.file == name for found in report.problems)


def test_lost_entries_are_named_with_their_topic() -> None:
    directory = Directory()
    name = segment.file_name(directory.segments[1])
    at = directory.disk.content(name).index(b"4 1")
    directory.disk.flip(name, at, 1)
    problem = only(directory.verify())
    assert (problem.file, problem.segment, problem.topic) == (name, directory.segments[1], KEY)
    assert (problem.first_entry, problem.last_entry, problem.entries) == (3, 5, 3)
    assert problem.offset < at and "damaged" in problem.text


def test_rot_in_the_journal_is_reported_once_with_its_place() -> None:
    directory = Directory(LONG_JOURNAL, close=False)
    name = next(name for name in directory.names if b"0 1" in directory.disk.content(name))
    directory.disk.flip(name, directory.disk.content(name).index(b"0 1"), 4)
    problem = only(directory.verify())
    assert problem.damage and problem.file == name == "journal/0000000000000001.wal"
    assert (problem.segment, problem.topic, problem.entries) == (directory.segments[0], KEY, 3)


def test_a_write_that_was_cut_short_is_no_damage() -> None:
    directory = Directory(LONG_JOURNAL, close=False)
    name = [name for name in directory.names if name.endswith(".wal")][-1]
    content = directory.disk.content(name)
    directory.disk.replace_content(name, content[: content.rindex(b"MRND") + 40])
    report = directory.verify()
    assert [found.damage for found in report.problems if found.file == name] == [False]


def test_a_missing_segment_is_reported_with_its_entries() -> None:
    directory = Directory()
    directory.disk.remove(segment.file_name(directory.segments[0]))
    problem = only(directory.verify())
    assert problem.damage and problem.entries == 9 and problem.topic == KEY
    assert problem.segment == directory.segments[0]


def test_missing_delays_are_reported() -> None:
    directory = Directory()
    directory.record = replace(directory.record, delay_segments=(4711,))
    problem = only(directory.verify())
    assert problem.damage and "delays is missing" in problem.text and problem.topic == KEY


def test_missing_cursors_are_reported() -> None:
    directory = Directory()
    directory.disk.remove(segment.file_name(directory.cursor_segment))
    problem = only(directory.verify())
    assert problem.damage and "subscriptions are lost" in problem.text and problem.topic == KEY


def test_unreadable_cursors_are_reported() -> None:
    directory = Directory()
    strange = directory.create_segment(b"this is no cursor")
    directory.record = replace(directory.record, cursor_segment=strange)
    found = [one for one in directory.verify().problems if one.damage]
    assert [one.segment for one in found] == [strange]
    assert "cursors cannot be read" in found[0].text


def test_a_topic_with_other_counts_is_reported() -> None:
    directory = Directory()
    first = replace(directory.record.segments[0], entries=8)
    directory.record = replace(directory.record, segments=(first, *directory.record.segments[1:]))
    problem = only(directory.verify())
    assert problem.damage and "holds 9 entries, but the topic's record counts 8" in problem.text


def test_segments_that_no_topic_lists() -> None:
    directory = Directory()
    empty = directory.create_segment()
    full = directory.create_segment(b"entry", b"entry")
    report = directory.verify()
    assert {found.segment: found.damage for found in report.problems} == {empty: False, full: True}
    report = verify(directory.disk, None)
    assert report.problems == [], "without metadata nothing is known about topics"
    report = verify(directory.disk, {KEY: b"rot"})
    assert [found.file for found in report.problems] == ["metadata.db"], "nor with rotten metadata"


def test_cursors_left_by_a_crash_are_no_damage() -> None:
    directory = Directory()
    left = directory.cursor_segment
    directory.record = replace(directory.record, cursor_segment=None)
    problem = only(directory.verify())
    assert (problem.segment, problem.damage) == (left, False)


def test_without_a_checkpoint_complete_files_are_still_checked() -> None:
    directory = Directory()
    name = segment.file_name(directory.segments[0])
    directory.disk.flip(name, 60, 1)
    checkpoint = checkpoints.file_name(checkpoints.numbers(directory.disk)[0])
    directory.disk.flip(checkpoint, 20, 1)
    report = directory.verify()
    assert {found.file for found in report.problems} == {name, checkpoint}
    assert "no broker starts" in json.dumps([found.text for found in report.problems])


def test_what_is_no_data_directory_cannot_be_checked() -> None:
    disk = FaultyDisk()
    disk.open("readme.txt", create=True).close()
    with pytest.raises(Unavailable, match="found no data of a broker"):
        verify(disk, None)


def test_progress_is_reported_in_bytes() -> None:
    directory = Directory()
    reported: list[int] = []
    report = verify(directory.disk, None, reported.append)
    assert sum(reported) == report.bytes and len(reported) >= 3


# Rewritten segments -------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False])
def test_all_is_well_with_rewritten_segments(close: bool) -> None:
    directory = Directory(close=close, rewrite=True)
    assert [(listed.entries, listed.kept) for listed in directory.record.segments[:2]] == [
        (9, 1), (9, 0)
    ]  # fmt: skip
    assert directory.verify().problems == []


def test_a_missing_sparse_segment_is_found() -> None:
    directory = Directory(rewrite=True)
    directory.disk.remove(segment.file_name(directory.sparse))
    problem = only(directory.verify())
    assert (problem.segment, problem.topic, problem.entries) == (directory.sparse, KEY, 1)


def test_a_sparse_segment_that_is_none_is_found() -> None:
    directory = Directory(rewrite=True)
    other = directory.create_segment(b"no map")
    kept = replace(directory.record.segments[0], kept_in=other)
    rest = (*directory.record.segments[1:], replace(kept, id=99, entries=1, kept=0, kept_in=None))
    directory.record = replace(directory.record, segments=(kept, *rest), trash=(directory.sparse,))
    problem = only(directory.verify())
    assert (problem.segment, problem.topic) == (other, KEY)
    assert "cannot be read" in problem.text


@pytest.mark.parametrize("changes", [{"kept": 2}, {"entries": 4}])
def test_a_sparse_segment_of_other_entries_is_found(changes: dict[str, int]) -> None:
    directory = Directory(rewrite=True)
    kept = replace(directory.record.segments[0], **changes)  # type: ignore[arg-type]
    directory.record = replace(directory.record, segments=(kept, *directory.record.segments[1:]))
    problem = only(directory.verify())
    assert (problem.segment, problem.topic) == (directory.sparse, KEY)
    assert "not those" in problem.text


# Compacted data ---------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False])
def test_all_is_well_with_compacted_data(close: bool) -> None:
    assert Directory(close=close, compact=True).verify().problems == []


def test_missing_compacted_data_is_found() -> None:
    directory = Directory(compact=True)
    compacted = directory.record.compacted
    assert compacted is not None
    (part,) = compacted.segments
    directory.disk.remove(segment.file_name(part))
    problem = only(directory.verify())
    assert (problem.segment, problem.topic, problem.entries) == (part, KEY, 2)


@pytest.mark.parametrize("changes", [{"entries": 1}, {"entries": 3}, {"first": 4}])
def test_compacted_data_of_other_entries_is_found(changes: dict[str, int]) -> None:
    directory = Directory(compact=True)
    compacted = directory.record.compacted
    assert compacted is not None
    other = replace(compacted.parts[0], **changes)
    directory.record = directory.record.with_compacted(Compacted(9, (other,)))
    problem = only(directory.verify())
    assert (problem.segment, problem.topic) == (other.segment, KEY)
    assert "compacted data" in problem.text


# Entries that were set aside --------------------------------------------------------------


def test_damage_that_was_set_aside_is_harmless() -> None:
    directory = Directory()
    number = directory.segments[0]
    name = segment.file_name(number)
    directory.disk.flip_bit(name, directory.disk.content(name).index(b"0 0"), 0)
    problem = only(directory.verify())
    first, last = problem.first_entry, problem.last_entry
    assert problem.damage and first is not None and last is not None
    directory.record = directory.record.with_lost({number: [(first, last + 1)]})
    problem = only(directory.verify())
    assert not problem.damage
    assert problem.text.endswith("they were set aside")
    (aside, *rest) = directory.record.segments
    directory.record = replace(
        directory.record, segments=(replace(aside, lost=((first, last),)), *rest)
    )
    assert only(directory.verify()).damage, "one entry of them was not"


def test_so_is_that_of_a_rewritten_segment() -> None:
    directory = Directory(rewrite=True)
    (first, *_) = directory.record.segments
    assert first.kept_in == directory.sparse
    name = segment.file_name(directory.sparse)
    kept = directory.disk.content(name).index(b"1 2")  # the entry 5
    directory.disk.flip_bit(name, kept, 0)
    assert only(directory.verify()).damage
    directory.record = directory.record.with_lost({first.id: [(5, 6)]})
    assert not only(directory.verify()).damage
    directory.record = replace(directory.record, segments=(first, *directory.record.segments[1:]))
    directory.record = directory.record.with_lost({first.id: [(4, 5)]})
    assert only(directory.verify()).damage, "another one was"


def test_segments_that_are_only_in_a_store_of_objects_are_not_missing() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    world.move(log)
    world.do(log.close())
    world.do(world.store.close())
    record = world.record()
    assert record is not None
    report = verify(world.disk, {KEY: record.encode()})
    assert not report.problems
    assert (report.remote, report.entries) == (3, 1)
