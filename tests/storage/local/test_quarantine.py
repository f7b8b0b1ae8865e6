"""Segments that are set aside: their files are complete, kept for a time, and can be restored."""

import json

import pytest

from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import TINY
from fakes.origins import MESSAGES
from fakes.world import InlineWorkers, ManualClock, run
from magnetar_storage.errors import NoSegment, StorageError
from magnetar_storage.interfaces import DamagedEntries, Sealed
from magnetar_storage.local import quarantine
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.store import LocalStore
from magnetar_storage.runtime.whole_files import write_file

ENTRIES = [b"one", b"", b"three"]
END = Sealed(3, 6, 8)


class World:
    """A store on a disk, opened again after a crash."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.clock = ManualClock()
        self.open()

    def open(self) -> None:
        workers = InlineWorkers(self.clock)
        self.store = run(LocalStore.open(self.disk, workers, self.clock, TINY), self.clock)

    def made(self, payloads: list[bytes]) -> int:
        """Create a segment as left by the end of its process: not sealed."""
        writer = run(self.store.create(MESSAGES), self.clock)
        if payloads:
            writer.append(payloads, [1, 2, 3][: len(payloads)], lambda error: None)
        self.clock.pump()
        return writer.segment

    def set_aside(self, *segments: int) -> dict[int, Sealed]:
        return run(self.store.set_aside(segments, "a test"), self.clock)

    def expire(self, before_ms: int) -> set[int]:
        return set(run(self.store.delete_set_aside(before_ms), self.clock))

    def present(self) -> list[int]:
        async def listed() -> list[int]:
            return [number async for number in self.store.segments()]

        return run(listed(), self.clock)

    def read(self, number: int) -> list[bytes]:
        reader = run(self.store.reader(number), self.clock)
        return run(reader.read(0, 100, 1 << 20), self.clock).payloads

    def reports(self) -> list[dict[str, object]]:
        names = [name for name in self.disk.list("quarantine") if name.endswith(".json")]
        return [json.loads(self.disk.content(f"quarantine/{name}")) for name in names]


def listed(number: int, end: Sealed) -> dict[str, object]:
    counts = {"entries": end.entries, "messages": end.messages, "bytes": end.size}
    origin = {"log": MESSAGES.log, "kind": "messages"} if end.entries else {}
    return {"segment": number, "file": segment.base_name(number)} | counts | origin


def crashed(seed: int) -> World:
    world = World()
    world.made(ENTRIES)
    world.disk.crash(seeded(seed))
    world.open()
    return world


def test_a_segment_that_was_set_aside_is_a_complete_file_and_in_a_report() -> None:
    world = World()
    kept, gone, empty = world.made(ENTRIES), world.made(ENTRIES), world.made([])
    assert world.set_aside(gone, empty) == {gone: END, empty: Sealed(0, 0, 0)}
    assert world.present() == [kept]
    assert quarantine.present(world.disk) == {gone, empty}
    assert segment.base_name(gone) not in world.disk.list("segments")
    (report,) = world.reports()
    assert report["why"] == "a test" and report["at_ms"] == world.clock.now_ms()
    assert report["segments"] == [listed(gone, END), listed(empty, Sealed(0, 0, 0))]


def test_it_stays_there_through_a_crash() -> None:
    world = World()
    gone = world.made(ENTRIES)
    world.set_aside(gone)
    world.disk.crash(nothing)
    world.open()
    assert world.present() == []
    assert quarantine.present(world.disk) == {gone}


@pytest.mark.parametrize("crash", [False, True])
def test_one_that_is_asked_for_is_back(crash: bool) -> None:
    world = World()
    gone = world.made(ENTRIES)
    world.set_aside(gone)
    if crash:
        world.disk.crash(nothing)
        world.open()
    assert run(world.store.recover(gone), world.clock) == END
    assert world.read(gone) == ENTRIES
    assert world.present() == [gone]
    assert [finding.segment for finding in world.store.findings] == [gone]
    world.disk.crash(nothing)
    world.open()
    assert world.read(gone) == ENTRIES
    assert quarantine.present(world.disk) == set()


def test_one_that_an_operator_has_removed_is_missing() -> None:
    world = World()
    gone = world.made(ENTRIES)
    world.set_aside(gone)
    world.disk.remove(f"quarantine/{segment.base_name(gone)}")
    with pytest.raises(NoSegment, match="removed from quarantine"):
        run(world.store.recover(gone), world.clock)


def test_one_that_was_deleted_meanwhile_is_left_out() -> None:
    world = World()
    gone, kept = world.made(ENTRIES), world.made(ENTRIES)
    run(world.store.delete(gone), world.clock)
    assert world.set_aside(gone) == {}
    assert world.present() == [kept]
    assert world.reports() == []


def test_only_what_is_old_enough_is_deleted() -> None:
    world = World()
    old, new = world.made(ENTRIES), world.made(ENTRIES)
    world.set_aside(old)
    world.clock.set_forward(1000)
    world.set_aside(new)
    since = world.clock.now_ms()
    assert world.expire(since - 1000) == set()
    assert world.expire(since) == {old}
    assert quarantine.present(world.disk) == {new}
    assert world.expire(since + 1) == {new}
    assert world.disk.list("quarantine") == []
    with pytest.raises(NoSegment):
        run(world.store.recover(old), world.clock)


def test_one_that_came_back_is_not_deleted_and_its_time_begins_anew() -> None:
    world = World()
    twice = world.made(ENTRIES)
    world.set_aside(twice)
    run(world.store.recover(twice), world.clock)
    world.clock.set_forward(1000)
    first = world.clock.now_ms()
    world.set_aside(twice)
    assert world.expire(first) == set()
    assert world.read(twice) == ENTRIES


def test_a_file_without_a_report_is_kept() -> None:
    world = World()
    gone, other = world.made(ENTRIES), world.made(ENTRIES)
    world.set_aside(gone)
    world.clock.set_forward(1)
    world.set_aside(other)
    first, second = (name for name in world.disk.list("quarantine") if name.endswith(".json"))
    world.disk.remove(f"quarantine/{first}")
    world.disk.replace_content(f"quarantine/{second}", b'{"at_ms": 0}')
    assert world.expire(1 << 60) == set()
    assert quarantine.present(world.disk) == {gone, other}


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_moment_loses_nothing(seed: int) -> None:
    """The crash is during setting aside, restoring, and both again afterwards."""
    at = 0
    while True:
        world = crashed(seed)
        (number,) = world.present() or (world.made(ENTRIES),)
        world.read(number)
        expected = world.read(number)
        world.disk.crash_at = world.disk.operations + at
        try:
            world.set_aside(number)
            assert world.read(number) == expected
        except Crash:
            world.disk.crash(seeded(seed + at))
            world.open()
            assert world.read(number) == expected
            world.set_aside(number)
            assert world.read(number) == expected
            at += 1
        else:
            break
    assert at > 10


def test_without_room_everything_is_as_before() -> None:
    world = World()
    gone = world.made(ENTRIES)
    world.disk.room = 0
    with pytest.raises(StorageError):
        world.set_aside(gone)
    world.disk.room = 1 << 20
    world.clock.advance(TINY.retry_seconds)
    assert world.read(gone) == ENTRIES
    assert world.set_aside(gone) == {gone: END}


# Copies of damaged entries ------------------------------------------------------------------

ROTTEN = DamagedEntries(7, 2, 4, "rot", b"what is left", "/topics/x")
OTHER = DamagedEntries(7, 9, 9, "the entries are lost", b"", "/topics/x")


def damaged_files(world: World) -> dict[str, bytes]:
    names = [name for name in world.disk.list("quarantine") if name.endswith(".damaged")]
    return {name: world.disk.content(f"quarantine/{name}") for name in names}


def keep(world: World, *entries: DamagedEntries) -> None:
    run(world.store.keep_damaged(entries, "a test"), world.clock)


def test_damaged_entries_are_kept_with_a_report() -> None:
    world = World()
    keep(world, ROTTEN, OTHER)
    assert damaged_files(world) == {
        "0000000000000007-2-4.damaged": b"what is left",
        "0000000000000007-9-9.damaged": b"",
    }
    (report,) = world.reports()
    assert (report["why"], report["segments"]) == ("a test", [])
    listed = report["damaged"]
    assert isinstance(listed, list)
    assert listed[0] == {
        "log": "/topics/x",
        "segment": 7,
        "first_entry": 2,
        "last_entry": 4,
        "why": "rot",
        "file": "0000000000000007-2-4.damaged",
        "bytes": 12,
    }


def test_they_are_deleted_after_their_time_unless_a_younger_report_names_them() -> None:
    world = World()
    keep(world, ROTTEN, OTHER)
    world.clock.set_forward(1000)
    keep(world, OTHER)
    assert world.expire(world.clock.now_ms()) == set()
    assert list(damaged_files(world)) == ["0000000000000007-9-9.damaged"]
    world.clock.set_forward(1)
    world.expire(world.clock.now_ms())
    assert damaged_files(world) == {}
    assert world.reports() == []


def test_a_store_opens_with_them_as_it_did_without() -> None:
    world = World()
    number = world.made(ENTRIES)
    keep(world, ROTTEN)
    run(world.store.close(), world.clock)
    world.open()
    assert world.present() == [number]
    assert list(damaged_files(world)) == ["0000000000000007-2-4.damaged"]


def test_a_report_that_was_edited_deletes_nothing_elsewhere() -> None:
    world = World()
    number = world.made(ENTRIES)
    world.set_aside(number)
    keep(world, ROTTEN)
    for name in world.disk.list("quarantine"):
        if name.endswith(".json"):
            fields = json.loads(world.disk.content(f"quarantine/{name}"))
            fields["damaged"] = [{"file": "../LOCK"}, {"file": segment.base_name(number)}]
            fields["segments"] = []
            write_file(world.disk, f"quarantine/{name}", json.dumps(fields).encode())
    world.expire(1 << 60)
    assert world.read(number) == ENTRIES
    assert list(damaged_files(world)) == ["0000000000000007-2-4.damaged"]


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_leaves_no_file_whose_report_is_gone(seed: int) -> None:
    world = World()
    world.set_aside(world.made(ENTRIES), world.made(ENTRIES))
    world.clock.set_forward(1000)
    world.expire(world.clock.now_ms())
    world.disk.crash(seeded(seed))
    world.open()
    world.expire(world.clock.now_ms())
    assert quarantine.present(world.disk) == set()
