"""Segments move to a store of objects, and no entry and no object is ever lost."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import KEY, numbered
from fakes.tiered import OTHER, PLACE, TieredWorld, copies_in
from fakes.world import ManualPromise, QueuedWorker, start
from magnetar_storage.errors import Corrupt, LogClosed, StorageError, Unavailable
from magnetar_storage.interfaces import SegmentCopy, SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.local.segment_writer import LocalReader
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.offset_set import OffsetSet


def filled(world: TieredWorld, entries: int = 10) -> Log:
    log = world.open()
    world.append(log, *numbered(0, entries))
    return log


def settled(log: Log) -> list[SegmentId]:
    return [segment.id for segment in log.segments if segment.entries is not None]


def test_moved_segments_are_read_from_the_objects() -> None:
    world = TieredWorld()
    log = filled(world)
    moved = settled(log)
    world.move(log)
    for segment in moved:
        assert file_name(segment) not in world.disk.names()
    assert len(world.objects.names()) == len(moved) == 3
    assert world.read_all(log) == numbered(0, 10)
    world.append(log, *numbered(10, 12))
    assert world.read_all(log) == numbered(0, 12)
    assert world.do(log.entries.messages_before(5)) == 5
    world.do(log.close())
    assert world.read_all(world.open()) == numbered(0, 12), "after the topic was loaded again"


def test_a_copied_segment_is_read_here_until_it_is_dropped() -> None:
    world = TieredWorld()
    log = filled(world)
    assert world.do(log.offloading.copy(settled(log)[0], PLACE))
    reads = world.objects.log.count
    before = sum(map(reads, set(world.objects.log)))
    assert world.read_all(log) == numbered(0, 10)
    assert sum(map(reads, set(world.objects.log))) == before
    world.do(log.offloading.drop(settled(log)))
    assert [segment.is_remote for segment in log.segments] == [True, False, False, False]
    assert world.read_all(log) == numbered(0, 10)


def test_a_complete_copy_is_not_made_again() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    names = world.objects.names()
    assert world.do(log.offloading.copy(settled(log)[0], OTHER))
    assert world.objects.names() == names and not world.places[OTHER].names()


def test_repeated_failures_do_not_lengthen_the_record() -> None:
    world = TieredWorld()
    log = filled(world)
    world.objects.fault = lambda operation, name: Fault.LOST
    for _ in range(20):
        with pytest.raises(Unavailable):
            world.do(log.offloading.copy(settled(log)[0], PLACE))
    record = world.record()
    assert record is not None and not record.copy_trash


def test_copies_can_be_read_first() -> None:
    world = TieredWorld()
    log = filled(world)
    assert world.do(log.offloading.copy(settled(log)[0], PLACE))
    log.entries.prefers_copies = True
    asked = len(world.objects.log)
    assert world.read_all(log) == numbered(0, 10)
    assert len(world.objects.log) > asked


def test_a_change_of_what_is_read_first_closes_the_other_readers() -> None:
    world = TieredWorld()
    log = filled(world)
    both, remote, local = settled(log)
    for segment in (both, remote):
        assert world.do(log.offloading.copy(segment, PLACE))
    world.do(log.offloading.drop([remote]))
    files, copies = log.entries._segments, log.entries._copies
    assert world.read_all(log) == numbered(0, 10)
    assert files.present(both) is not None and copies.present(remote) is not None
    log.entries.prefers_copies = True
    assert files.present(both) is None
    assert files.present(local) is not None and copies.present(remote) is not None
    assert world.read_all(log) == numbered(0, 10)
    assert copies.present(both) is not None
    log.entries.prefers_copies = True
    assert copies.present(both) is not None, "nothing has changed"
    log.entries.prefers_copies = False
    assert copies.present(both) is None
    assert files.present(local) is not None and copies.present(remote) is not None
    assert world.read_all(log) == numbered(0, 10)


def test_a_copy_that_is_made_again_is_read_under_its_new_name() -> None:
    world = TieredWorld()
    log = filled(world)
    log.entries.prefers_copies = True
    first = settled(log)[0]
    assert world.do(log.offloading.copy(first, PLACE))
    assert world.read_all(log) == numbered(0, 10)
    (gone,) = world.objects.names()
    world.objects.delete(gone)
    world.do(log.offloading.drop([first]))
    assert world.do(log.offloading.copy(first, PLACE))
    (name,) = world.objects.names()
    assert name != gone
    world.objects.log.clear()
    assert world.read_all(log) == numbered(0, 10)
    assert f"read {name}" in world.objects.log and f"read {gone}" not in world.objects.log


def test_the_open_segment_is_not_copied() -> None:
    world = TieredWorld()
    log = filled(world)
    assert not world.do(log.offloading.copy(log.segments[-1].id, PLACE))
    assert not world.do(log.offloading.copy(log.segments[-1].id + 1, PLACE))
    assert not world.stored()


def test_trimmed_segments_leave_no_object() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    assert world.do(log.trim(6)) == 2
    assert len(world.record().copy_trash) == 2  # type: ignore[union-attr]
    world.do(log.offloading.delete_unused())
    assert world.stored() == world.listed() and len(world.stored()) == 1
    assert world.read_all(log) == numbered(6, 10)


def test_a_deleted_log_leaves_no_object() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.do(log.trim(3))
    world.do(log.delete())
    assert not world.stored() and world.record() is None


def test_objects_of_the_directory_that_was_copied_stay() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.prefix = "copied"
    kept = world.objects.names()
    world.append(log, *numbered(10, 13))
    world.move(log)
    assert len(world.objects.names()) == 4
    world.do(log.trim(12))
    world.do(log.offloading.delete_unused())
    assert world.objects.names() == kept
    record = world.record()
    assert record is not None and not record.copy_trash


def test_a_log_is_deleted_although_its_place_is_away(caplog: pytest.LogCaptureFixture) -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.do(log.trim(3))
    stored = world.stored()
    world.objects.fault = lambda operation, name: Fault.BUSY
    world.do(log.delete())
    assert world.record() is None
    assert world.left() == stored == world.stored() and len(stored) == 3
    assert f"3 objects of {KEY}, which is deleted, cannot be deleted now" in caplog.text
    assert all(name in caplog.text for _, name in stored) and "503" in caplog.text


def test_a_deletion_waits_for_a_place_only_once() -> None:
    """Another place that answers is used; a name can be used again at once."""
    world = TieredWorld()
    log = filled(world)
    first, second, third = settled(log)
    for segment, place in ((first, PLACE), (second, OTHER), (third, PLACE)):
        assert world.do(log.offloading.copy(segment, place))
    world.objects.fault = lambda operation, name: Fault.LOST
    asked = len(world.objects.log)
    world.do(log.delete())
    assert len(world.objects.log) == asked + 1 and not world.places[OTHER].names()
    assert world.left() == world.stored() and len(world.stored()) == 2
    log = filled(world)
    assert world.read_all(log) == numbered(0, 10)


@pytest.mark.parametrize("lands", [False, True], ids=["refused", "landed"])
@pytest.mark.parametrize("at", range(5))
def test_a_deletion_that_a_crash_interrupts_loses_no_object(at: int, lands: bool) -> None:
    """Every object that exists is in the list or in the record, whichever write is the last."""
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.objects.fault = lambda operation, name: Fault.BUSY
    put = fail_write(world, at, lands)
    try:
        world.do(log.delete())
    except StorageError:
        assert at < 4
    else:
        assert at == 4, "the deletion has four writes"
    world.metadata.put = put  # type: ignore[method-assign]
    assert world.stored() <= world.left() | world.listed()
    world.do(world.store.close())
    world.start()
    world.do(Log.remove(KEY, world.engine))
    assert world.record() is None
    assert world.stored() == world.left() and len(world.stored()) == 3


def fail_write(world: TieredWorld, at: int, lands: bool) -> Callable[..., Any]:
    """Let one write of metadata fail, which takes place or not; return the method without that."""
    writes = count()
    put = world.metadata.put

    async def fail(*asked: object) -> int:
        is_meant = next(writes) == at
        version = await put(*asked) if lands or not is_meant else 0  # type: ignore[arg-type]
        if is_meant:
            raise Unavailable("metadata cannot be written")
        return version

    world.metadata.put = fail  # type: ignore[assignment]
    return put


def test_a_process_that_stops_leaves_the_deletion_to_the_next_one() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)

    def stop(operation: str, name: str) -> None:
        raise LogClosed("stopping")

    world.objects.fault = stop
    with pytest.raises(LogClosed, match="stopping"):
        world.do(log.delete())
    assert not world.left() and world.listed() == world.stored()


def test_opening_and_publishing_need_no_store_of_objects() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.do(log.close())
    world.objects.fault = lambda operation, name: Fault.LOST
    log = world.open()
    world.append(log, *numbered(10, 20))
    assert world.do(log.entries.read(9, 1, 1)).payloads == [b"9"]
    with pytest.raises(Unavailable):
        world.do(log.entries.read(0, 1, 1))
    assert world.do(log.trim(6)) == 2, "objects are deleted later"
    world.mend()
    assert world.read_all(log) == numbered(6, 20)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LANDED, Fault.LATE, Fault.EXPIRED])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_failed_upload_is_repeated(fault: Fault, restarts: bool) -> None:
    world = TieredWorld()
    log = filled(world)
    segment = settled(log)[0]
    world.objects.fault = lambda operation, name: fault if operation == "upload" else None
    with pytest.raises(StorageError):
        world.do(log.offloading.copy(segment, PLACE))
    world.do(log.offloading.drop([segment]))
    assert file_name(segment) in world.disk.names(), "an incomplete copy replaces nothing"
    world.mend()
    while world.objects.land():
        pass  # the upload that was late
    if restarts:
        world.do(log.close())
        log = world.open()
    assert world.do(log.offloading.copy(segment, PLACE))
    record = world.record()
    assert record is not None
    assert len(record.copy_trash) == restarts, "another process takes another name"
    world.do(log.offloading.delete_unused())
    assert world.stored() == world.listed() and len(world.stored()) == 1
    assert world.read_all(log) == numbered(0, 10)


def test_an_object_that_is_not_what_was_uploaded_is_no_copy() -> None:
    world = TieredWorld()
    log = filled(world)
    segment = settled(log)[0]

    def rot(operation: str, name: str) -> Fault | None:
        if operation == "read" and name in world.objects.names():
            data = bytearray(world.objects.content(name))
            data[len(data) // 2] ^= 1
            world.objects.put(name, bytes(data))
        return None

    world.objects.fault = rot
    with pytest.raises(Unavailable, match="is not what was uploaded: its CRC-32C is"):
        world.do(log.offloading.copy(segment, PLACE))
    assert not log.segments[0].is_copied
    world.do(log.offloading.drop([segment]))
    assert world.read_all(log) == numbered(0, 10)


def test_a_damaged_segment_is_not_copied() -> None:
    world = TieredWorld()
    log = filled(world)
    segment = settled(log)[0]
    world.do(world.store.finish(segment))
    index, _ = footer.load(world.disk, segment)
    world.disk.flip_bit(file_name(segment), index.offsets[1] - 1)
    with pytest.raises(Corrupt, match="the entries are not what was written"):
        world.do(log.offloading.copy(segment, PLACE))
    assert not world.stored()


def test_a_missing_object_is_no_damage() -> None:
    """The place may be a wrong one: nothing may be given up for that."""
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    for name in world.objects.names():
        world.objects.delete(name)
    with pytest.raises(Unavailable, match="is missing in s3://bucket/first: check"):
        world.do(log.entries.read(0, 1, 1))
    assert not log.engine.damage.of_segments(settled(log))


def test_a_log_that_is_closed_ends_its_upload() -> None:
    world = TieredWorld()
    log = filled(world)
    segment = settled(log)[0]

    def close_meanwhile(operation: str, name: str) -> Fault | None:
        if operation == "upload":
            log.fail(LogClosed("closed"))
        return None

    world.objects.fault = close_meanwhile
    with pytest.raises(LogClosed):
        world.do(log.offloading.copy(segment, PLACE))
    world.mend()
    world.do(log.close())
    log = world.open()
    world.move(log)
    world.do(log.offloading.delete_unused())
    assert world.stored() == world.listed()
    assert world.read_all(log) == numbered(0, 10)


def test_a_segment_trimmed_while_it_is_copied_leaves_no_object() -> None:
    world = TieredWorld()
    log = filled(world)
    segment = settled(log)[0]
    trimmed: list[ManualPromise] = []

    def trim_meanwhile(operation: str, name: str) -> Fault | None:
        if operation == "upload" and not trimmed:
            trimmed.append(start(log.trim(3)))
        return None

    world.objects.fault = trim_meanwhile
    assert not world.do(log.offloading.copy(segment, PLACE))
    world.clock.pump()
    assert trimmed[0].result() == 1
    world.do(log.offloading.delete_unused())
    assert not world.stored()
    assert world.read_all(log) == numbered(3, 10)


def test_a_segment_with_a_copy_is_not_rewritten() -> None:
    world = TieredWorld()
    log = filled(world, 12)
    segment = settled(log)[1]
    assert world.do(log.offloading.copy(segment, PLACE))
    needed = OffsetSet()
    freed = world.do(log.reclaim(lambda start, stop, limit: needed, 10))
    assert freed > 0
    assert next(one.id for one in log.segments if one.is_whole and one.entries) == segment
    assert [one.copy is not None for one in log.segments].count(True) == 1


@pytest.mark.parametrize("lands", [False, True], ids=["refused", "landed"])
@pytest.mark.parametrize("at", range(12))
def test_a_crash_at_any_write_of_metadata_loses_nothing(at: int, lands: bool) -> None:
    """The write fails, taking place or not, and the process starts again."""
    world = TieredWorld()
    log = filled(world)
    first, second, third = settled(log)
    writes = 0
    put = world.metadata.put

    async def fail(*asked: object) -> int:
        nonlocal writes
        writes += 1
        if writes - 1 != at:
            return await put(*asked)  # type: ignore[arg-type]
        if lands:
            await put(*asked)  # type: ignore[arg-type]
        raise Unavailable("metadata cannot be written")

    async def work() -> None:
        await log.offloading.copy(first, PLACE)
        await log.offloading.copy(second, PLACE)
        await log.offloading.drop([first, second])
        await log.trim(3)
        await log.offloading.delete_unused()
        await log.offloading.copy(third, OTHER)
        await log.offloading.drop([third])

    world.metadata.put = fail  # type: ignore[assignment]
    try:
        world.do(work())
    except StorageError:
        assert writes == at + 1
    else:
        assert writes <= at
    world.metadata.put = put  # type: ignore[method-assign]
    assert world.stored() <= world.listed(), "no object is unknown"
    world.do(world.store.close())
    world.start()
    log = world.open()
    assert world.read_all(log) == numbered(log.first_offset, 10)
    assert log.first_offset in (0, 3)
    world.do(log.offloading.delete_unused())
    complete = {(c.place, c.name) for c in copies_in(world.record()) if c.completed_ms}
    assert complete <= world.stored() <= world.listed(), "what is listed as complete is there"
    world.move(log)
    assert world.read_all(log) == numbered(log.first_offset, 10)


def test_a_record_with_copies_is_stored_and_read_back() -> None:
    copy = SegmentCopy("file:///objects", "data/1-x.seg", 300, 17, is_only=True)
    other = replace(copy, name="data/1-y.seg", completed_ms=0, size=0, is_only=False)
    segments = (Segment(1, 5, 3, 3, 30, 6, copy=copy), Segment(2, 7, copy=other), Segment(3, 8))
    record = LogRecord(epoch=2, segments=segments, copy_trash=(other,))
    value = record.encode()
    assert b'"version": 8' in value
    assert LogRecord.decode(KEY, value) == record
    assert record.listed == {2, 3}, "the store has nothing of a segment that is only copied"


@pytest.mark.parametrize(
    "copy",
    ['{"place": 1, "name": "n", "size": 1, "completed_ms": 1, "is_only": false}', "{}", "[]"],
)
def test_a_copy_that_is_none_is_corrupt(copy: str) -> None:
    value = f'{{"version": 8, "segments": [], "trash": [], "copy_trash": [{copy}]}}'
    with pytest.raises(StorageError, match="cannot be read"):
        LogRecord.decode(KEY, value.encode())


def test_counting_messages_needs_no_store_of_objects() -> None:
    world = TieredWorld()
    log = filled(world)
    world.move(log)
    world.objects.fault = lambda operation, name: Fault.LOST
    before = log.entries.messages_before
    counted = [world.do(before(offset, estimates=True)) for offset in range(11)]
    assert counted == list(range(11))
    with pytest.raises(Unavailable):
        world.do(before(4))
    world.mend()
    assert world.do(before(4)) == 4


def test_reading_in_the_middle_of_a_drop_finds_no_damage() -> None:
    """A reader of the store that is opened before the drop must not stay for the entries."""
    world = TieredWorld()
    log = filled(world)
    first = settled(log)[0]
    assert world.do(log.offloading.copy(first, PLACE))
    gate = world.clock.promise()
    opening = world.store.reader

    async def slowly(segment: SegmentId) -> LocalReader:
        reader = await opening(segment)
        await gate
        return reader

    world.store.reader = slowly  # type: ignore[method-assign]
    reading = start(log.entries.read(0, 3, 1 << 20))
    world.clock.pump()
    world.do(log.offloading.drop([first]))
    gate.set_result(None)
    world.clock.pump()
    assert reading.result().payloads == numbered(0, 3)
    world.store.reader = opening  # type: ignore[method-assign]
    assert world.read_all(log) == numbered(0, 10)
    assert not log.engine.damage.of_segments([first])


def test_a_log_that_is_only_in_objects_is_deleted_with_them() -> None:
    world = TieredWorld()
    log = filled(world, 9)
    world.do(log.close())
    log = world.do(Log.open(KEY, world.engine, create=False))  # type: ignore[assignment]
    world.move(log)
    assert not log.record.listed and len(world.stored()) == 3
    world.do(log.delete())
    assert not world.stored() and world.record() is None


def test_an_object_that_has_gone_replaces_no_segment() -> None:
    world = TieredWorld()
    log = filled(world)
    first, second, _ = settled(log)
    for segment in (first, second):
        assert world.do(log.offloading.copy(segment, PLACE))
    world.objects.delete(world.objects.names()[0])
    world.do(log.offloading.drop([first, second]))
    assert sum(one.is_remote for one in log.segments) == 1
    assert world.read_all(log) == numbered(0, 10)
    world.move(log)
    assert world.read_all(log) == numbered(0, 10)
    world.do(log.offloading.delete_unused())
    assert world.stored() == world.listed()


def test_a_place_that_is_away_keeps_no_objects_of_another_one() -> None:
    world = TieredWorld()
    log = filled(world)
    first, second, _ = settled(log)
    assert world.do(log.offloading.copy(first, PLACE))
    assert world.do(log.offloading.copy(second, OTHER))
    world.do(log.trim(6))
    world.objects.fault = lambda operation, name: Fault.LOST
    with pytest.raises(Unavailable):
        world.do(log.offloading.delete_unused())
    assert [place for place, _ in world.stored()] == [PLACE]
    assert world.stored() == world.listed()


def test_a_place_that_failed_is_left_alone_for_some_seconds() -> None:
    world = TieredWorld()
    log = filled(world)
    world.objects.fault = lambda operation, name: Fault.BUSY
    for segment in settled(log):
        with pytest.raises(Unavailable, match="503"):
            world.do(log.offloading.copy(segment, PLACE))
    assert len([line for line in world.objects.log if line.startswith("upload")]) == 1
    world.mend()
    assert world.do(log.offloading.copy(settled(log)[0], PLACE))


def test_a_log_that_is_closed_and_deleted_during_an_upload_leaves_no_object() -> None:
    world = TieredWorld()
    log = filled(world)
    uploads = QueuedWorker(world.clock)
    world.new_workers = lambda: [uploads]
    copying = start(log.offloading.copy(settled(log)[0], PLACE))
    world.clock.pump()
    assert len(uploads) == 1, "the upload has not begun"
    log.fail(LogClosed("closed"))
    world.do(log.close())
    removing = start(Log.remove(KEY, world.engine))
    world.clock.pump()
    while uploads.step():
        world.clock.pump()
    assert removing.done() and copying.done()
    assert not world.stored() and world.record() is None


def test_an_incomplete_copy_does_not_stop_rewriting() -> None:
    world = TieredWorld()
    log = filled(world, 12)
    first = settled(log)[0]
    world.objects.fault = lambda operation, name: Fault.LANDED
    with pytest.raises(Unavailable):
        world.do(log.offloading.copy(first, PLACE))
    world.mend()
    nothing = OffsetSet()
    assert world.do(log.reclaim(lambda start, stop, limit: nothing, 10)) > 0
    assert not any(one.copy for one in log.segments)
    world.do(log.offloading.delete_unused())
    assert not world.stored()


def test_a_segment_trimmed_before_its_upload_begins_is_no_failure() -> None:
    world = TieredWorld()
    log = filled(world)
    uploads = QueuedWorker(world.clock)
    world.new_workers = lambda: [uploads]
    copying = start(log.offloading.copy(settled(log)[0], PLACE))
    world.clock.pump()
    assert world.do(log.trim(3)) == 1
    while uploads.step():
        world.clock.pump()
    assert copying.result() is False
    deleting = start(log.offloading.delete_unused())
    world.clock.pump()
    while uploads.step():
        world.clock.pump()
    assert deleting.done() and not world.stored()


def test_reads_of_a_store_of_objects_have_a_budget_of_their_own() -> None:
    world = TieredWorld()
    log = filled(world)
    first, *_ = settled(log)
    assert world.do(log.offloading.copy(first, PLACE))
    reading, of_copies = world.engine.reading, world.engine.reading_copies
    assert reading is not of_copies
    budget_at = log.entries.budget_at
    assert [budget_at(offset) for offset in (-1, 0, 3, 9, 10)] == [reading] * 5
    world.do(log.offloading.drop([first]))
    assert [budget_at(offset) for offset in (0, 2, 3)] == [of_copies, of_copies, reading]
    log.entries.prefers_copies = True
    assert world.do(log.offloading.copy(settled(log)[1], PLACE))
    assert [budget_at(offset) for offset in (2, 3, 6)] == [of_copies, of_copies, reading]
