"""Rebuilding a log's record from segments here and from objects, which no record lists any more."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import KEY, numbered
from fakes.tiered import OTHER, PLACE, TieredWorld
from magnetar_storage.errors import StorageError
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import Sealed, SegmentCopy, SegmentId, SegmentKind, SegmentOrigin
from magnetar_storage.local import footer, segment_origin
from magnetar_storage.local.segment_file import RECORDS_AT, file_name
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.rebuild.logs import Rebuilt, rebuilt
from magnetar_storage.rebuild.objects import FoundObjects, ObjectSegment, candidates, examined
from magnetar_storage.tiered import own_objects

DIRECTORY, FOREIGN = bytes(range(16)), bytes(range(1, 17))


def filled(entries: int = 10) -> tuple[TieredWorld, Log]:
    """Return a log in segments of three, of which the closed ones are only objects."""
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, entries))
    world.move(log)
    return world, log


def searched(
    world: TieredWorld, prefixes: Sequence[str] = ("data",), places: Sequence[str] = (PLACE, OTHER)
) -> FoundObjects:
    found = FoundObjects()

    def open_place(place: str) -> Objects:
        return world.places[place]

    for place in places:
        chosen = candidates(world.places[place], place, prefixes, found)
        found.add(examined(one, open_place, DIRECTORY) for one in chosen)
    return found


def looked_at(world: TieredWorld, found: FoundObjects) -> Rebuilt:
    now_ms = world.clock.now_ms()
    return world.do(rebuilt(world.store, now_ms, lambda _: None, found.segments))


def replaced(world: TieredWorld, log: Log, found: FoundObjects) -> LogRecord:
    """Replace the stored record by the rebuilt one; return the former record."""
    world.do(log.close())
    former = world.record()
    assert former is not None
    before = {place: dict(one._objects) for place, one in world.places.items()}
    result = looked_at(world, found)
    assert {place: one._objects for place, one in world.places.items()} == before
    assert not result.unlisted and list(result.logs) == [KEY]
    world.do(world.metadata.put(KEY, result.logs[KEY].record.encode()))
    return former


def test_ledgers_that_are_only_objects_are_listed_again() -> None:
    world, log = filled()
    former = replaced(world, log, searched(world))
    record = world.record()
    assert record is not None
    for one, other in zip(former.segments, record.segments, strict=True):
        assert (one.id, one.entries, one.messages, one.size) == (
            other.id, other.entries, other.messages, other.size,
        )  # fmt: skip
        assert one.created_ms == other.created_ms and one.is_remote == other.is_remote
    copies = [one.copy for one in record.segments if one.copy is not None]
    assert len(copies) == 3 and all(copy.size and copy.completed_ms for copy in copies)
    log = world.open()
    assert world.read_all(log) == numbered(0, 10)
    assert log.end == 10 and world.do(log.entries.messages_before(8)) == 8
    assert not world.do(log.offloading.copy(log.segments[-1].id, PLACE)), "it goes on"


def test_the_rest_of_a_log_that_was_trimmed_is_at_its_place() -> None:
    world, log = filled()
    world.do(log.trim(3))
    world.do(log.offloading.delete_unused())
    replaced(world, log, searched(world))
    log = world.open()
    assert log.first_offset == 3 and world.read_all(log) == numbered(3, 10)


def test_without_the_objects_the_gap_is_told() -> None:
    world, log = filled()
    world.do(log.close())
    result = looked_at(world, FoundObjects())
    assert result.objects == 0 and result.logs[KEY].record.first_offset == 9


def test_a_log_of_objects_alone_is_found() -> None:
    world, log = filled(9)
    world.do(log.close())
    for segment in log.record.listed:
        world.do(world.store.delete(segment))
    result = looked_at(world, searched(world))
    assert result.segments == 0 and result.objects == 3
    world.do(world.metadata.put(KEY, result.logs[KEY].record.encode()))
    assert world.read_all(world.open()) == numbered(0, 9)


def test_what_is_here_is_read_from_here() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    for segment in log.segments[:3]:
        world.do(log.offloading.copy(segment.id, PLACE))
    found = searched(world)
    assert len(found.segments) == 3
    replaced(world, log, found)
    record = world.record()
    assert record is not None and not any(one.is_remote for one in record.segments)
    copies = [one.copy for one in record.segments if one.is_copied]
    assert [copy.name for copy in copies if copy] == world.objects.names(), "none is made again"
    world.objects.fault = lambda operation, name: Fault.LOST
    assert world.read_all(world.open()) == numbered(0, 10)


def test_an_object_stands_in_for_a_damaged_file() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    first = log.segments[0].id
    world.do(log.offloading.copy(first, PLACE))
    world.do(log.close())
    world.do(world.store.close())
    file = world.disk.open(file_name(first))
    file.write(RECORDS_AT, [bytes(file.size() - RECORDS_AT)])
    file.close()
    world.start()
    found = searched(world)
    result = looked_at(world, found)
    assert "damaged" in result.unlisted[first] and result.objects == 1
    world.do(world.metadata.put(KEY, result.logs[KEY].record.encode()))
    log = world.open()
    assert log.segments[0].is_remote and world.read_all(log) == numbered(0, 10)


def test_an_object_stands_in_for_a_file_with_a_damaged_entry() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    first = log.segments[0].id
    world.do(log.offloading.copy(first, PLACE))
    world.do(log.close())
    world.do(world.store.close())
    index, _ = footer.load(world.disk, first)
    at = index.offsets[-1] - 6  # in the last block
    file = world.disk.open(file_name(first))
    file.write(at, [bytes([file.read(at, 1)[0] ^ 1])])
    file.close()
    world.start()
    result = looked_at(world, searched(world))
    assert first in result.unlisted and result.objects == 1
    world.do(world.metadata.put(KEY, result.logs[KEY].record.encode()))
    log = world.open()
    assert log.segments[0].is_remote and world.read_all(log) == numbered(0, 10)


def test_a_file_wins_over_an_object_with_other_entries() -> None:
    world, other = TieredWorld(), filled()[0]
    log = world.open()
    world.append(log, *numbered(0, 2))
    first = log.segments[0].id
    world.places = other.places
    found = searched(world)
    world.do(log.close())
    result = looked_at(world, found)
    assert [one.name for one in result.unusable][:1] == [found.segments[first].copy.name]
    assert "has other entries" in result.unusable[0].why
    record = result.logs[KEY].record
    assert record.segments[0].id == first and record.segments[0].copy is None
    assert record.first_offset == 0


def test_only_objects_of_these_prefixes_are_used() -> None:
    world, log = filled()
    world.prefix = "other"
    world.append(log, *numbered(10, 13))
    world.move(log)
    found = searched(world)
    assert len(found.segments) == 3 and found.others == {"other": 1}
    found = searched(world, ("data", "other"))
    assert len(found.segments) == 4 and not found.others
    replaced(world, log, found)
    assert world.read_all(world.open()) == numbered(0, 13)


def test_objects_that_were_noted_as_stray_are_left_out() -> None:
    world, log = filled()
    names = world.objects.names()
    times = own_objects.about(world.objects, "data")
    own_objects.delete_noticed(world.objects, "data", {names[0]}, times, 1000)
    found = searched(world)
    assert found.stray == 1 and names[0] not in {one.copy.name for one in found.segments.values()}
    assert len(found.segments) == 2 and names[0] in world.objects.names()
    world.do(log.close())
    record = looked_at(world, found).logs[KEY].record
    assert [one.id for one in record.segments] == [one.id for one in log.segments[1:]]


def test_of_two_objects_of_a_segment_one_is_listed() -> None:
    world, log = filled()
    first = world.objects.names()[0]
    world.objects.put(
        own_objects.name_of("data", log.segments[0].id, "again"), world.objects.content(first)
    )
    found = searched(world)
    assert len(found.segments) == 3 and not found.unusable
    replaced(world, log, found)
    assert world.read_all(world.open()) == numbered(0, 10)


def test_objects_of_a_segment_with_different_entries_are_all_named() -> None:
    world, log = filled()
    first, second = world.objects.names()[:2]
    segment = log.segments[0].id
    origin = replace(ORIGIN, first_offset=6)
    changed = with_origin(world.objects.content(first), segment, origin, DIRECTORY)
    for nonce in ("x", "y"):
        world.objects.put(own_objects.name_of("data", segment, nonce), changed)
    found = searched(world)
    assert segment not in found.segments and len(found.segments) == 2
    assert len(found.unusable) == 3 and first in {one.name for one in found.unusable}
    assert second not in {one.name for one in found.unusable}
    assert all("has other entries" in one.why for one in found.unusable)


@pytest.mark.parametrize("offset", [0, 1, 9])
def test_an_object_at_the_offsets_of_a_file_is_named(offset: int) -> None:
    """It may be of the directory that this one was copied from, which goes on."""
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    here = [one.id for one in log.segments]
    copy = SegmentCopy(PLACE, "data/x", 100, 1, is_only=True)
    number, origin = here[-1] + 1, replace(ORIGIN, first_offset=offset)
    found = FoundObjects({number: ObjectSegment(number, copy, origin, Sealed(3, 3, 3))})
    world.do(log.close())
    result = looked_at(world, found)
    record = result.logs[KEY].record
    assert [one.id for one in record.segments] == here and result.objects == 0
    assert [one.name for one in result.unusable] == ["data/x"]
    assert "has other entries at its place" in result.unusable[0].why
    world.do(world.metadata.put(KEY, record.encode()))
    assert world.read_all(world.open()) == numbered(0, 10)


def with_origin(data: bytes, segment: SegmentId, origin: SegmentOrigin, directory: bytes) -> bytes:
    """Return the bytes of a segment's file with an origin put before its records."""
    head = segment_origin.encoded(segment, origin, Identity(directory, 1, 1))
    return data[:RECORDS_AT] + head + data[RECORDS_AT:]


