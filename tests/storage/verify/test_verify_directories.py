"""`verify` on a data directory with several store directories."""

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.memory_metadata import MemoryMetadata
from fakes.origins import MESSAGES
from fakes.runs import append
from fakes.worker_stores import WorkerStores
from fakes.world import ManualTasks
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import layout
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.verify.report import Problem, Report
from magnetar_storage.verify.verify import size_of, verify

KEY = "/topics/public/default/persistent/orders"


class Moved:
    """A topic that was served by workers 0, 1 and 2, one after the other."""

    def __init__(self, close: bool = True) -> None:
        self.disk = FaultyDisk()
        self.workers = WorkerStores(self.disk, 3)
        self.workers.start()
        self.metadata = MemoryMetadata(self.workers.clocks[0])
        for worker in range(3):
            self.serve(worker)
        if close:
            self.workers.close()

    def serve(self, worker: int) -> None:
        clock, do = self.workers.clocks[worker], self.workers.do
        store, cache = self.workers.stores[worker], EntryCache(0)
        engine = Engine(store, self.metadata, cache, clock, ManualTasks(clock))
        log = do(Log.open(KEY, engine, create=True))
        assert log is not None
        cursors = do(CursorLog.open(log))
        if not worker:
            do(cursors.create("reader", -1, {}))
        do(log.rollover.start_writing())
        append(log, [b"payload %d" % worker] * 3, [1] * 3, fail_on_error)
        self.workers.pump()
        do(cursors.close())
        do(log.close())
        self.segments = [listed.id for listed in log.segments]
        self.cursor_segment = log.record.cursor_segment or 0

    def verify(self) -> Report:
        return verify(self.disk, {KEY: self.metadata._values[KEY].value})

    def file_of(self, number: int) -> str:
        directory = directory_of(number)
        return f"workers/{directory}/" * (directory > 0) + segment.file_name(number)


def fail_on_error(error: BaseException | None) -> None:
    assert error is None


def only(report: Report) -> Problem:
    (problem,) = report.problems
    return problem


@pytest.mark.parametrize("close", [True, False])
def test_all_is_well_after_a_stop_and_after_a_kill(close: bool) -> None:
    moved = Moved(close)
    before = {name: moved.disk.content(name) for name in moved.disk.names()}
    report = moved.verify()
    assert report.problems == []
    assert [directory_of(number) for number in moved.segments] == [0, 1, 2]
    assert (report.topics, report.segments) == (1, 4)
    assert report.bytes <= size_of(moved.disk) or not close
    assert {name: moved.disk.content(name) for name in moved.disk.names()} == before


def test_damage_is_found_in_every_directory() -> None:
    for worker in range(3):
        moved = Moved()
        name = moved.file_of(moved.segments[worker])
        at = moved.disk.content(name).index(b"payload")
        moved.disk.flip(name, at, 1)
        problem = only(moved.verify())
        assert (problem.file, problem.topic, problem.entries) == (name, KEY, 3)


def test_a_directory_that_is_missing_takes_its_segments_along() -> None:
    moved = Moved()
    for name in [name for name in moved.disk.names() if name.startswith("workers/2/")]:
        moved.disk.remove(name)
    problems = moved.verify().problems
    lost = {moved.segments[2], moved.cursor_segment} - set(moved.segments[:2])
    assert {problem.segment for problem in problems} >= {moved.segments[2]}
    assert {problem.segment for problem in problems} <= lost
    assert all(problem.damage and problem.topic == KEY for problem in problems)
    assert all(problem.file.startswith("workers/2/segments/") for problem in problems)


def test_segments_that_no_topic_lists_are_found_in_every_directory() -> None:
    moved = Moved(close=False)
    made = {}
    for worker, store in moved.workers.stores.items():
        writer = moved.workers.do(store.create(MESSAGES))
        writer.append([b"not listed"], [1], fail_on_error)
        made[writer.segment] = worker
    moved.workers.close()
    problems = moved.verify().problems
    assert {problem.segment for problem in problems} == set(made)
    assert {problem.file for problem in problems} == {moved.file_of(number) for number in made}


def test_a_segment_in_the_directory_of_another_is_found() -> None:
    moved = Moved()
    first = moved.file_of(moved.segments[1])
    copy = f"workers/2/{segment.file_name(moved.segments[1])}"
    moved.disk.open(copy, create=True).write(0, [moved.disk.content(first)])
    problem = only(moved.verify())
    assert problem.damage and problem.file == copy and problem.topic == KEY
    assert "it is a segment of workers/1: what is here is not used" in problem.text
    copy = f"workers/2/{segment.file_name(7)}"
    moved = Moved()
    moved.disk.open(copy, create=True).write(0, [b"anything"])
    assert "a segment of the data directory itself" in only(moved.verify()).text


def test_directories_in_the_place_of_each_other_are_found() -> None:
    moved = Moved()
    for name in [name for name in moved.disk.names() if name.startswith("workers/2/")]:
        moved.disk.remove(name)
    for name in [name for name in moved.disk.names() if name.startswith("workers/1/")]:
        there = name.replace("workers/1/", "workers/2/")
        moved.disk.open(there, create=True).write(0, [moved.disk.content(name)])
    problems = moved.verify().problems
    assert any("this is store directory 1, in the place of 2" in one.text for one in problems)


def test_a_damaged_checkpoint_of_one_directory_keeps_no_other_from_being_checked() -> None:
    moved = Moved()
    newest = [name for name in moved.disk.names() if name.startswith("workers/1/checkpoint")][-1]
    moved.disk.flip(newest, checkpoints.HEADER.size - 1, 1)
    name = moved.file_of(moved.segments[2])
    moved.disk.flip(name, moved.disk.content(name).index(b"payload"), 1)
    problems = moved.verify().problems
    assert {problem.file for problem in problems} == {newest, name}


def test_a_format_that_denies_the_other_directories_is_found() -> None:
    moved = Moved()
    layout.write_format(moved.disk, layout.ALONE)
    problem = only(moved.verify())
    assert problem.damage and problem.file == "FORMAT" and "workers/1 exists" in problem.text
