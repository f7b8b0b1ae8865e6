"""Stray objects are deleted, and only those: never one that a record lists or may list."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import KEY, numbered
from fakes.memory_metadata import MemoryMetadata
from fakes.tiered import OTHER, PLACE, TieredWorld
from fakes.world import ManualTasks
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import TOPICS, namespace_policies_key, topic_policies_key
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.config import Settings
from magnetar_broker.expiry import stray_objects
from magnetar_broker.expiry.stray_objects import (
    INTERVAL_SECONDS,
    LOOK_SECONDS,
    StrayObjects,
)
from magnetar_broker.expiry.unreachable_objects import RETRY_SECONDS
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import PAGE, Listed
from magnetar_storage.log.log import Log
from magnetar_storage.tiered import own_objects

MINUTES = 60
GRACE_SECONDS = MINUTES * 60


def stray_in(
    world: TieredWorld, minutes: int = MINUTES, metadata: MemoryMetadata | None = None
) -> StrayObjects:
    return stray_by(Settings(magnetar_offload_orphan_minutes=minutes), world, metadata)


def stray_by(
    settings: Settings, world: TieredWorld, metadata: MemoryMetadata | None = None
) -> StrayObjects:
    clock, watch = world.clock, ClockWatch(world.clock)
    return StrayObjects(settings, metadata or world.metadata, clock, watch, world.access())


def rounds(world: TieredWorld, stray: StrayObjects) -> None:
    """Look for stray objects, and delete those that are still stray after the grace."""
    world.do(stray.collect())
    world.clock.advance(GRACE_SECONDS)
    world.do(stray.collect())


def stray_object(world: TieredWorld, place: str = PLACE, segment: int = 7) -> str:
    """Put an object into a store that no record lists; return its name."""
    name = own_objects.name_of(world.prefix, segment, "stray")
    world.places[place].put(name, b"x")
    return name


def segments(world: TieredWorld, place: str = PLACE) -> list[str]:
    """Return the objects that are not about the prefix itself."""
    return [name for name in world.places[place].names() if "/about/" not in name]


def with_objects() -> TieredWorld:
    """Return a world with a log of which three segments are objects."""
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    world.move(log)
    return world


def test_old_objects_that_no_record_lists_are_deleted(caplog: pytest.LogCaptureFixture) -> None:
    world = with_objects()
    kept = segments(world)
    name = stray_object(world)
    stray = stray_in(world)
    world.clock.advance(GRACE_SECONDS)
    rounds(world, stray)
    assert segments(world) == kept
    assert stray.deleted == 1
    assert f"deleted 1 objects that no ledger belongs to from {PLACE}" in caplog.text
    assert name in caplog.text


def test_copies_that_an_engine_keeps_are_not_stray() -> None:
    world = TieredWorld()
    world.engine = replace(world.engine, keeps_trash_ms=10 * GRACE_SECONDS * 1000)
    log = world.open()
    world.append(log, *numbered(0, 10))
    world.move(log)
    kept = segments(world)
    world.do(log.trim(6))
    stray = stray_in(world)
    rounds(world, stray)
    rounds(world, stray)
    world.do(log.offloading.delete_unused())
    assert segments(world) == kept and stray.deleted == 0
    world.clock.advance(10 * GRACE_SECONDS)
    world.do(log.offloading.delete_unused())
    assert len(segments(world)) == 1 and stray.deleted == 0


def test_a_place_that_only_a_deleted_topic_had_is_looked_at() -> None:
    world = with_objects()
    for objects in world.places.values():
        objects.fault = lambda operation, name: Fault.BUSY
    world.do(Log.remove(KEY, world.engine))
    world.mend()
    name = stray_object(world)
    rounds(world, stray_in(world))
    assert name not in segments(world)


def test_objects_that_could_not_be_deleted_are_tried_again_though_no_stray_ones_are() -> None:
    world = with_objects()
    world.objects.fault = lambda operation, name: Fault.BUSY
    world.do(Log.remove(KEY, world.engine))
    world.mend()
    tasks = ManualTasks(world.clock)
    jobs = PeriodicJobs(NamesRuntime(GuardedMetadata(world.metadata, None), world.clock, tasks))
    stray = stray_in(world, minutes=-1)
    stray.register(jobs)
    jobs.start()
    world.clock.advance(RETRY_SECONDS)
    world.clock.pump()
    assert not segments(world) and not stray.deleted


def test_objects_stay_until_they_were_stray_for_long() -> None:
    world = with_objects()
    name = stray_object(world)
    world.clock.advance(GRACE_SECONDS)
    stray = stray_in(world)
    world.do(stray.collect())
    later = stray_object(world, segment=8)
    for seconds in (1, GRACE_SECONDS - 2):
        world.clock.advance(seconds)
        world.do(stray.collect())
        assert name in segments(world)
    world.clock.advance(1)
    world.do(stray.collect())
    assert name not in segments(world) and later in segments(world)
    world.clock.advance(GRACE_SECONDS)
    world.do(stray.collect())
    assert later not in segments(world)
    world.do(stray.collect())
    assert "data/about/stray" not in world.objects.names()


def test_a_wrong_clock_of_the_broker_deletes_nothing() -> None:
    world = with_objects()
    name = stray_object(world)
    now_ms = world.clock.now_ms()
    world.objects._now_ms = lambda: now_ms
    world.do(stray_in(world).collect())
    world.clock.set_forward(1 << 40)
    world.do(stray_in(world).collect())
    assert name in segments(world)


def test_an_old_copy_of_the_metadata_may_be_replaced() -> None:
    world = TieredWorld()
    world.append(log := world.open(), *numbered(0, 10))
    old = world.do(world.metadata.get(KEY))
    world.move(log)
    new = world.do(world.metadata.get(KEY))
    assert old is not None and new is not None
    kept = segments(world)
    world.do(world.metadata.put(KEY, old.value))
    stray_object(world)
    policies = namespace_policies_key("public/default")
    world.do(world.metadata.put(policies, policy("bucket/first")))
    stray = stray_in(world)
    world.do(stray.collect())
    world.clock.advance(GRACE_SECONDS - 1)
    world.do(stray.collect())
    world.do(world.metadata.put(KEY, new.value))
    rounds(world, stray)
    assert segments(world) == kept and stray.deleted == 1


def test_objects_of_other_directories_stay() -> None:
    world = with_objects()
    world.prefix = "another"
    kept = segments(world)
    stray_object(world)
    world.clock.advance(GRACE_SECONDS)
    rounds(world, stray_in(world))
    assert segments(world) == kept


def test_other_objects_with_the_prefix_stay() -> None:
    world = with_objects()
    world.objects.put("data/of-somebody", b"x")
    world.clock.advance(GRACE_SECONDS)
    rounds(world, stray_in(world))
    assert "data/of-somebody" in segments(world)


def test_objects_that_are_to_be_deleted_stay_until_their_log_deletes_them() -> None:
    world = with_objects()
    log = world.open()
    world.do(log.trim(9))
    assert log.record.copy_trash
    kept = segments(world)
    world.clock.advance(GRACE_SECONDS)
    rounds(world, stray_in(world))
    assert segments(world) == kept


@pytest.mark.parametrize("value", [b"{", b'{"version": 99}'])
def test_nothing_is_deleted_while_a_record_cannot_be_read(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world = with_objects()
    name = stray_object(world)
    damaged = f"{TOPICS}public/default/persistent/damaged"
    world.do(world.metadata.put(damaged, value))
    stray = stray_in(world)
    rounds(world, stray)
    assert name in segments(world)
    assert "persistent://public/default/damaged cannot be read" in caplog.text
    world.do(world.metadata.delete(damaged))
    rounds(world, stray)
    assert name not in segments(world)


class Between(MemoryMetadata):
    """Metadata in which something happens after all records have been read for the first time."""

    def __init__(self, world: TieredWorld, act: Callable[[], Awaitable[object]]) -> None:
        self.world = world
        self.act: Callable[[], Awaitable[object]] | None = act

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        page = await self.world.metadata.read_under(prefix, after, limit)
        if prefix == TOPICS and not page and self.act is not None:
            act, self.act = self.act, None
            await act()
        return page


def test_a_segment_offloaded_while_the_records_are_read_stays() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 7))
    first, second = (segment.id for segment in log.segments[:2])
    world.do(log.offloading.copy(first, PLACE))
    metadata = Between(world, lambda: log.offloading.copy(second, PLACE))
    stray = stray_in(world, 0, metadata)
    rounds(world, stray)
    assert len(segments(world)) == 2 and stray.deleted == 0
    assert {name for _, name in world.listed()} == set(segments(world))


def test_a_damaged_record_found_after_the_listing_ends_the_round() -> None:
    world = with_objects()
    name = stray_object(world)
    damaged = f"{TOPICS}public/default/persistent/damaged"
    metadata = Between(world, lambda: world.metadata.put(damaged, b"{"))
    rounds(world, stray_in(world, 0, metadata))
    assert name in segments(world)


def test_an_upload_that_takes_place_after_its_topic_was_deleted_leaves_nothing() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 4))
    world.objects.fault = lambda operation, name: Fault.LATE if operation == "upload" else None
    with pytest.raises(Unavailable):
        world.do(log.offloading.copy(log.segments[0].id, PLACE))
    world.mend()
    world.do(log.delete())
    assert not segments(world)
    world.objects.land()
    assert len(segments(world)) == 1
    settings = Settings(magnetar_offload_orphan_minutes=0, managed_ledger_offload_driver=None)
    world.do(world.metadata.put(namespace_policies_key("public/default"), policy("bucket/first")))
    rounds(world, stray_by(settings, world))
    assert not segments(world), "the place is known from the policies alone"


def policy(bucket: str) -> bytes:
    members = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": bucket}
    return json.dumps({"offload": members}).encode()


def test_places_of_topics_are_looked_at() -> None:
    world = TieredWorld()
    topic = TopicName.parse("persistent://public/default/t")
    world.do(world.metadata.put(namespace_policies_key("public/default"), policy("bucket/first")))
    members = {"managedLedgerOffloadBucket": "bucket/second"}
    value = json.dumps({"offload": members}).encode()
    world.do(world.metadata.put(topic_policies_key(topic), value))
    names = [stray_object(world), stray_object(world, OTHER)]
    stray = stray_in(world, 0)
    rounds(world, stray)
    assert stray.deleted == len(names)


@pytest.mark.parametrize("operation", ["replace", "list", "delete"])
def test_a_place_that_is_away_does_not_prevent_the_rest(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = with_objects()
    log = world.open()
    world.append(log, *numbered(10, 13))
    world.do(log.offloading.copy(log.segments[3].id, OTHER))
    stray_object(world)
    second = stray_object(world, OTHER)
    world.objects.fault = lambda what, name: Fault.LOST if what == operation else None
    stray = stray_in(world, 0)
    rounds(world, stray)
    assert second not in segments(world, OTHER)
    assert f"deletion of stray objects in {PLACE} failed and will be retried" in caplog.text
    world.objects.fault = None
    rounds(world, stray)
    assert stray.deleted == 2


def test_a_store_that_does_not_list_what_was_just_written_is_not_believed() -> None:
    world = with_objects()
    name = stray_object(world)
    world.objects.fault = lambda what, _: Fault.LATE if what == "replace" else None
    rounds(world, stray_in(world, 0))
    assert name in segments(world)


def test_many_objects_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_objects, "PART", 2)
    world = with_objects()
    kept = segments(world)
    for segment in range(20, 27):
        stray_object(world, segment=segment)
    stray = stray_in(world, 0)
    rounds(world, stray)
    assert segments(world) == kept and stray.deleted == 7


def test_without_places_no_store_is_used() -> None:
    world = TieredWorld()
    world.open()
    rounds(world, stray_in(world))
    assert not world.objects.log and not world.places[OTHER].log


def rounds_done(world: TieredWorld, minutes: int) -> tuple[list[float], PeriodicJobs]:
    """Register the job; return the uptimes of its rounds, as they come."""
    stray, rounds = stray_in(world, minutes), list[float]()
    tasks = ManualTasks(world.clock)
    runtime = NamesRuntime(GuardedMetadata(world.metadata, None), world.clock, tasks)
    jobs = PeriodicJobs(runtime)

    async def collect() -> None:
        rounds.append(world.clock.uptime() - start)

    start = world.clock.uptime()
    stray.collect = collect  # type: ignore[method-assign]
    stray.register(jobs)
    jobs.start()
    return rounds, jobs


def test_the_rounds_are_an_hour_after_the_start_and_daily() -> None:
    world = TieredWorld()
    rounds, _ = rounds_done(world, MINUTES)
    for _ in range(60):
        world.clock.advance(LOOK_SECONDS)
    assert rounds == [LOOK_SECONDS + n * INTERVAL_SECONDS for n in range(3)]


def test_the_job_can_be_switched_off() -> None:
    world = TieredWorld()
    rounds, jobs = rounds_done(world, -1)
    world.clock.advance(LOOK_SECONDS)
    assert not rounds
    with pytest.raises(KeyError):
        world.do(jobs.run(stray_objects.COLLECTION))
