"""A data directory and a copy of it use one store of objects, and neither loses data."""

import json

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import numbered
from fakes.tiered import OTHER, PLACE, TieredWorld
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.metadata_keys import TOPICS, namespace_policies_key
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.expiry.shared_objects import SharedObjects
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_storage.errors import Unavailable

DATA, MARK = "data", "data/about/shared"
DAY_SECONDS = 86_400
NO_PLACE = Settings()
SECOND_PLACE = Settings(
    managed_ledger_offload_driver=OffloadDriver.AWS_S3,
    managed_ledger_offload_bucket="bucket/second",
)
DAMAGED = f"{TOPICS}public/default/persistent/damaged"


def original_and_copy(*places: str) -> tuple[TieredWorld, TieredWorld]:
    """Return a world of which three segments are objects, and a copy of it.

    The first segments are in `places`, one in each, the others in `PLACE`.
    """
    original = TieredWorld()
    log = original.open()
    original.append(log, *numbered(0, 10))
    for segment, place in zip(log.segments, places, strict=False):
        assert original.do(log.offloading.copy(segment.id, place))
    original.move(log)
    original.do(log.close())
    return original, TieredWorld(original)


def trim(world: TieredWorld) -> None:
    """Delete all closed segments, and what their objects allow; a day passes."""
    log = world.open()
    world.do(log.trim(9))
    world.do(log.offloading.delete_unused())
    world.do(log.close())
    world.clock.advance(DAY_SECONDS)
    collect(world)


def collect(world: TieredWorld) -> None:
    """Look for stray objects on two days."""
    settings = Settings(magnetar_offload_orphan_minutes=60)
    watch = ClockWatch(world.clock)
    stray = StrayObjects(settings, world.metadata, world.clock, watch, world.access())
    for _ in range(2):
        world.do(stray.collect())
        world.clock.advance(DAY_SECONDS)


def reads_all(world: TieredWorld) -> bool:
    log = world.open()
    found = world.read_all(log)
    world.do(log.close())
    return found == numbered(0, 10)


def shared(world: TieredWorld, settings: Settings = NO_PLACE) -> SharedObjects:
    return SharedObjects(settings, world.metadata, world.access(DATA))


def test_the_copy_deletes_nothing_of_the_original() -> None:
    original, copy = original_and_copy()
    trim(copy)
    assert reads_all(original)


def test_the_original_deletes_nothing_of_the_copy() -> None:
    original, copy = original_and_copy()
    copy.do(shared(copy).share())
    trim(original)
    assert reads_all(copy)


def test_each_deletes_its_own_new_objects() -> None:
    original, copy = original_and_copy()
    copy.do(shared(copy).share())
    both = set(original.objects.names())
    for world in (original, copy):
        world.clock.advance(1)
        log = world.open()
        world.append(log, *numbered(10, 16))
        world.move(log)
        assert len(world.objects.names()) > len(both)
        world.do(log.trim(15))
        world.do(log.offloading.delete_unused())
        world.do(log.close())
    original.clock.advance(DAY_SECONDS)
    for world in (original, copy):
        collect(world)
    left = {name for name in original.objects.names() if name.endswith(".seg")}
    listed = {name for world in (original, copy) for _, name in world.listed()}
    # The last of the new segments of each is not trimmed.
    assert left == {name for name in both if name.endswith(".seg")} | listed
    assert len(listed) == 2


def test_without_the_mark_the_original_deletes_as_usual() -> None:
    original, _ = original_and_copy()
    trim(original)
    assert not [name for name in original.objects.names() if name.endswith(".seg")]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.BUSY, Fault.EXPIRED, Fault.LANDED])
def test_the_mark_is_written_again_until_that_succeeds(fault: Fault) -> None:
    _, copy = original_and_copy()
    sharing = shared(copy)
    copy.objects.fault = lambda operation, name: fault if operation == "replace" else None
    with pytest.raises(Unavailable):
        copy.do(sharing.share())
    assert copy.do(copy.metadata.get("/forgotten")) is None
    copy.objects.fault = None
    copy.do(sharing.share())
    assert copy.do(copy.metadata.get("/forgotten")) is not None
    assert MARK in copy.objects.names()
    before = list(copy.objects.log)
    copy.do(sharing.share())
    assert copy.objects.log == before, "it is written once"


@pytest.mark.parametrize("away", [PLACE, OTHER])
def test_a_place_that_is_away_does_not_prevent_the_marks_of_others(away: str) -> None:
    original, copy = original_and_copy(PLACE, OTHER)
    sharing = shared(copy)
    there = OTHER if away == PLACE else PLACE
    copy.places[away].fault = lambda operation, name: Fault.LOST
    with pytest.raises(Unavailable):
        copy.do(sharing.share())
    assert MARK in copy.places[there].names() and MARK not in copy.places[away].names()
    assert copy.do(copy.metadata.get("/forgotten")) is None
    before = list(copy.places[there].log)
    copy.mend()
    copy.do(sharing.share())
    assert copy.do(copy.metadata.get("/forgotten")) is not None
    assert copy.places[there].log == before, "a mark is written once"
    trim(original)
    assert reads_all(copy)


def test_a_damaged_record_may_list_objects_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    original, copy = original_and_copy()
    copy.do(copy.metadata.put(DAMAGED, b"{"))
    sharing = shared(copy)
    for _ in range(2):
        copy.do(sharing.share())
        assert copy.do(copy.metadata.get("/forgotten")) is None
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert len(errors) == 1, "it is logged once"
    assert "persistent://public/default/damaged cannot be read" in errors[0]
    trim(original)
    assert reads_all(copy), "the place of the other records is marked"
    copy.do(copy.metadata.delete(DAMAGED))
    copy.do(sharing.share())
    assert copy.do(copy.metadata.get("/forgotten")) is not None


@pytest.mark.parametrize("by_policy", [False, True])
def test_a_damaged_record_may_list_objects_in_each_place_that_is_named(by_policy: bool) -> None:
    _, copy = original_and_copy()
    copy.do(copy.metadata.put(DAMAGED, b"{"))
    if by_policy:
        members = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": OTHER[5:]}
        policy = json.dumps({"offload": members}).encode()
        copy.do(copy.metadata.put(namespace_policies_key("public/default"), policy))
        copy.do(copy.metadata.put(namespace_policies_key("public/damaged"), b"{"))
    copy.do(shared(copy, NO_PLACE if by_policy else SECOND_PLACE).share())
    assert all(MARK in one.names() for one in copy.places.values())


def test_a_copy_without_objects_needs_no_store() -> None:
    original = TieredWorld()
    original.do(original.open().close())
    copy = TieredWorld(original)
    copy.do(shared(copy).share())
    assert copy.do(copy.metadata.get("/forgotten")) is not None
    assert not copy.objects.log and not copy.places[OTHER].log


def test_the_original_does_not_delete_while_it_cannot_ask() -> None:
    original, copy = original_and_copy()
    original.objects.fault = lambda operation, name: Fault.LOST if operation == "size" else None
    log = original.open()
    original.do(log.trim(9))
    with pytest.raises(Unavailable):
        original.do(log.offloading.delete_unused())
    assert reads_all(copy)
    assert len(original.places[PLACE].names()) == 3
