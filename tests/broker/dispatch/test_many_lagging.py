"""Many readers that lag share one budget: bounded in memory, and all of them go on."""

from collections.abc import Iterable

import pytest

from fakes.logs import LogWorld
from magnetar_broker.dispatch.new_entries import NewEntries
from magnetar_broker.dispatch.scattered_source import ScatteredSource
from magnetar_broker.dispatch.unsent_buffer import UnsentBuffer
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits

SEGMENT = RollLimits(max_entries=64, min_age_ms=0)


class Lagging:
    """A subscription that takes a few entries of each run while its consumer has permits."""

    def __init__(self, log: Log, replays: bool) -> None:
        self.log = log
        self.new = NewEntries(log, Cursor(-1), None, self.dispatch)
        self.replay = ScatteredSource(log, self.dispatch)
        self.replays = replays
        self.offset = self.permits = self.most_held = 0

    def dispatch(self) -> None:
        self.most_held = max(self.most_held, self.log.engine.reading.held)
        while self.permits and self.offset < self.log.end:
            run = self._take()
            if run is None:
                return
            assert run.first == self.offset
            self.offset += len(run.payloads)
            self.permits -= len(run.payloads)

    def _take(self) -> Run | None:
        if not self.replays:
            return self.new.take(self.offset, self.permits, 1 << 20)
        return self.replay.take(self.offset, self.permits, 1 << 20, self._wanted)

    def _wanted(self) -> Iterable[tuple[int, int]]:
        return [(self.offset, self.log.end)]

    def held(self) -> int:
        """Payload bytes in memory."""
        runs = self.new.source._ahead, self.new.source._next
        gathered = self.replay._gathered.values()
        return sum(sum(map(len, run.payloads)) for run in runs) + sum(
            len(one) for one, _ in gathered
        )


@pytest.mark.parametrize("limit", [8 << 20, 1 << 20, 1])
@pytest.mark.parametrize("replays", [False, True])
def test_memory_is_bounded_and_every_reader_goes_on(limit: int, replays: bool) -> None:
    world = LogWorld(SEGMENT, cache_bytes=0)
    world.engine.reading.limit = limit
    log = world.open()
    for _ in range(4):
        world.append(log, *[bytes(4096)] * 64)
    readers = [Lagging(log, replays) for _ in range(200)]
    one_read = 0 if limit > 1 else 80 << 10  # a read that is alone may exceed the limit
    for _ in range(2):
        for reader in readers:
            reader.permits = 10
            reader.dispatch()
        world.clock.pump()
        held = sum(reader.held() for reader in readers)
        assert held <= world.engine.reading.held <= limit + one_read
        assert max(reader.most_held for reader in readers) <= limit + one_read
        assert world.engine.reading.waiting == 0
    assert [reader.offset for reader in readers] == [20] * len(readers)
    for reader in readers:
        reader.permits = 1000
        reader.dispatch()
    world.clock.pump()
    assert {reader.offset for reader in readers} == {log.end}
    for reader in readers:
        reader.new.source.clear()
        reader.replay.clear()
    assert world.engine.reading.held == 0


def test_ten_thousand_readers_hold_no_more_than_the_limit() -> None:
    world = LogWorld(SEGMENT, cache_bytes=0)
    world.engine.reading.limit = limit = 4 << 20
    log = world.open()
    for _ in range(2):
        world.append(log, *[bytes(20_000)] * 64)
    readers = [Lagging(log, replays=False) for _ in range(10_000)]
    for reader in readers:
        reader.permits = 1
        reader.dispatch()
    world.clock.pump()
    assert {reader.offset for reader in readers} == {1}
    assert sum(reader.held() for reader in readers) <= world.engine.reading.held <= limit
    assert len(world.engine.reading._holders) < 1000, "who was dropped is not kept"


def test_an_entry_larger_than_the_limit_is_read_alone() -> None:
    world = LogWorld(SEGMENT, cache_bytes=0)
    world.engine.reading.limit = 50_000
    log = world.open()
    world.append(log, bytes(300_000), bytes(300_000))
    readers = [Lagging(log, replays=number % 2 == 0) for number in range(20)]
    for reader in readers:
        reader.permits = 2
        reader.dispatch()
    world.clock.pump()
    assert {reader.offset for reader in readers} == {2}
    assert sum(reader.held() > 0 for reader in readers) <= 1


def test_a_reader_that_gave_up_in_the_queue_reads_when_it_is_wanted_again() -> None:
    world = LogWorld(SEGMENT, cache_bytes=0)
    world.engine.reading.limit = 1
    log = world.open()
    world.append(log, *[bytes(100)] * 10)
    gate = world.store.read_gate = world.clock.promise()
    first, second = Lagging(log, False), Lagging(log, True)
    for reader in (first, second):
        reader.permits = 10
        reader.dispatch()
    assert world.engine.reading.waiting == 1
    second.replay.clear()
    assert world.engine.reading.waiting == 0
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.pump()
    assert (first.offset, second.offset) == (10, 0)
    second.dispatch()
    world.clock.pump()
    assert second.offset == 10


def test_what_waits_for_a_key_is_kept_as_far_as_there_is_room() -> None:
    world = LogWorld(SEGMENT, cache_bytes=0)
    world.engine.reading.limit = 1000
    buffer = UnsentBuffer(world.engine.reading)
    for offset in range(10):
        buffer.add(offset, bytes(100), 1)
    assert list(buffer) == [0, 1, 2] and world.engine.reading.held == 900
    buffer.discard(1)
    buffer.add(9, bytes(100), 1)
    assert list(buffer) == [0, 2, 9]
    log = world.open()
    world.append(log, b"new")
    reader = Lagging(log, False)
    reader.permits = 1
    reader.dispatch()
    world.clock.pump()
    assert reader.offset == 1
    assert len(buffer) == 0, "entries that wait are dropped for one that can be sent"