ORIGIN = SegmentOrigin(KEY, SegmentKind.MESSAGES, 0, 1)


@pytest.mark.parametrize(
    ("origin", "directory", "why"),
    [
        (ORIGIN, DIRECTORY, ""),
        (ORIGIN, bytes(16), ""),
        (ORIGIN, FOREIGN, "belongs to another data directory"),
        (replace(ORIGIN, kind=SegmentKind.KEPT), DIRECTORY, "holds kept"),
    ],
)
def test_objects_of_others_are_not_used(origin: SegmentOrigin, directory: bytes, why: str) -> None:
    world, log = filled()
    name, segment = world.objects.names()[0], log.segments[0].id
    world.objects.put(name, with_origin(world.objects.content(name), segment, origin, directory))
    found = searched(world)
    assert (segment in found.segments) == (not why)
    assert [one.name for one in found.unusable] == ([name] if why else [])
    assert all(why in one.why for one in found.unusable)


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "flipped"])
def test_an_object_that_is_not_whole_is_not_used(damage: str) -> None:
    world, _ = filled()
    name, other = world.objects.names()[:2]
    data = world.objects.content(name)
    flipped = data[:-20] + bytes((data[-20] ^ 1,)) + data[-19:]
    damaged = {"cut": data[:-1], "empty": b"", "other": world.objects.content(other)}
    world.objects.put(name, damaged.get(damage, flipped))
    found = searched(world)
    assert [one.name for one in found.unusable] == [name] and len(found.segments) == 2
    assert "not the whole file" in found.unusable[0].why


