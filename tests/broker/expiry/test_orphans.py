"""Segments that no log lists: empty ones are deleted, all others stay."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore
from fakes.origins import MESSAGES
from fakes.topics import TopicWorld, entry
from fakes.worker_stores import WorkerStores
from fakes.world import ManualTasks
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.metadata_keys import TOPICS, topic_key
from magnetar_broker.expiry.orphans import RECORDS, Quarantine, present_segments, sweep
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import NoSegment, ProcessUnavailable
from magnetar_storage.interfaces import PAGE
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord

T = TypeVar("T")


def test_unlisted_segments_are_put_into_quarantine() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    listed = world.do(present_segments(world.engine))
    empty = world.do(world.store.create(MESSAGES))
    used = world.do(world.store.create(MESSAGES))
    used.append([b"x"], [1], lambda error: None)
    world.clock.pump()
    candidates = world.do(present_segments(world.engine))
    assert candidates == listed | {empty.segment, used.segment}
    moved = world.do(sweep(world.engine, candidates))
    assert {number: end.entries for number, end in moved.items()} == {
        empty.segment: 0,
        used.segment: 1,
    }
    assert world.do(present_segments(world.engine)) == listed
    # Nothing is deleted: a segment can still be recovered.
    assert world.do(world.store.recover(used.segment)).entries == 1


def left_over_cursors(world: TopicWorld) -> int:
    """Create a segment as left by a crash between rewriting cursors and listing the new segment."""
    listed = world.topic.log.record.cursor_segment
    assert listed is not None
    reader = world.do(world.store.reader(listed))
    payloads = world.do(reader.read(0, 100, 1 << 20)).payloads
    writer = world.do(world.store.create(MESSAGES))
    writer.append(payloads, [0] * len(payloads), lambda error: None)
    world.clock.pump()
    return writer.segment


def test_cursors_of_a_catalogue_that_was_lost_come_back_with_it() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    listed = world.do(present_segments(world.engine))
    stored = world.do(world.metadata.get(topic_key(world.name)))
    assert stored is not None
    world.do(world.topic.close())
    world.do(world.metadata.delete(topic_key(world.name)))
    moved = world.do(sweep(world.engine, world.do(present_segments(world.engine))))
    assert moved.keys() >= listed
    assert world.do(present_segments(world.engine)) == set()
    world.do(world.metadata.put(topic_key(world.name), stored.value))
    world.reload()
    assert world.topic.log.end == 1
    assert world.subscription().name == "sub"


def test_left_over_cursors_are_put_into_quarantine() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    listed = world.do(present_segments(world.engine))
    left_over = left_over_cursors(world)
    candidates = world.do(present_segments(world.engine))
    assert candidates == listed | {left_over}
    assert world.do(sweep(world.engine, candidates)).keys() == {left_over}
    assert world.do(present_segments(world.engine)) == listed


def quarantine_of(world: TopicWorld, minutes: int) -> Quarantine:
    world.do(world.store.create(MESSAGES))
    quarantine = Quarantine(world.engine, minutes, ClockWatch(world.clock))
    world.do(quarantine.fill(world.do(present_segments(world.engine)), lambda: False))
    return quarantine


def test_the_quarantine_is_emptied_after_its_time() -> None:
    world = TopicWorld()
    quarantine = quarantine_of(world, 2)
    world.clock.advance(120)
    world.do(quarantine.expire())
    assert world.do(world.store.recover(1)).entries == 0
    world = TopicWorld()
    quarantine = quarantine_of(world, 2)
    world.clock.advance(120.001)
    world.do(quarantine.expire())
    with pytest.raises(NoSegment):
        world.do(world.store.recover(1))


def test_the_quarantine_may_be_kept_for_ever() -> None:
    world = TopicWorld()
    quarantine = quarantine_of(world, -1)
    world.clock.set_forward(1 << 50)
    world.do(quarantine.expire())
    assert world.do(world.store.recover(1)).entries == 0


def test_segments_in_use_by_a_live_topic_stay() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    assert world.do(sweep(world.engine, world.do(present_segments(world.engine)))) == {}
    world.publish(entry(2))
    assert world.topic.log.end == 2


UNUSED = LogRecord(created_ms=1).encode()


def unread_record(world: TopicWorld) -> None:
    """Store a record that cannot be decoded, behind that of the topic."""
    world.do(world.metadata.put(f"{topic_key(world.name)}-later", b"no record"))


def test_records_are_read_until_every_segment_is_known_to_be_listed() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    candidates = world.do(present_segments(world.engine))
    for number in range(RECORDS):
        world.do(world.metadata.put(f"{topic_key(world.name)}-{number:06}", UNUSED))
    unread_record(world)
    assert world.do(sweep(world.engine, candidates)) == {}


def test_without_segments_no_record_is_read() -> None:
    world = TopicWorld()
    unread_record(world)
    assert world.do(sweep(world.engine, set())) == {}


def test_records_of_many_pages_are_read() -> None:
    world = TopicWorld()
    world.publish(entry(1))
    candidates = world.do(present_segments(world.engine))
    tenant, rest = "aaa", topic_key(world.name).split("/", 3)[3]
    for number in range(RECORDS + 1):
        world.do(world.metadata.put(f"{TOPICS}{tenant}/{rest}-{number:06}", UNUSED))
    assert world.do(sweep(world.engine, candidates)) == {}
    assert world.do(present_segments(world.engine)) == candidates


def test_a_record_that_cannot_be_read_keeps_only_what_it_may_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The segments that name its log, and those that name none: these are empty."""
    world = TopicWorld()
    world.publish(entry(1))
    world.subscribe()
    kept = world.do(present_segments(world.engine))
    kept.add(world.do(world.store.create(MESSAGES)).segment)
    unlisted = world.do(world.store.create(MESSAGES))
    unlisted.append([b"x"], [1], lambda error: None)
    world.clock.pump()
    candidates = world.do(present_segments(world.engine))
    world.do(world.metadata.put(topic_key(world.name), b"no record"))
    world.do(Quarantine(world.engine, 1, ClockWatch(world.clock)).fill(candidates, lambda: False))
    assert world.do(present_segments(world.engine)) == kept
    assert f"segments {unlisted.segment}, which have messages" in caplog.text
    assert f"{world.name} cannot be read" in caplog.text


