"""Segments that are only in stores of objects are checked there."""

from collections.abc import Callable

import pytest

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.logs import KEY, numbered
from fakes.tiered import OTHER, PLACE, TieredWorld
from magnetar_storage.errors import Unavailable
from magnetar_storage.verify.report import Report
from magnetar_storage.verify.verify_objects import check_objects


def moved() -> TieredWorld:
    """Return a world of which three segments are objects, the last of them in another place."""
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 9))
    first, second, third = (segment.id for segment in log.segments[:3])
    for segment in (first, second):
        assert world.do(log.offloading.copy(segment, PLACE))
    assert world.do(log.offloading.copy(third, OTHER))
    world.do(log.offloading.drop([first, second, third]))
    return world


def checked(world: TieredWorld, reads_all: bool) -> Report:
    found = world.do(world.metadata.get(KEY))
    assert found is not None
    report = Report(remote=3)
    check_objects(report, {KEY: found.value, "/broken": b"{"}, world._open, reads_all)
    return report


@pytest.mark.parametrize("reads_all", [False, True])
def test_intact_objects_are_no_problem(reads_all: bool) -> None:
    world = moved()
    before = len(world.objects.log)
    report = checked(world, reads_all)
    assert (report.objects, report.remote, report.problems) == (3, 0, [])
    reads = [one for one in world.objects.log[before:] if not one.startswith("size ")]
    assert bool(reads) == reads_all


def missing(objects: FaultyObjects, name: str) -> None:
    objects.delete(name)


def cut(objects: FaultyObjects, name: str) -> None:
    objects.put(name, objects.content(name)[:-1])


def rotten(objects: FaultyObjects, name: str) -> None:
    content = bytearray(objects.content(name))
    content[len(content) // 2] ^= 1
    objects.put(name, bytes(content))


@pytest.mark.parametrize(
    ("break_it", "why", "reads_all"),
    [
        (missing, "does not exist", False),
        (missing, "does not exist", True),
        (cut, "bytes: expected", False),
        (rotten, "the object is damaged", True),
    ],
)
def test_a_damaged_object_is_reported_like_a_missing_segment(
    break_it: Callable[[FaultyObjects, str], None], why: str, reads_all: bool
) -> None:
    world = moved()
    name = world.objects.names()[1]
    break_it(world.objects, name)
    report = checked(world, reads_all)
    (problem,) = report.problems
    assert report.damaged and problem.entries == 3 and problem.topic == KEY
    assert problem.file == f"{name} in {PLACE}" and why in problem.text
    record = world.record()
    assert record is not None and problem.segment == record.segments[1].id


def test_damage_behind_the_first_bytes_is_found_only_by_reading_everything() -> None:
    world = moved()
    rotten(world.objects, world.objects.names()[0])
    assert not checked(world, reads_all=False).problems


def test_an_object_with_other_entries_is_found() -> None:
    world = moved()
    record = world.record()
    assert record is not None
    segment = record.segments[0]
    changed = record.with_segment(type(segment)(**(vars(segment) | {"entries": 2})))
    world.do(world.metadata.put(KEY, changed.encode()))
    (problem,) = checked(world, reads_all=True).problems
    assert "has 3 entries, but the topic's record counts 2" in problem.text


def test_a_store_that_cannot_be_asked_is_no_damage() -> None:
    world = moved()
    world.objects.fault = lambda operation, name: Fault.EXPIRED
    with pytest.raises(Unavailable):
        checked(world, reads_all=False)