def test_an_object_without_an_origin_becomes_a_log_of_its_own() -> None:
    world, log = filled()
    found = searched(world)
    first = log.segments[0].id
    found.segments[first] = found.segments[first]._replace(origin=None)
    world.do(log.close())
    result = looked_at(world, found)
    assert list(result.nameless) == [first] and result.objects == 3
    world.do(world.metadata.put(KEY, result.nameless[first].record.encode()))
    assert world.read_all(world.open()) == numbered(0, 3)


def test_a_store_that_is_away_ends_the_search() -> None:
    world, _ = filled()
    world.objects.fault = lambda operation, name: Fault.LOST
    with pytest.raises(StorageError):
        searched(world)


@pytest.mark.parametrize(
    "name", ["a/b", "0000000000000001-x.seg", "data/1-x.seg", "data/about/clock",
    "data/0000000000000001.seg", "data/000000000000000g-x.seg", "data/0000000000000001-x.seg#1"],
)  # fmt: skip
def test_other_names_are_not_those_of_segments(name: str) -> None:
    assert own_objects.parts_of(name) is None


def test_the_parts_of_a_name_are_those_that_made_it() -> None:
    assert own_objects.parts_of(own_objects.name_of("a/b", 0x1F, "x-y")) == ("a/b", 0x1F)
