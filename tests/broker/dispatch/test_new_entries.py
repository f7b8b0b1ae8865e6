"""New entries come from memory or the store, without those that are acknowledged or delayed."""

from dataclasses import dataclass, field

from fakes.logs import BY_THREE, LogWorld, numbered
from magnetar_broker.dispatch.damage_notices import DamageNotices
from magnetar_broker.dispatch.new_entries import NewEntries
from magnetar_broker.dispatch.offset_queue import OffsetQueue
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.interfaces import Run
from magnetar_storage.log.cache import ENTRY_OVERHEAD
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet

MANY = 1 << 20


@dataclass
class Delayed:
    """The delayed entries of a log, of which all are known."""

    waiting: OffsetSet = field(default_factory=OffsetSet)

    def catch(self, first: int, payloads: object) -> None: ...


class Reading:
    """The new entries of a log that has nine in segments of three."""

    def __init__(self, cache_bytes: int = 0) -> None:
        self.world = LogWorld(BY_THREE, cache_bytes)
        self.log: Log = self.world.open()
        for payload in numbered(0, 9):
            self.world.append(self.log, payload)
        self.ready = 0
        self.cursor, self.delayed = Cursor(-1), Delayed()
        self.new = NewEntries(self.log, self.cursor, self.delayed, self._ready)

    def _ready(self) -> None:
        self.ready += 1

    def take(self, offset: int, entries: int = 100) -> Run | None:
        return self.new.take(offset, entries, MANY)

    def read(self, offset: int, entries: int = 100) -> list[bytes]:
        """Return what comes once it was read."""
        assert self.take(offset) is None
        self.world.clock.pump()
        run = self.take(offset, entries)
        assert run is not None and run.first == offset
        return run.payloads


def test_recent_entries_come_at_once_and_of_one_segment() -> None:
    reading = Reading(cache_bytes=MANY)
    assert reading.take(4) == (4, [b"4", b"5"], [1, 1])
    assert reading.take(0, 2) == (0, [b"0", b"1"], [1, 1])
    assert reading.world.store.reads == 0


def test_at_the_end_there_is_nothing_and_nothing_is_kept() -> None:
    reading = Reading()
    reading.read(6)
    assert reading.take(9) is None
    assert reading.world.store.reads == 1
    assert reading.take(6) is None, "what was read ahead was given back"
    reading.world.clock.pump()


def test_what_is_in_memory_is_not_read_ahead() -> None:
    reading = Reading(cache_bytes=3 * (1 + ENTRY_OVERHEAD))
    assert reading.read(0) == [b"0", b"1", b"2"]
    assert reading.read(3) == [b"3", b"4", b"5"]
    assert reading.take(6) == (6, [b"6", b"7", b"8"], [1, 1, 1])
    assert reading.world.store.reads == 2


def test_what_is_acknowledged_or_delayed_is_not_next() -> None:
    reading = Reading()
    assert reading.new.next() == 0
    reading.cursor.ack_scattered([0, 2, 4])
    assert reading.new.next() == 1
    reading.delayed.waiting.add(1, 4)
    assert reading.new.next() == 5
    reading.new.read_offset = 7
    assert reading.new.next() == 7
    reading.new.rewind()
    assert (reading.new.read_offset, reading.new.next()) == (1, 5)


def test_delays_mean_nothing_to_a_dispatcher_without_them() -> None:
    reading = Reading()
    reading.delayed.waiting.add(0, 4)
    assert NewEntries(reading.log, reading.cursor, None, reading._ready).next() == 0


def test_damage_is_passed_over_and_nothing_else_is() -> None:
    reading, queue, notices = Reading(cache_bytes=0), OffsetQueue(), DamageNotices(-1)
    reading.cursor.ack_scattered([1])
    for error, lost in ((Unavailable("too many open files"), 0), (Corrupt("file", 3, "rot"), 3)):
        reading.new.source.retry()
        reading.world.store.read_failure = error
        assert reading.take(0) is None
        reading.world.clock.pump()
        assert reading.take(0) is None
        assert reading.new.pass_over_damage(queue, notices) == lost
        assert reading.new.read_offset == lost
    assert (len(queue), queue.ready, bool(notices)) == (2, False, True)
    reading.world.store.read_failure = None
    assert reading.read(3) == [b"3", b"4", b"5"]


def test_a_seek_moves_away_from_damage() -> None:
    reading = Reading()
    reading.world.store.read_failure = Corrupt("file", 3, "rot")
    assert reading.take(0) is None
    reading.world.clock.pump()
    reading.world.store.read_failure = None
    assert reading.take(0) is None
    assert reading.read(6) == [b"6", b"7", b"8"]
    assert reading.new.source.failure is None


def test_what_is_behind_the_first_message_of_an_open_transaction_is_not_available() -> None:
    reading = Reading(cache_bytes=MANY)
    reading.log.limit_visible(4)
    assert reading.take(3) == (3, [b"3"], [1])
    assert reading.take(4) is None


def test_runs_from_the_cache_are_counted() -> None:
    reading = Reading(cache_bytes=MANY)
    reading.take(0)
    reading.take(3, 2)
    assert (reading.log.entries.from_cache, reading.log.engine.cached_runs.entries) == (5, 5)
    assert reading.log.engine.read_runs.entries == 0
