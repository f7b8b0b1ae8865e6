"""Entries are read ahead of a dispatcher that catches up, and failures are tried again."""

import pytest

from fakes.logs import BY_THREE, LogWorld, numbered
from fakes.moody_store import MoodyStore
from magnetar_broker.dispatch.entry_source import LOG_SECONDS, RETRY_SECONDS
from magnetar_broker.dispatch.sequential_source import AHEAD_ENTRIES, SequentialSource
from magnetar_storage.errors import Corrupt, NoSegment, Unavailable
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log


class Reading:
    """A source over a log of nine entries in segments of three, and how often it called."""

    def __init__(self) -> None:
        self.world = LogWorld(BY_THREE, cache_bytes=0)
        self.log: Log = self.world.open()
        for payload in numbered(0, 9):
            self.world.append(self.log, payload)
        self.ready = 0
        self.source = SequentialSource(self.log, self._ready)

    @property
    def store(self) -> MoodyStore:
        return self.world.store

    def _ready(self) -> None:
        self.ready += 1

    def take(self, offset: int, entries: int = 100) -> Run | None:
        return None if self.source.stops_at(offset) else self.source.take(offset, entries)

    def read(self, offset: int, entries: int = 100) -> list[bytes]:
        """What comes once it was read."""
        assert self.take(offset) is None
        self.world.clock.pump()
        run = self.take(offset, entries)
        assert run is not None and run.first == offset
        return run.payloads


def test_older_ones_are_read_ahead_once() -> None:
    reading = Reading()
    assert reading.read(0) == [b"0", b"1", b"2"]
    assert reading.ready == 1
    assert reading.take(1, 1) == (1, [b"1"], [1])
    assert reading.take(2) == (2, [b"2"], [1])
    assert reading.store.reads == 1
    assert AHEAD_ENTRIES > 3


def test_one_read_at_a_time() -> None:
    reading = Reading()
    reading.store.read_gate = reading.world.clock.promise()
    for _ in range(5):
        assert reading.take(0) is None
        reading.world.clock.pump()
    assert reading.take(4) is None
    reading.store.read_gate.set_result(None)
    reading.world.clock.pump()
    assert (reading.store.reads, reading.ready) == (1, 1)
    assert reading.take(0) == (0, [b"0", b"1", b"2"], [1, 1, 1])


def test_damage_stops_it_until_a_retry() -> None:
    reading = Reading()
    damage = reading.store.read_failure = Corrupt("file", 3, "rot")
    assert reading.take(0) is None
    reading.world.clock.pump()
    assert (reading.source.failure, reading.ready) == (damage, 1)
    assert reading.take(0) is None
    reading.world.clock.pump()
    assert reading.store.reads == 1
    reading.store.read_failure = None
    reading.source.retry()
    assert reading.read(0) == [b"0", b"1", b"2"]


def test_damage_that_is_not_needed_any_more_stops_nothing() -> None:
    reading = Reading()
    gate = reading.store.read_gate = reading.world.clock.promise()
    assert reading.take(6) is None
    reading.world.clock.pump()
    assert reading.take(0) is None
    reading.store.read_gate, reading.store.read_failure = None, Corrupt("file", 3, "rot")
    gate.set_result(None)
    reading.world.clock.pump()
    reading.store.read_failure = None
    assert reading.read(0) == [b"0", b"1", b"2"]
    assert reading.source.failure is None


def test_other_trouble_is_tried_again_by_itself() -> None:
    reading = Reading()
    reading.store.read_failure = Unavailable("too many open files")
    assert reading.take(0) is None
    reading.world.clock.pump()
    assert reading.source.failure is reading.store.read_failure
    reading.store.read_failure = None
    reading.world.clock.advance(RETRY_SECONDS)
    assert (reading.source.failure, reading.ready) == (None, 2)
    assert reading.read(0) == [b"0", b"1", b"2"]


def test_what_is_not_read_is_given_back() -> None:
    reading = Reading()
    assert reading.read(0) == [b"0", b"1", b"2"]
    reading.source.clear()
    assert reading.take(0) is None
    reading.world.clock.pump()
    assert reading.store.reads == 2


def test_entries_that_arrive_after_they_are_needed_are_not_kept() -> None:
    reading = Reading()
    gate = reading.store.read_gate = reading.world.clock.promise()
    assert reading.take(0) is None
    reading.world.clock.pump()
    reading.source.clear()
    gate.set_result(None)
    reading.world.clock.pump()
    assert reading.ready == 1
    assert reading.read(0) == [b"0", b"1", b"2"]
    assert reading.store.reads == 2


