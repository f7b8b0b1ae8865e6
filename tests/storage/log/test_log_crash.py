"""A log and its cursors on a local disk that stops at any operation: what was promised is kept."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from effort import parts, some
from fakes.attached_states import Numbers
from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import TINY
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_storage.cursors.attached_state import DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog, DurableCursor
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.errors import StorageError
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log import rewriting
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.log.sparse_segment import MAGIC

KEY = "/topics/crash"
NAMES = ("a", "b")
FAR = 1000
"""An entry that is never acknowledged."""


class Machine:
    """A log that writes and acknowledges; the metadata store is another that never fails."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.metadata = MemoryMetadata(ManualClock())
        self.appended: list[bytes] = []
        self.durable = 0
        self.asked: dict[str, set[int]] = {name: set() for name in NAMES}
        self.acked: dict[str, set[int]] = {name: set() for name in NAMES}
        self.created: set[str] = set()
        self.noted = 0

    def open(self) -> None:
        self.clock = ManualClock()
        store = run(
            LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, TINY), self.clock
        )
        assert not [finding for finding in store.findings if finding.data_lost]
        engine = Engine(
            store, self.metadata, EntryCache(200), self.clock, ManualTasks(self.clock),
            RollLimits(max_entries=4, min_age_ms=0),
        )  # fmt: skip
        self.store = store
        log = run(Log.open(KEY, engine, create=True), self.clock)
        assert log is not None
        self.log = log
        self.attached = Numbers()
        self.cursors = run(CursorLog.open(log, {DELAYS: self.attached}), self.clock)
        self.cursors._roll_bytes = 300

    def append(self, count: int) -> None:
        """Queue entries that contain their own offset."""
        first = len(self.appended)
        payloads = [b"%d" % (first + i) for i in range(count)]

        def outcome(error: BaseException | None) -> None:
            if error is None:
                self.durable = max(self.durable, first + count)

        append(self.log, payloads, [1] * count, outcome)
        self.appended += payloads

    def ack(self, cursor: DurableCursor, *offsets: int) -> None:
        """Acknowledge entries and remember which of them were reported."""
        name = cursor.name
        self.asked[name] |= set(offsets)

        def outcome(error: BaseException | None) -> None:
            if error is None:
                self.acked[name] |= set(offsets)

        cursor.ack(offsets)
        self.cursors.cursor_changed(cursor, outcome)

    def note(self, value: int) -> None:
        """Count a redelivery at every cursor, and change the attached state."""

        def outcome(error: BaseException | None) -> None:
            if error is None:
                self.noted = max(self.noted, value)

        for cursor in self.cursors.cursors.values():
            cursor.count_redelivery([FAR])
            self.cursors.cursor_changed(cursor)
        self.attached.put(0, value)
        self.cursors.state_changed(DELAYS, outcome)

    def reclaim(self) -> None:
        """Rewrite segments of four entries of which one is needed, and sparse segments."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rewriting, "NEEDED_OF_WHOLE", 4)
            needed = needed_by(self.cursors.cursors.values())
            run(self.log.reclaim(needed, self.log.end), self.clock)

    def history(self) -> None:
        self.open()
        run(self.log.rollover.start_writing(), self.clock)
        for name in NAMES:
            run(self.cursors.create(name, -1, {}), self.clock)
            self.created.add(name)
        one, other = (self.cursors.cursors[name] for name in NAMES)
        for turn in range(6):
            self.append(2)
            self.clock.step()
            if self.durable:
                self.ack(one, self.durable - 1)
                self.ack(other, turn)
            self.note(1 + turn)
            self.append(1)
            self.clock.pump()
        self.ack(one, 0, 1)
        self.clock.pump()
        run(self.log.trim(3), self.clock)
        self.append(2)
        self.ack(other, 6)
        self.clock.pump()
        for needed in ({5, 9, 14}, {9, 14}, {14}):
            for cursor in (one, other):
                self.ack(cursor, *(o for o in range(self.log.end - 1) if o not in needed))
            self.reclaim()
            self.append(3)
            self.clock.pump()
        run(self.cursors.close(), self.clock)
        run(self.log.close(), self.clock)
        run(self.store.close(), self.clock)

    def check(self) -> None:
        """Reported is a part of what is there, which is a prefix of what was asked for."""
        log = self.log
        found: dict[int, bytes] = {}
        offset = log.first_offset
        while (part := run(log.entries.read(offset, 3, 1 << 20), self.clock)).payloads:
            found.update(enumerate(part.payloads, part.first))
            offset = part.first + len(part.payloads)
        assert log.end >= self.durable, "reported entries are missing"
        assert all(payload == self.appended[offset] for offset, payload in found.items())
        gone = set(range(log.first_offset, log.end)) - found.keys()
        assert gone <= self.asked["a"] & self.asked["b"], (
            "a reclaimed entry was still unacknowledged"
        )
        assert gone == {o for start, stop in log.holes for o in range(start, stop)}
        assert log.messages_end == log.end
        for segment in run(unlisted(self.store, log), self.clock):
            reader = run(self.store.reader(segment), self.clock)
            entries = run(reader.read(0, 1, 1), self.clock).payloads
            assert not entries or not entries[0].startswith(MAGIC), "a sparse segment was left over"
        assert self.created <= set(self.cursors.cursors)
        for name, cursor in self.cursors.cursors.items():
            there = {offset for offset in range(log.end) if cursor.is_acked(offset)}
            assert self.acked[name] <= there, f"reported acks of {name} are missing"
            assert there <= self.asked[name], f"{name} has acks that were never sent"
            assert self.noted <= cursor.redelivered.get(FAR, 0), "counts went back"
        assert self.noted <= self.attached.all.get(0, 0), "the attached state went back"

    def goes_on(self) -> None:
        """Append and acknowledge again; what did not survive is forgotten first."""
        del self.appended[self.log.end :]
        run(self.log.rollover.start_writing(), self.clock)
        for name in NAMES:
            if name not in self.cursors.cursors:
                run(self.cursors.create(name, -1, {}), self.clock)
                self.created.add(name)
        self.append(5)
        self.clock.pump()
        self.ack(self.cursors.cursors["a"], self.log.end - 1)
        self.clock.pump()
        assert self.durable == len(self.appended)
        assert self.log.end - 1 in self.acked["a"]


async def unlisted(store: LocalStore, log: Log) -> list[int]:
    """Segments that a crash left behind before they were listed."""
    return [one async for one in store.segments() if one not in log.record.listed]


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
    assert machine.durable == len(machine.appended)
    assert machine.acked == machine.asked
    machine.open()
    machine.check()
    assert len(machine.log.segments) > 2
    assert [s.kept for s in machine.log.segments if s.kept_in is not None] == [1]
    assert machine.log.holes.covered() > 10
    machine.goes_on()
    machine.check()


@pytest.mark.parametrize("part", parts(6))
def test_a_crash_loses_nothing_that_was_reported(part: int) -> None:
    for operation in crashes(part, 6):
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


@pytest.mark.parametrize("part", parts(3))
def test_after_a_failed_sync_nothing_more_is_reported(part: int) -> None:
    for operation in crashes(part, 3):
        machine = Machine(FaultyDisk())
        count = machine.disk.operation

        def counted(
            what: str, name: str, disk: FaultyDisk = machine.disk, at: int = operation,
            count: Callable[[str, str], None] = count,
        ) -> None:  # fmt: skip
            if disk.operations == at:
                disk.failing_syncs = 1 << 30
            count(what, name)

        machine.disk.operation = counted  # type: ignore[method-assign]
        with suppress(StorageError):
            machine.history()
        machine.disk.failing_syncs = 0
        machine.disk.crash(nothing)
        machine.open()
        machine.check()
        machine.goes_on()
        machine.check()


@pytest.mark.parametrize("room", range(0, 6000, 400))
def test_a_full_disk_loses_nothing_that_was_reported(room: int) -> None:
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
