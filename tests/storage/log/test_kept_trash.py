"""Trash that an engine keeps: what a log has stopped listing stays for a time, across restarts."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.logs import KEY, numbered
from fakes.tiered import PLACE, TieredWorld
from magnetar_storage.errors import NoSegment, StorageError, Unavailable
from magnetar_storage.interfaces import SegmentCopy, SegmentId, SegmentKind
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord

HOUR_SECONDS = 3600
COPY = SegmentCopy(PLACE, "data/1-x.seg")


def keeping(world: TieredWorld, hours: int = 1) -> Log:
    """Open the log of an engine that keeps trash."""
    world.engine = replace(world.engine, keeps_trash_ms=hours * HOUR_SECONDS * 1000)
    return world.open()


def filled(world: TieredWorld) -> Log:
    log = keeping(world)
    world.append(log, *numbered(0, 10))
    return log


def restarted(world: TieredWorld, hours: int = 1) -> Log:
    world.do(world.store.close())
    world.start()
    return keeping(world, hours)


def here(world: TieredWorld, segment: SegmentId) -> bool:
    """Return whether the store has the segment."""
    try:
        world.do(world.store.reader(segment)).close()
    except NoSegment:
        return False
    return True


def times(world: TieredWorld) -> dict[str, int]:
    record = world.record()
    assert record is not None
    return record.unlisted_ms


async def empty(log: Log) -> None:
    """Delete what is due, as the rounds of a broker do."""
    await log.stored_record.empty_trash()
    await log.offloading.delete_unused()


def test_a_trimmed_segment_stays_for_as_long_as_the_engine_says() -> None:
    world = TieredWorld()
    log = filled(world)
    first, second = (segment.id for segment in log.segments[:2])
    world.do(log.trim(3))
    world.clock.advance(HOUR_SECONDS / 2)
    world.do(log.trim(6))
    assert log.first_offset == 6 and here(world, first) and here(world, second)
    world.clock.advance(HOUR_SECONDS / 2 - 1)
    world.do(empty(log))
    assert here(world, first)
    world.clock.advance(1)
    world.do(empty(log))
    assert not here(world, first) and here(world, second), "each has a time of its own"
    world.clock.advance(HOUR_SECONDS / 2)
    world.do(empty(log))
    assert not here(world, second)
    record = world.record()
    assert record is not None and not record.trash and not record.unlisted_ms
    assert b'"version": 5' in record.encode()


def test_the_time_is_that_of_the_unlisting_whatever_is_opened_in_between() -> None:
    world = TieredWorld()
    log = filled(world)
    doomed = log.segments[0].id
    world.do(log.trim(3))
    for _ in range(3):
        world.clock.advance(HOUR_SECONDS / 4)
        log = restarted(world)
        world.do(log.stored_record.change_properties(lambda old: old | {"a": "b"}))
        assert here(world, doomed)
    world.clock.advance(HOUR_SECONDS / 4)
    restarted(world)
    assert not here(world, doomed), "opening a log deletes what is due"


def test_copies_are_kept_like_segments() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    moved = [segment.id for segment in log.segments if segment.is_remote]
    assert len(moved) == 3 and all(here(world, one) for one in moved)
    world.clock.advance(HOUR_SECONDS)
    world.do(log.trim(6))
    world.do(empty(log))
    assert not any(here(world, one) for one in moved), "these were unlisted an hour before"
    assert len(world.stored()) == 3
    log = restarted(world)
    world.clock.advance(HOUR_SECONDS - 1)
    world.do(empty(log))
    assert len(world.stored()) == 3
    world.clock.advance(1)
    world.do(empty(log))
    assert world.stored() == world.listed() and len(world.stored()) == 1
    assert world.read_all(log) == numbered(6, 10)


def test_the_trash_of_an_engine_that_kept_none_is_kept_from_the_opening_on() -> None:
    world = TieredWorld()
    log = world.open()
    world.append(log, *numbered(0, 10))
    doomed = log.segments[0].id

    async def fail(_: SegmentId) -> None:
        raise Unavailable("not now")

    world.store.delete = fail  # type: ignore[assignment,method-assign]
    with pytest.raises(Unavailable):
        world.do(log.trim(3))
    assert not times(world)
    log = restarted(world)
    assert here(world, doomed) and list(times(world)) == [str(doomed)]
    world.clock.advance(HOUR_SECONDS)
    world.do(empty(log))
    assert not here(world, doomed)


def test_an_engine_that_keeps_none_deletes_what_another_one_kept() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.do(log.trim(3))
    log = restarted(world, hours=0)
    world.do(empty(log))
    record = world.record()
    assert record is not None and not record.trash and not record.copy_trash
    assert not record.unlisted_ms and b'"version": 8' in record.encode()
    assert world.stored() == world.listed() and len(world.stored()) == 2
    assert [here(world, segment.id) for segment in log.segments] == [False, False, True, True]


def test_a_log_that_is_deleted_keeps_nothing() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.do(log.trim(3))
    world.do(log.delete())
    assert world.record() is None and not world.stored()
    assert not [name for name in world.disk.names() if name.startswith("segments/")]


def test_a_segment_that_comes_into_use_gets_a_new_time_when_it_is_unlisted() -> None:
    """Compacted data and sparse segments are trash until a change lists them."""
    world = TieredWorld()
    log = filled(world)
    writer = world.do(log.stored_record.create_in_trash(log.origin_of(SegmentKind.CURSORS)))
    first = times(world)[str(writer.segment)]
    world.clock.advance(HOUR_SECONDS)

    def used(record: LogRecord) -> LogRecord:
        return replace(record, cursor_segment=writer.segment, trash=())

    world.do(log.stored_record.commit(used))
    log.stored_record.unfinished.clear()
    assert not times(world)
    other = world.do(log.stored_record.create_in_trash(log.origin_of(SegmentKind.CURSORS)))
    world.do(log.stored_record.replace_cursor_segment(other.segment))
    assert times(world)[str(writer.segment)] == first + HOUR_SECONDS * 1000
    assert str(writer.segment) in times(world) and world.do(world.store.recover(writer.segment))


class Killed(BaseException):
    """Raised in place of a step, by a process that ends there."""


class Steps:
    """Counts the steps that change something, and ends the process at one of them."""

    def __init__(self, at: int, lands: bool) -> None:
        self.at = at
        self.lands = lands
        self.made = 0

    def around(self, step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def made(*asked: Any) -> Any:
            self.made += 1
            if self.made > self.at + 1:
                raise Killed
            if self.made == self.at + 1:
                if self.lands:
                    await step(*asked)
                raise Killed
            return await step(*asked)

        return made


STEPS = 15
"""The steps that the work of the following test has."""


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("at", range(STEPS + 1))
def test_a_process_that_ends_between_two_steps_keeps_and_deletes_the_same(
    at: int, lands: bool
) -> None:
    world = TieredWorld()
    log = filled(world)
    moved = [segment.id for segment in log.segments if segment.entries is not None]
    steps = Steps(at, lands)
    put, delete, copies = world.metadata.put, world.store.delete, world.engine.copies
    delete_copy = copies.delete
    world.metadata.put = steps.around(put)  # type: ignore[assignment]
    world.store.delete = steps.around(delete)  # type: ignore[assignment,method-assign]
    copies.delete = steps.around(delete_copy)  # type: ignore[assignment,method-assign]
    unlisted_ms = world.clock.now_ms()

    async def work() -> None:
        for segment in moved:
            await log.offloading.copy(segment, PLACE)
        await log.offloading.drop(moved)
        await log.trim(6)
        await empty(log)
        world.clock.advance(HOUR_SECONDS)
        await empty(log)

    try:
        world.do(work())
    except (Killed, StorageError):
        assert at < STEPS
    else:
        assert at == steps.made == STEPS
    world.metadata.put = put  # type: ignore[method-assign]
    is_late = world.clock.now_ms() > unlisted_ms
    record = world.record()
    assert record is not None and record.has_times, "no crash leaves trash without a time"
    if not is_late:
        assert set(times(world).values()) <= {unlisted_ms}
        assert all(here(world, one) for one in moved), "nothing is deleted before its time"
        complete = [copy for copy in record.copy_trash if copy.completed_ms]
        assert {(one.place, one.name) for one in complete} <= world.stored()
    log = restarted(world)
    assert world.read_all(log) == numbered(log.first_offset, 10) and log.first_offset in (0, 6)
    world.clock.advance(HOUR_SECONDS)
    world.do(empty(log))
    record = world.record()
    assert record is not None and not record.trash and not record.copy_trash
    assert not record.unlisted_ms
    assert {one for one in moved if here(world, one)} == record.stored & set(moved)
    assert world.stored() <= world.listed()
    assert world.read_all(log) == numbered(log.first_offset, 10)


# The record -----------------------------------------------------------------------------


def test_a_record_with_times_is_of_a_version_of_its_own() -> None:
    record = LogRecord(trash=(3,), copy_trash=(COPY,)).with_times(70)
    assert record.unlisted_ms == {"3": 70, COPY.name: 70}
    later = replace(record, trash=(3, 4)).with_times(90)
    assert later.unlisted_ms == {"3": 70, "4": 90, COPY.name: 70}
    assert b'"version": 9' in later.encode()
    assert LogRecord.decode(KEY, later.encode()) == later
    used = replace(later, trash=(), copy_trash=()).with_times(99)
    assert used == LogRecord() and b"unlisted" not in used.encode()


def test_what_is_due_has_been_trash_for_long_enough() -> None:
    record = LogRecord(trash=(3, 4), copy_trash=(COPY,), unlisted_ms={"3": 5, COPY.name: 6})
    assert [record.is_due(3, until) for until in (4, 5, 6)] == [False, True, True]
    assert [record.is_due(COPY, until) for until in (5, 6)] == [False, True]
    assert not record.is_due(4, 1 << 60), "without a time it stays"
    assert not record.has_times and record.with_times(7).has_times


def test_a_record_of_version_8_loads() -> None:
    """Version 8 dates from before trash could have times."""
    value = (
        b'{"version": 8, "created_ms": 8, "epoch": 2, "first_offset": 0, "first_messages": 0, '
        b'"segments": [], "cursor_segment": null, "trash": [3], "properties": {}, "copy_trash": '
        b'[{"place": "s3://bucket", "name": "n", "size": 1, "completed_ms": 5, "is_only": true}]}'
    )
    copy = SegmentCopy("s3://bucket", "n", 1, 5, is_only=True)
    record = LogRecord(2, trash=(3,), copy_trash=(copy,), created_ms=8)
    assert LogRecord.decode(KEY, value) == record
    assert record.encode() == value


@pytest.mark.parametrize("times", ["[1]", '{"3": "x"}', '{"3": null}', "5"])
def test_times_that_are_none_are_corrupt(times: str) -> None:
    value = f'{{"version": 9, "segments": [], "trash": [3], "unlisted_ms": {times}}}'
    with pytest.raises(StorageError, match="cannot be read"):
        LogRecord.decode(KEY, value.encode())