def test_what_is_wanted_again_when_it_comes_is_kept() -> None:
    reading = Reading()
    gate = reading.store.read_gate = reading.world.clock.promise()
    assert reading.take(0) is None
    reading.world.clock.pump()
    reading.source.clear()
    assert reading.take(0) is None
    gate.set_result(None)
    reading.world.clock.pump()
    assert reading.take(0) == (0, [b"0", b"1", b"2"], [1, 1, 1])
    assert reading.store.reads == 1


def test_what_was_trimmed_during_the_read_is_no_damage() -> None:
    reading = Reading()
    reading.store.read_gate = gate = reading.world.clock.promise()
    assert reading.take(0) is None
    reading.world.clock.pump()
    reading.world.do(reading.log.trim(6))
    reading.store.read_gate = None
    reading.store.read_failure = Corrupt("file", 3, "it is being deleted")
    gate.set_result(None)
    reading.world.clock.pump()
    assert (reading.source.failure, reading.ready) == (None, 1)
    reading.store.read_failure = None
    assert reading.read(6) == [b"6", b"7", b"8"]


def test_entries_are_read_ahead_for_a_consumer_that_catches_up() -> None:
    reading = Reading()
    assert reading.read(0) == [b"0", b"1", b"2"]
    assert reading.store.reads == 1
    assert reading.read(3) == [b"3", b"4", b"5"]
    assert reading.store.reads == 3
    assert reading.take(5) == (5, [b"5"], [1])
    assert reading.take(6) == (6, [b"6", b"7", b"8"], [1, 1, 1])
    reading.world.clock.pump()
    assert reading.store.reads == 3, "there is no more to read"


def test_there_is_no_read_ahead_for_random_access() -> None:
    reading = Reading()
    for offset in (0, 6, 3, 0):
        reading.read(offset)
    assert reading.store.reads == 4


def test_damage_ahead_counts_once_it_is_reached() -> None:
    reading = Reading()
    reading.read(0)
    assert reading.take(3) is None
    gate = reading.store.read_gate = reading.world.clock.promise()
    reading.world.clock.pump()
    reading.store.read_gate = None
    gate.set_result(None)  # the read that is wanted, then the one ahead of it
    damage = reading.store.read_failure = Corrupt("file", 3, "rot")
    reading.world.clock.pump()
    assert (reading.store.reads, reading.source.failure) == (3, None)
    assert reading.take(3) == (3, [b"3", b"4", b"5"], [1, 1, 1])
    assert reading.take(6) is None
    reading.world.clock.pump()
    assert reading.source.failure is damage


def test_what_was_read_ahead_for_nothing_does_no_harm() -> None:
    reading = Reading()
    reading.read(0)
    assert reading.take(3) is None
    reading.world.clock.pump()
    assert reading.store.reads == 3
    assert reading.read(0) == [b"0", b"1", b"2"], "a seek"
    assert reading.read(3) == [b"3", b"4", b"5"]
    reading.source.clear()
    assert reading.read(6) == [b"6", b"7", b"8"]


def test_damage_names_the_entries_it_takes_and_is_passed_over() -> None:
    reading = Reading()
    assert not reading.source.give_up()
    segment = reading.log.segments[0].id
    for error, lost in (
        (Corrupt("file", 3, "rot", segment, 0, 1), range(2)),
        (Corrupt("file", 3, "rot"), range(3)),
        (NoSegment("gone"), range(3)),
    ):
        reading.store.read_failure = error
        assert reading.take(0) is None
        reading.world.clock.pump()
        assert (reading.source.give_up(), reading.source.failure) == (lost, None)
    reading.store.read_failure = None
    assert reading.read(3) == [b"3", b"4", b"5"]


def test_other_trouble_is_not_given_up() -> None:
    reading = Reading()
    trouble = reading.store.read_failure = Unavailable("too many open files")
    assert reading.take(0) is None
    reading.world.clock.pump()
    assert (list(reading.source.give_up()), reading.source.failure) == ([], trouble)


def test_a_failure_that_repeats_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    reading = Reading()
    clock = reading.world.clock

    def fail(text: str, times: int) -> list[str]:
        reading.store.read_failure = Unavailable(text)
        caplog.clear()
        for _ in range(times):
            assert reading.take(0) is None
            clock.pump()
            clock.advance(RETRY_SECONDS)
        return [record.getMessage().rpartition(": ")[2] for record in caplog.records]

    assert fail("away", 30) == ["away"]
    assert fail("denied", 2) == ["denied"]
    assert fail("denied", int(LOG_SECONDS)) == ["denied"]
