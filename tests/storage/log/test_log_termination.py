"""Logs that take no entry any more."""

import json

import pytest

from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import TINY
from fakes.logs import BY_THREE, KEY, LogWorld
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_storage.errors import StorageError, Unavailable, WriterFailed
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord


def test_a_terminated_log_takes_nothing_and_is_read_as_before() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    world.append(log, *(b"%d" % n for n in range(5)))
    world.do(log.rollover.terminate())
    for one in (log, world.open(writing=False)):
        assert one.terminated
        assert world.read_all(one) == [b"0", b"1", b"2", b"3", b"4"]
        assert (one.end, one.size, one.next_offset) == (5, 5, 5)
        with pytest.raises(WriterFailed, match="is terminated"):
            world.do(one.rollover.start_writing())
        with pytest.raises(StorageError):
            append(one, [b"x"], [1], lambda error: None)
        world.do(one.rollover.terminate())  # again
    assert all(segment.entries is not None for segment in log.segments)


def test_an_empty_log_and_one_that_was_never_written_to() -> None:
    for writing in (False, True):
        world = LogWorld()
        log = world.open(writing=writing)
        world.do(log.rollover.terminate())
        again = world.open(writing=False)
        assert (again.terminated, again.end, again.segments) == (True, 0, ())


def test_what_is_under_way_becomes_durable_first() -> None:
    world = LogWorld()
    log = world.open()
    outcome: list[BaseException | None] = []
    append(log, [b"0", b"1"], [1, 1], outcome.append)
    world.do(log.rollover.terminate())
    assert outcome == [None]
    assert world.read_all(world.open(writing=False)) == [b"0", b"1"]


def test_it_waits_for_a_new_segment_that_is_being_made() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    outcome: list[BaseException | None] = []
    append(log, [b"0", b"1", b"2"], [1, 1, 1], outcome.append)
    rolling = world.begin(log.rollover.start_writing())
    world.do(log.rollover.terminate())
    world.clock.pump()
    assert rolling.done()
    again = world.open(writing=False)
    assert (again.terminated, world.read_all(again)) == (True, [b"0", b"1", b"2"])


@pytest.mark.parametrize("lands", [False, True])
def test_a_termination_that_cannot_be_recorded_ends_the_log(lands: bool) -> None:
    world = LogWorld()
    log = world.open()
    world.append(log, b"0")
    failures: list[StorageError] = []
    log.on_failure = failures.append
    with world.failing_metadata(lands), pytest.raises(Unavailable):
        world.do(log.rollover.terminate())
    assert len(failures) == 1
    assert not log.terminated
    again = world.open(writing=False)
    assert world.read_all(again) == [b"0"]
    assert not again.terminated, "settling the segment came first, and failed"
    world.do(again.rollover.terminate())
    assert world.open(writing=False).terminated


def test_older_releases_refuse_the_record_and_others_are_as_they_were() -> None:
    plain = json.loads(LogRecord().encode())
    assert (plain["version"], "terminated" in plain) == (1, False)
    terminated = LogRecord(terminated=True)
    assert json.loads(terminated.encode())["version"] == 4
    assert LogRecord.decode(KEY, terminated.encode()) == terminated


class Machine:
    """A log on a disk that stops; its metadata are on another one that never fails."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadata(ManualClock())
        self.durable = 0
        self.terminated = False

    def open(self) -> Log:
        self.clock = ManualClock()
        opening = LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, TINY)
        store, tasks = run(opening, self.clock), ManualTasks(self.clock)
        engine = Engine(store, self.metadata, EntryCache(200), self.clock, tasks, BY_THREE)
        log = run(Log.open(KEY, engine, create=True), self.clock)
        assert log is not None
        return log

    def history(self) -> None:
        """Some entries, and the end while the last one is under way."""
        log = self.open()
        run(log.rollover.start_writing(), self.clock)
        for number in range(5):
            append(log, [b"%d" % number], [1], self._appended)
            self.clock.pump()
        append(log, [b"5"], [1], self._appended)
        run(log.rollover.terminate(), self.clock)
        self.terminated = True

    def _appended(self, error: BaseException | None) -> None:
        assert error is None
        self.durable += 1


def test_after_any_crash_it_is_terminated_with_all_or_continues() -> None:
    whole = Machine()
    whole.history()
    assert whole.durable == 6
    for operation in range(whole.disk.operations):
        for survives in (nothing, lambda ways: ways - 1, seeded(operation)):
            machine = Machine()
            machine.disk.crash_at = operation
            with pytest.raises(Crash):
                machine.history()
            machine.disk.crash(survives)
            log = machine.open()
            found = (
                run(log.entries.read(0, 100, 1 << 20), machine.clock).payloads if log.end else []
            )
            assert log.end >= machine.durable
            if log.terminated:
                assert log.end == 6
            else:
                assert not machine.terminated, "it was durable"
                run(log.rollover.start_writing(), machine.clock)
            assert found == [b"%d" % number for number in range(len(found))]