class UnreadNames(MemoryMetadata):
    """A metadata store that another process has, which ends."""

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> NoReturn:
        raise ProcessUnavailable("the link has ended")


@pytest.mark.parametrize("stopped", [False, True])
def test_trouble_is_logged_and_stops_nothing_unless_the_broker_stops(
    caplog: pytest.LogCaptureFixture, stopped: bool
) -> None:
    world = TopicWorld()
    engine = replace(world.engine, metadata=UnreadNames(world.clock))
    world.do(Quarantine(engine, 1, ClockWatch(world.clock)).fill({1}, lambda: stopped))
    assert ("the link has ended" in caplog.text) is not stopped


# Several processes ------------------------------------------------------------------------


def test_the_segment_that_another_broker_is_about_to_list_stays() -> None:
    """A broker that starts on a shared store sweeps only what ended processes have left."""
    serving = TopicWorld()
    starting = replace(serving.engine, store=MemoryStore(serving.clock, serving.store))
    about = serving.do(serving.store.create(MESSAGES))
    candidates = serving.do(present_segments(starting))
    assert serving.do(sweep(starting, candidates | {about.segment})) == {}
    outcome: list[BaseException | None] = []
    about.append([b"x"], [1], outcome.append)
    serving.clock.pump()
    assert candidates == set() and outcome == [None]
    serving.store.end()
    left = serving.do(present_segments(starting))
    assert serving.do(sweep(starting, left)).keys() == {about.segment}


# Several store directories ------------------------------------------------------------


class TwoWorkers:
    """A topic of worker 1, and cursors that no log lists in the directory of worker 0."""

    def __init__(self) -> None:
        self.workers = WorkerStores(FaultyDisk(), 2)
        self.workers.start()
        self.engines = [self.engine(worker) for worker in range(2)]
        log = self.do(Log.open(topic_key(TopicName.parse("t")), self.engines[1], create=True))
        assert log is not None
        cursors = self.do(CursorLog.open(log))
        self.do(cursors.create("s", -1, {}))
        assert log.record.cursor_segment is not None
        self.listed = log.record.cursor_segment
        self.left_over = self.do(self.copy_of(self.listed))

    def engine(self, worker: int) -> Engine:
        clock = self.workers.clocks[worker]
        if not worker:
            self.metadata = MemoryMetadata(clock)
        store, cache = self.workers.stores[worker], EntryCache(0)
        return Engine(store, self.metadata, cache, clock, ManualTasks(clock))

    async def copy_of(self, segment: int) -> int:
        reader = await self.engines[1].store.reader(segment)
        payloads = (await reader.read(0, 100, 1 << 20)).payloads
        writer = await self.engines[0].store.create(MESSAGES)
        writer.append(payloads, [0] * len(payloads), lambda error: None)
        await writer.seal()
        return writer.segment

    def sweep(self, worker: int) -> list[int]:
        candidates = self.do(present_segments(self.engines[worker]))
        return sorted(self.do(sweep(self.engines[worker], candidates)))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.workers.do(work)


def test_a_worker_sweeps_the_directories_that_it_has_open() -> None:
    two = TwoWorkers()
    assert two.sweep(1) == []
    assert two.do(present_segments(two.engines[0])) == {two.left_over}
    assert two.sweep(0) == [two.left_over]
    assert two.do(present_segments(two.engines[0])) == set()
    assert two.do(present_segments(two.engines[1])) == {two.listed}
