"""Damaged entries that are set aside: kept in quarantine, and holes of the log from then on."""

import pytest

from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from fakes.rewritten import RewrittenLog
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_state import NO_LIMIT
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.setting_aside import check_again, find_damage, set_aside


class Rotting(LogWorld):
    """A log of nine entries in segments of three; some entries are unreadable."""

    def __init__(self) -> None:
        super().__init__(BY_THREE, cache_bytes=0)
        self.log = self.open()
        for payload in numbered(0, 9):
            self.append(self.log, payload)
        self.segments = [one.id for one in self.log.segments]

    def rot(self, index: int) -> None:
        self.store.rotten.add(self.segments[index])

    def found(self, start: int = 0, stop: int = 9) -> list[tuple[int, int, int]]:
        return [one[:3] for one in self.do(find_damage(self.log, start, stop))]

    def set_aside(self) -> list[Damage]:
        damage = self.do(find_damage(self.log, 0, 9))
        self.do(set_aside(self.log, damage, "a test"))
        return damage


def readable(world: LogWorld, log: Log) -> list[bytes]:
    """Return all entries that can be read, across holes."""
    found: list[bytes] = []
    offset = 0
    while (run := world.do(log.entries.read(offset, 100, 1 << 20))).payloads:
        found += run.payloads
        offset = run.first + len(run.payloads)
    return found


def test_all_damage_between_two_offsets_is_found() -> None:
    world = Rotting()
    first, second, *_ = world.segments
    assert world.found() == []
    world.rot(0)
    world.rot(1)
    assert world.found() == [(first, 0, 0), (first, 1, 1), (first, 2, 2)] + [
        (second, entry, entry) for entry in range(3)
    ]
    assert world.found(2, 4) == [(first, 2, 2), (second, 0, 0)]
    assert world.found(6, 99) == []


def test_reads_go_past_what_was_set_aside_also_after_a_restart() -> None:
    world = Rotting()
    world.rot(1)
    world.set_aside()
    there = [b"0", b"1", b"2", b"6", b"7", b"8"]
    assert readable(world, world.log) == there
    assert list(world.log.holes) == [(3, 6)]
    positions = [world.log.position(offset) for offset in range(9)]
    world.do(world.log.close())
    again = world.open()
    assert readable(world, again) == there
    assert list(again.holes) == [(3, 6)]
    assert [again.position(offset) for offset in range(9)] == positions
    assert again.messages_end == 9


def test_its_bytes_are_kept_with_their_place() -> None:
    world = Rotting()
    world.rot(1)
    world.set_aside()
    kept = [(one.segment, one.first, one.last, one.data, one.log) for one in world.store.damaged]
    assert kept == [
        (world.segments[1], entry, entry, b"%d" % (3 + entry), KEY) for entry in range(3)
    ]


def test_nothing_is_set_aside_whose_bytes_cannot_be_kept() -> None:
    world = Rotting()
    world.rot(1)
    damage = world.do(find_damage(world.log, 0, 9))

    async def refuse(*_: object) -> None:
        raise StorageError("no room")

    world.store.keep_damaged = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageError):
        world.do(set_aside(world.log, damage, "a test"))
    assert not world.log.holes
    assert not any(one.lost for one in world.log.segments)


def test_cursors_count_it_as_acknowledged() -> None:
    world = Rotting()
    cursor = Cursor(2)
    world.log.on_reclaimed = lambda: cursor.skip_reclaimed(world.log.first_offset, world.log.holes)
    world.rot(1)
    world.set_aside()
    assert cursor.next_unacked(0) == 6


def test_it_is_known_no_more_and_counted() -> None:
    world = Rotting()
    world.rot(1)
    assert len(world.set_aside()) == 3
    assert (len(world.engine.damage), world.engine.damage.set_aside) == (0, 3)
    world.set_aside()
    assert world.engine.damage.set_aside == 3


def test_what_was_set_aside_before_is_not_again() -> None:
    world = Rotting()
    world.rot(1)
    damage = world.set_aside()
    world.do(set_aside(world.log, damage, "a test"))
    assert (len(world.store.damaged), world.engine.damage.set_aside) == (3, 3)


def test_what_was_trimmed_meanwhile_is_left_out() -> None:
    world = Rotting()
    world.rot(0)
    damage = world.do(find_damage(world.log, 0, 9))
    world.do(world.log.trim(3))
    world.do(set_aside(world.log, damage, "a test"))
    assert (world.store.damaged, world.engine.damage.set_aside) == ([], 0)


def test_the_last_entry_is_the_last_that_is_left() -> None:
    world = Rotting()
    world.rot(2)
    world.set_aside()
    log = world.log
    assert log.last_visible() == 5
    log.hidden = OffsetSet()
    log.hidden.add(4, 6)
    assert log.last_visible() == 3
    world.rot(1)
    world.set_aside()
    assert log.last_visible() == 2
    log.limit_visible(2)
    assert log.last_visible() == 1
    log.limit_visible(NO_LIMIT)
    world.rot(0)
    world.set_aside()
    assert log.last_visible() < log.first_offset
    world.append(log, b"9")
    assert log.last_visible() == 9


def test_a_missing_segment_is_set_aside_without_bytes() -> None:
    world = Rotting()
    del world.store._segments[world.segments[0]]
    world.set_aside()
    assert [one.data for one in world.store.damaged] == [b""]
    assert readable(world, world.log) == numbered(3, 9)


def test_entries_of_the_open_segment_are_set_aside() -> None:
    world = LogWorld(cache_bytes=0)
    log = world.open()
    for payload in numbered(0, 3):
        world.append(log, payload)
    world.store.rotten.add(log.open_segment)
    damage = world.do(find_damage(log, 1, 2))
    world.do(set_aside(log, damage, "a test"))
    world.store.rotten.clear()
    world.append(log, b"3")
    assert readable(world, log) == [b"0", b"2", b"3"]
    world.do(log.close())
    assert readable(world, world.open()) == [b"0", b"2", b"3"]


def test_a_segment_with_such_entries_can_be_rewritten() -> None:
    world = RewrittenLog(35)
    segment = world.log.segments[0].id
    world.do(set_aside(world.log, [Damage(segment, 2, 4, "rot", log=KEY)], "a test"))
    world.ack_all_but(3, 9, 34)
    assert world.reclaim() > 0
    assert set(world.there()) == {9, *range(30, 35)}
    world.opened()
    assert set(world.there()) == {9, *range(30, 35)}


def test_entries_of_a_rewritten_segment_are_set_aside() -> None:
    world = RewrittenLog(35)
    world.ack_all_but(3, 34)
    world.reclaim()
    first = world.log.segments[0]
    assert first.kept_in is not None
    world.do(set_aside(world.log, [Damage(first.id, 3, 3, "rot", log=KEY)], "a test"))
    assert set(world.there()) == set(range(30, 35))
    assert [one.data for one in world.store.damaged] == [b"3"]
    world.opened()
    assert set(world.there()) == set(range(30, 35))


def test_what_can_be_read_again_is_known_no_more() -> None:
    world = Rotting()
    world.rot(0)
    with pytest.raises(Corrupt):
        world.do(world.log.entries.read(1, 1, 1))
    (known,) = world.engine.damage
    assert world.do(check_again(world.log, known)) == [known]
    assert len(world.engine.damage) == 1
    world.store.rotten.clear()
    assert world.do(check_again(world.log, known)) == []
    assert len(world.engine.damage) == 0
