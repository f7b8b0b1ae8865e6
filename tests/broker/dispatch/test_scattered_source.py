"""Entries that come again: those that are wanted together are read together."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import BY_THREE, LogWorld, numbered
from magnetar_broker.dispatch.scattered_source import (
    GAP,
    GATHERED_ENTRIES,
    GATHERED_STRETCHES,
    ScatteredSource,
    joined,
)
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log

MANY = 1 << 20


class Reading:
    """A source over a log of nine entries in segments of three."""

    def __init__(self, cache_bytes: int = 0) -> None:
        self.world = LogWorld(BY_THREE, cache_bytes)
        self.log: Log = self.world.open()
        for payload in numbered(0, 9):
            self.world.append(self.log, payload)
        self.ready = 0
        self.source = ScatteredSource(self.log, self._ready)

    def _ready(self) -> None:
        self.ready += 1

    def take(self, offset: int, entries: int, wanted: Iterable[tuple[int, int]]) -> Run | None:
        return self.source.take(offset, entries, MANY, lambda: wanted)


def test_what_is_wanted_is_read_at_once() -> None:
    reading = Reading()
    wanted = [(1, 2), (4, 6), (8, 9)]
    assert reading.take(1, 1, wanted) is None
    reading.world.clock.pump()
    assert reading.ready == 1
    reads = reading.world.store.reads
    assert reading.take(1, 1, wanted) == (1, [b"1"], [1])
    assert reading.take(4, 9, wanted[1:]) == (4, [b"4", b"5"], [1, 1])
    assert reading.take(8, 9, wanted[2:]) == (8, [b"8"], [1])
    assert reading.world.store.reads == reads


def test_recent_entries_are_not_read() -> None:
    reading = Reading(cache_bytes=MANY)
    assert reading.take(3, 2, [(3, 5)]) == (3, [b"3", b"4"], [1, 1])
    assert reading.world.store.reads == 0


def test_entries_that_arrive_after_they_are_needed_are_not_kept() -> None:
    reading = Reading()
    gate = reading.world.store.read_gate = reading.world.clock.promise()
    assert reading.take(1, 1, [(1, 2)]) is None
    reading.world.clock.pump()
    reading.source.clear()
    gate.set_result(None)
    reading.world.clock.pump()
    assert reading.ready == 1
    assert reading.take(1, 1, [(1, 2)]) is None


def test_what_is_cleared_is_read_again() -> None:
    reading = Reading()
    reading.take(1, 1, [(1, 2)])
    reading.world.clock.pump()
    reading.source.clear()
    assert reading.take(1, 1, [(1, 2)]) is None


def test_damage_further_on_does_not_count_until_it_is_first() -> None:
    reading = Reading()
    reading.world.store.rotten = {reading.log.position(4)[0]}
    assert reading.take(1, 1, [(1, 2), (4, 5)]) is None
    reading.world.clock.pump()
    assert reading.source.failure is None
    assert reading.take(1, 1, [(1, 2), (4, 5)]) == (1, [b"1"], [1])
    assert reading.take(4, 1, [(4, 5)]) is None
    reading.world.clock.pump()
    assert isinstance(reading.source.failure, Corrupt)
    assert 4 in reading.source.give_up()


def test_a_failure_is_of_what_is_first_when_the_read_begins() -> None:
    reading = Reading()
    world = reading.world
    world.engine.reading.limit = 1
    world.store.rotten = {reading.log.position(4)[0]}
    gate = world.store.read_gate = world.clock.promise()
    assert ScatteredSource(reading.log, reading._ready).take(8, 1, MANY, lambda: [(8, 9)]) is None
    wanted = [(1, 2), (4, 5)]
    assert reading.take(1, 1, wanted) is None
    assert world.engine.reading.waiting == 1
    del wanted[0]
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.pump()
    assert isinstance(reading.source.failure, Corrupt)
    lost = reading.source.give_up()
    assert 4 in lost and 1 not in lost


OFFSETS = st.sets(st.integers(0, 300) | st.integers(0, 20_000), max_size=600)


@given(OFFSETS)
def test_stretches_hold_what_is_wanted_first_and_little_else(offsets: set[int]) -> None:
    wanted = sorted(offsets)
    found = joined((offset, offset + 1) for offset in wanted)
    held = [offset for start, stop in found for offset in range(start, stop)]
    assert held == sorted(set(held)), "in order, nothing twice"
    together = [offset for offset in wanted if offset in set(held)]
    assert together == wanted[: len(together)], "none is passed over"
    assert len(found) <= GATHERED_STRETCHES and len(together) <= GATHERED_ENTRIES
    assert len(held) <= len(together) * (GAP + 1)
    assert not wanted or together
