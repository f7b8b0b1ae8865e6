"""Compaction on a local disk that stops at any operation: the old data or the new, and no rest."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from effort import parts, some
from fakes.compacting import Compacting, Sent
from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.keyed import Message
from fakes.local_store import TINY
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_broker.base.errors import NotReady
from magnetar_broker.expiry.orphans import present_segments, sweep
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.compacted import compacted_writer, latest_keys
from magnetar_storage.errors import StorageError
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.roll_limits import RollLimits

BY_FOUR = RollLimits(max_entries=4, min_age_ms=0)
FIRST: list[Sent] = [
    ([Message("a", b"1")], None),
    ([Message("b", b"2"), Message("a", b"3"), Message(None, b"4")], pb.NONE),
    ([Message("c", b"5")], None),
    ([Message("b", b"")], None),
    ([Message("d", b"6"), Message("c", b"7")], pb.LZ4),
]
SECOND: list[Sent] = [
    ([Message("a", b"")], None),
    ([Message("e", b"8"), Message("d", b"9")], pb.NONE),
    ([Message("f", b"10")], None),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_keys, "KEYS_IN_MEMORY", 2)
    monkeypatch.setattr(compacted_writer, "PART_ENTRIES", 2)


class OnDisk(Compacting):
    """The topic on a disk; the metadata store is another that never fails."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        super().__init__()

    def reload(self) -> Topic:
        self.clock = ManualClock()
        self.tasks = ManualTasks(self.clock)
        local = run(
            LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, TINY), self.clock
        )
        assert not [finding for finding in local.findings if finding.data_lost]
        self.local = local
        self.engine = Engine(local, self.metadata, EntryCache(0), self.clock, self.tasks, BY_FOUR)
        return super().reload()

    def history(self) -> None:
        for sent in (FIRST, SECOND):
            self.send_all(sent)
            self.do(self.topic.compaction.start())
            self.clock.pump()
            self.clock.advance(10)
            self.do(trim_topic(self.topic))
        self.do(self.topic.close())
        self.do(self.local.close())

    def rise(self) -> None:
        """Come back after a crash, and compare."""
        self.reload()
        log = self.topic.log
        compacted = log.record.compacted
        self.horizon = 0 if compacted is None else compacted.horizon
        known = [*FIRST, *SECOND]
        self.published = [messages for messages, _ in known[: log.end]]
        assert self.read() == self.expected()
        present = self.do(present_segments(self.engine))
        left = self.do(sweep(self.engine, present))
        assert not any(end.messages for end in left.values()), "written before it was listed"
        assert self.do(present_segments(self.engine)) <= log.record.listed

    def goes_on(self) -> None:
        """What was cut short can be done again."""
        self.do(self.topic.compaction.start())
        self.clock.pump()
        self.clock.advance(10)
        self.horizon = self.topic.log.end
        assert self.read() == self.expected()
        self.do(self.topic.close())
        self.do(self.local.close())


def operations() -> tuple[int, list[tuple[int, int]]]:
    """How many the history takes, after opening; and the positions of all entries."""
    world = OnDisk(FaultyDisk())
    world.history()
    return world.disk.operations, world.ids


SURVIVALS: list[Callable[[int], int]] = [nothing, lambda ways: ways - 1]


@pytest.mark.parametrize("part", parts(4))
def test_a_crash_leaves_the_old_data_or_the_new(part: int) -> None:
    count, ids = operations()
    first = OnDisk(FaultyDisk()).disk.operations
    horizons = set()
    for operation in some(range(first + part, count, 4)):
        for survives in (*SURVIVALS, seeded(operation)):
            world = OnDisk(FaultyDisk())
            world.disk.crash_at = operation
            with pytest.raises(Crash):
                world.history()
            world.disk.crash(survives)
            world.ids = ids
            world.rise()
            horizons.add(world.horizon)
            world.goes_on()
    assert horizons == {0, len(FIRST), len(FIRST) + len(SECOND)}


@pytest.mark.parametrize("room", range(0, 9000, 500))
def test_a_full_disk_leaves_the_old_data_or_the_new(room: int) -> None:
    _, ids = operations()
    world = OnDisk(FaultyDisk())
    world.disk.room = room
    with suppress(StorageError, NotReady):
        world.history()
    world.disk.room = 1 << 40
    world.disk.crash(nothing)
    world.ids = ids
    world.rise()
    world.goes_on()
