"""The objects of topics that were deleted while their place was away are deleted later."""

from collections.abc import Sequence

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import KEY, numbered
from fakes.memory_metadata import MemoryMetadata
from fakes.tiered import OTHER, PLACE, TieredWorld
from magnetar_broker.base.clock_watch import HOLD_SECONDS, ClockWatch
from magnetar_broker.expiry import unreachable_objects
from magnetar_broker.expiry.unreachable_objects import UnreachableObjects
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import PAGE, Listed, SegmentCopy
from magnetar_storage.log.left_objects import LEFT, leave
from magnetar_storage.tiered import own_objects

MINUTES = 60


def deleted_while_away() -> TieredWorld:
    """Return a world without a topic, of which three objects are left."""
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    world.move(log)
    world.objects.fault = lambda operation, name: Fault.BUSY
    world.do(log.delete())
    assert len(world.stored()) == 3
    return world


def objects_in(world: TieredWorld, minutes: int = MINUTES) -> UnreachableObjects:
    return UnreachableObjects(world.metadata, ClockWatch(world.clock), world.access(), minutes)


def test_they_are_deleted_once_the_place_is_back(caplog: pytest.LogCaptureFixture) -> None:
    world = deleted_while_away()
    left = objects_in(world)
    asked = len(world.objects.log)
    world.do(left.retry())
    world.do(left.retry())
    assert len(world.objects.log) == asked + 2, "a place that is away is asked once in a round"
    assert left.number == 3 and world.left() == world.stored()
    assert world.do(left.places()) == {PLACE}
    assert caplog.text.count(f"objects of deleted topics in {PLACE} cannot be deleted") == 1
    world.mend()
    world.do(left.retry())
    assert not world.stored() and not world.left()
    assert left.number == 0 and not world.do(left.places())


def test_those_that_were_deleted_are_not_listed_any_more() -> None:
    world = deleted_while_away()
    doomed = sorted(name for _, name in world.stored())
    world.objects.fault = lambda operation, name: Fault.BUSY if name in doomed[1:] else None
    left = objects_in(world)
    world.do(left.retry())
    assert world.left() == world.stored() == {(PLACE, name) for name in doomed[1:]}
    assert left.number == 2


class DamagedMetadata(MemoryMetadata):
    """Metadata that reports damage at the keys whose value is empty."""

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        page = await super().read_under(prefix, after, limit)
        return [
            (key, found if isinstance(found, Corrupt) or found.value else Corrupt(key, 0, "rot"))
            for key, found in page
        ]


@pytest.mark.parametrize("value", [b"", b"{"])
def test_a_list_that_cannot_be_read_keeps_no_other_one(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world = deleted_while_away()
    world.mend()
    metadata = DamagedMetadata(world.clock)
    copies = [SegmentCopy(place, name) for place, name in sorted(world.stored())]
    world.do(leave(metadata, KEY, copies, world.clock.now_ms(), "away"))
    world.do(metadata.put(f"{LEFT}data/0", value))
    left = UnreachableObjects(metadata, ClockWatch(world.clock), world.access(), MINUTES)
    assert world.do(left.places()) == {PLACE}
    for _ in range(2):
        world.do(left.retry())
    assert not world.stored() and left.number == 0
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert len(errors) == 1, "it is logged once"
    assert "data/0" in errors[0] and "by hand" in errors[0]
    assert world.do(metadata.list(LEFT)) == [f"{LEFT}data/0"]


def test_a_place_that_is_away_keeps_no_objects_of_another_one() -> None:
    world = deleted_while_away()
    copies = [
        SegmentCopy(place, own_objects.name_of("data", 9, place[-1])) for place in (PLACE, OTHER)
    ]
    for copy in copies:
        world.places[copy.place].put(copy.name, b"x")
    world.do(leave(world.metadata, KEY, copies, world.clock.now_ms(), "away"))
    world.do(objects_in(world).retry())
    assert not world.places[OTHER].names()
    assert world.left() == world.stored()


def test_the_broker_gives_up_in_the_end_and_names_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreachable_objects, "NAMED", 2)
    world = deleted_while_away()
    left = objects_in(world)
    world.clock.advance(MINUTES * 60 - 1)
    world.do(left.retry())
    assert world.left() and "gave up" not in caplog.text
    world.clock.advance(1)
    world.do(left.retry())
    assert not world.left() and left.number == 0
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert len(errors) == 2 and all(PLACE in error and "503" in error for error in errors)
    assert all(name in "".join(errors) for _, name in world.stored())


def test_a_clock_that_jumps_gives_up_nothing_for_a_while() -> None:
    world = deleted_while_away()
    left = objects_in(world)
    world.clock.set_forward(MINUTES * 60_000)
    world.do(left.retry())
    assert world.left() == world.stored()
    world.clock.advance(HOLD_SECONDS)
    world.do(left.retry())
    assert not world.left()


def test_below_zero_it_never_gives_up() -> None:
    world = deleted_while_away()
    world.clock.advance(MINUTES * 1000)
    world.do(objects_in(world, -1).retry())
    assert world.left() == world.stored()


@pytest.mark.parametrize("is_shared", [False, True])
def test_objects_that_another_directory_may_use_stay(is_shared: bool) -> None:
    """Of a restored copy, or of the original of one."""
    world = deleted_while_away()
    world.mend()
    if is_shared:
        own_objects.share(world.objects, world.prefix)
    else:
        world.prefix = "copy"
    stored = world.stored()
    world.do(objects_in(world).retry())
    assert world.stored() == stored and not world.left()


def test_a_list_that_is_written_again_meanwhile_stays() -> None:
    """The deletion of the topic was interrupted, and is repeated."""
    world = deleted_while_away()
    world.mend()
    copies = [SegmentCopy(place, name) for place, name in sorted(world.stored())]

    def leave_meanwhile(operation: str, name: str) -> None:
        world.objects.fault = None
        world.do(leave(world.metadata, KEY, copies, world.clock.now_ms(), "away"))

    world.objects.fault = leave_meanwhile
    world.do(objects_in(world).retry())
    assert len(world.left()) == 3
    world.do(objects_in(world).retry())
    assert not world.left() and not world.stored()
