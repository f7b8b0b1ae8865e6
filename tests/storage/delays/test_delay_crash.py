"""The delay index on a local disk that stops at any operation: nothing early, nothing lost."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from effort import parts, some
from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import TINY
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_storage.cursors.attached_state import DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.delays.delay_index import DelayIndex
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log

KEY = "/topics/delays"
RUN = 4


class Machine:
    """A log of which most entries are delayed; the metadata store is another that never fails."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.metadata = MemoryMetadata(ManualClock())
        self.delays: dict[int, int] = {}
        self.now = 100
        self.durable = 0

    def open(self) -> None:
        self.clock = ManualClock()
        store = run(
            LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, TINY), self.clock
        )
        assert not [finding for finding in store.findings if finding.data_lost]
        self.store = store
        cache = EntryCache(200)
        engine = Engine(store, self.metadata, cache, self.clock, ManualTasks(self.clock))
        log = run(Log.open(KEY, engine, create=True), self.clock)
        assert log is not None
        self.log = log
        recent = RecentDelays(size=2, most_parts=2)
        self.cursors = run(CursorLog.open(log, {DELAYS: recent}), self.clock)
        self.cursors._roll_bytes = 300
        self.forgotten: list[StorageError] = []
        self.index = run(
            DelayIndex.open(
                log,
                recent,
                lambda done: self.cursors.state_changed(DELAYS, done),
                self.forgotten.append,
                RUN,
            ),
            self.clock,
        )

    def append(self, *delays: int | None) -> None:
        """Entries that are due so long after now; as a topic does it, when they are durable."""
        first = self.log.next_offset
        due = {first + at: self.now + delay for at, delay in enumerate(delays) if delay is not None}

        def outcome(error: BaseException | None) -> None:
            if error is None:
                self.durable = first + len(delays)
                self.delays |= due
                if due:
                    self.index.add(list(due), list(due.values()))

        payloads = [b"%d" % (first + at) for at in range(len(delays))]
        append(self.log, payloads, [1] * len(delays), outcome)

    def release(self, ms: int) -> None:
        self.now += ms
        while due := run(self.index.release(self.now), self.clock):
            assert all(self.delays[offset] <= self.now for offset in due), "too early"

    def history(self) -> None:
        self.open()
        run(self.log.rollover.start_writing(), self.clock)
        for turn in range(5):
            self.append(50, None, 10 * turn, 200)
            self.clock.step()
            self.append(5, 1000 + turn)
            self.clock.pump()
            self.clock.advance(0.02)
            self.release(15)
        self.clock.advance(1)
        self.release(100)
        self.append(40, None)
        self.clock.pump()
        run(self.index.close(), self.clock)
        run(self.cursors.close(), self.clock)
        run(self.log.close(), self.clock)
        run(self.store.close(), self.clock)

    def check(self) -> None:
        """What waits is delayed indeed, and who is not due waits, or is to be asked."""
        assert not self.forgotten, "a crash damages no run"
        assert self.log.end >= self.durable
        waiting = {o for start, stop in self.index.waiting for o in range(start, stop)}
        unknown = set(range(self.durable, self.log.end))  # durable, and not confirmed
        assert waiting <= self.delays.keys() | unknown, "waits without a delay"
        late = {offset for offset, due in self.delays.items() if due > self.now}
        missed = late - waiting
        assert missed <= set(self.index.unsure), "would be delivered early"
        if missed:
            self.index.add(sorted(missed), [self.delays[offset] for offset in sorted(missed)])
        self.index.looked_at(0, self.log.end)

    def goes_on(self) -> None:
        run(self.log.rollover.start_writing(), self.clock)
        self.append(30, None, 60, 10, 20, 70)
        self.clock.pump()
        self.release(25)
        self.clock.advance(1)


def operations() -> int:
    disk = FaultyDisk()
    Machine(disk).history()
    return disk.operations


def crashes(part: int, parts: int) -> Sequence[int]:
    return some(range(part, operations(), parts))


SURVIVALS: list[Callable[[int], int]] = [nothing, lambda ways: ways - 1]


def test_the_history_itself_keeps_everything() -> None:
    machine = Machine(FaultyDisk())
    machine.history()
    machine.open()
    assert len(machine.log.record.delay_segments) >= 1
    assert not machine.index.unsure
    machine.check()


@pytest.mark.parametrize("part", parts(4))
def test_a_crash_makes_nothing_early_and_loses_nothing(part: int) -> None:
    for operation in crashes(part, 4):
        for survives in (*SURVIVALS, seeded(operation)):
            machine = Machine(FaultyDisk())
            machine.disk.crash_at = operation
            with pytest.raises(Crash):
                machine.history()
            machine.disk.crash(survives)
            machine.open()
            machine.check()
            machine.goes_on()
            machine.disk.crash(survives)
            machine.open()
            machine.check()
            machine.release(2000)
            assert not machine.index.waiting


@pytest.mark.parametrize("room", range(0, 9000, 300))
def test_a_full_disk_makes_nothing_early_and_loses_nothing(room: int) -> None:
    machine = Machine(FaultyDisk())
    machine.disk.room = room
    with suppress(StorageError):
        machine.history()
    machine.disk.room = 1 << 40
    machine.disk.crash(nothing)
    machine.open()
    machine.check()
    machine.goes_on()
    machine.check()
