"""The seven rules of `magnetar_storage.interfaces`, for every driver of segments."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY
from fakes.memory_store import MemoryStore
from fakes.origins import MESSAGES
from fakes.session_stores import SessionWorld
from fakes.worker_stores import WorkerStores
from fakes.world import ManualClock, QueuedWorkers, run, start
from magnetar_storage.errors import Fenced, NoSegment, StorageError
from magnetar_storage.interfaces import (
    DamagedEntries,
    Replaced,
    SegmentOrigin,
    SegmentStore,
    SegmentWriter,
)
from magnetar_storage.local import directories
from magnetar_storage.local.store import LocalStore
from magnetar_storage.multi_store.opening import open_store

T = TypeVar("T")


@dataclass
class Driven:
    """A store under test, and the functions that advance its world."""

    store: SegmentStore
    clock: ManualClock
    idle: Callable[[], bool]
    checkpoint: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Brings the files up to date, if the store has files."""

    def settle(self) -> None:
        """Let all operations in progress complete."""
        self.clock.pump()
        while self.idle():
            self.clock.pump()


def memory() -> Driven:
    clock = ManualClock()
    return Driven(MemoryStore(clock), clock, lambda: False)


def local() -> Driven:
    clock = ManualClock()
    workers = QueuedWorkers(clock)
    store = run(LocalStore.open(FaultyDisk(), workers, clock, TINY), clock, workers.step)
    return Driven(store, clock, workers.step, store.checkpoint)


def joined() -> Driven:
    """Create a store of one process that has several directories open."""
    clock = ManualClock()
    workers, disk = QueuedWorkers(clock), FaultyDisk()
    directories.prepare(disk, 3)
    store = run(open_store(disk, workers, clock, TINY), clock, workers.step)
    return Driven(store, clock, workers.step, store.directories[0].checkpoint)


def session() -> Driven:
    clock = ManualClock()
    world = SessionWorld(clock, seed=1)
    one = world.start()

    async def checkpoint() -> None:
        await one.store.settle()

    return Driven(one.store, clock, world.step, checkpoint)


class Moved:
    """A store in which one worker creates every segment, and another one does everything else."""

    def __init__(self, created_by: SegmentStore, asked: SegmentStore) -> None:
        self.create, self.segments = created_by.create, created_by.segments
        self.recover, self.reader = asked.recover, asked.reader
        self.delete, self.origin = asked.delete, asked.origin
        self.close = asked.close
        # Called in the process that has found the damage.
        self.set_aside = created_by.set_aside
        self.delete_set_aside = created_by.delete_set_aside
        self.closed = created_by.closed
        self.keep_damaged = asked.keep_damaged
        self.trouble, self.is_failing = asked.trouble, asked.is_failing


def moved() -> Driven:
    stores = WorkerStores(FaultyDisk(), 2, workers=QueuedWorkers)
    stores.start()
    clock = ManualClock()
    moving = Moved(stores.stores[1], stores.stores[0])
    return Driven(moving, clock, stores.step, stores.stores[1].directories[1].checkpoint)


GROWING: dict[str, Callable[[], Driven]] = {
    "memory": memory,
    "local": local,
    "joined": joined,
    "session": session,
}
"""Stores whose segments may be read while they are appended to."""
DRIVERS = GROWING | {"moved": moved}


@pytest.fixture(params=DRIVERS)
def driven(request: pytest.FixtureRequest) -> Driven:
    return DRIVERS[request.param]()


@pytest.fixture(params=GROWING)
def growing(request: pytest.FixtureRequest) -> Driven:
    return GROWING[request.param]()


@dataclass
class Two:
    """The stores of two living processes, over the same segments."""

    one: SegmentStore
    other: SegmentStore
    end_other: Callable[[], SegmentStore]
    """Kills the other process; returns the store of the process that has its orphans then."""
    do: Callable[[Coroutine[Any, Any, Any]], Any]
    settle: Callable[[], None]

    def orphans(self, store: SegmentStore) -> list[int]:
        """Return the segments that a process may treat as orphans."""

        async def listed() -> list[int]:
            return [segment async for segment in store.segments()]

        found: list[int] = self.do(listed())
        return found


def two_memories() -> Two:
    clock = ManualClock()
    one = MemoryStore(clock)
    other = MemoryStore(clock, one)

    def end() -> MemoryStore:
        other.end()
        return one

    return Two(one, other, end, lambda work: run(work, clock), clock.pump)


def two_workers() -> Two:
    stores = WorkerStores(FaultyDisk(), 2)
    stores.start()

    def end() -> SegmentStore:
        stores.kill(1)
        stores.open(1)
        stores.align()
        return stores.stores[1]

    return Two(stores.stores[0], stores.stores[1], end, stores.do, stores.pump)


def two_sessions() -> Two:
    clock = ManualClock()
    world = SessionWorld(clock, seed=1)
    one, other = world.start(), world.start()

    def do(work: Coroutine[Any, Any, T]) -> T:
        return run(work, clock, world.step)

    def end() -> SegmentStore:
        other.kill()
        do(one.store.end_session(other.store.session))
        return one.store

    return Two(one.store, other.store, end, do, world.settle)


SHARED: dict[str, Callable[[], Two]] = {
    "memory": two_memories,
    "workers": two_workers,
    "sessions": two_sessions,
}
"""Stores whose segments several processes reach."""


@pytest.fixture(params=SHARED)
def two(request: pytest.FixtureRequest) -> Two:
    return SHARED[request.param]()


class Outcomes(list[BaseException | None]):
    """The outcomes that an append's callback received."""

    def __call__(self, error: BaseException | None) -> None:
        self.append(error)


def made(driven: Driven) -> SegmentWriter:
    return run(driven.store.create(MESSAGES), driven.clock, driven.idle)


def all_of(driven: Driven, segment: int) -> list[bytes]:
    reader = run(driven.store.reader(segment), driven.clock, driven.idle)
    found: list[bytes] = []
    while part := run(reader.read(len(found), 3, 1000), driven.clock, driven.idle).payloads:
        found.extend(part)
    reader.close()
    return found


def test_1_what_was_reported_durable_is_recovered(driven: Driven) -> None:
    writer, outcome = made(driven), Outcomes()
    assert writer.confirmed == -1
    assert writer.append([b"a", b"bb"], [1, 3], outcome) == 0
    assert writer.append([b""], [1], outcome) == 2
    driven.settle()
    assert outcome == [None, None]
    assert writer.confirmed == 2
    sealed = run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    assert sealed == (3, 5, 3)
    assert all_of(driven, writer.segment) == [b"a", b"bb", b""]


def test_the_origin_of_a_segment_is_known(driven: Driven) -> None:
    origin = replace(
        MESSAGES, epoch=3, created_ms=5, replaces=(Replaced(1, 0, 10, 4, 12, 2, 3),), first_offset=4
    )
    writer = run(driven.store.create(origin), driven.clock, driven.idle)
    writer.begin(9, 20)
    writer.append([b"a"], [1], Outcomes())
    driven.settle()

    def found() -> SegmentOrigin | None:
        return run(driven.store.origin(writer.segment), driven.clock, driven.idle)

    assert found() == replace(origin, first_offset=9, first_messages=20)
    run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    assert found() == replace(origin, first_offset=9, first_messages=20)
    run(driven.store.delete(writer.segment), driven.clock, driven.idle)
    with pytest.raises(NoSegment):
        found()


def test_2_after_recover_nothing_more_is_reported_durable(driven: Driven) -> None:
    writer, pending, later = made(driven), Outcomes(), Outcomes()
    writer.append([b"pending"], [1], pending)
    sealed = run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    at_return = list(pending)
    writer.append([b"late"], [1], later)
    driven.settle()
    assert pending == at_return
    assert sealed.entries == at_return.count(None)
    assert len(later) == 1 and isinstance(later[0], Fenced)
    assert len(all_of(driven, writer.segment)) == sealed.entries


def test_3_concurrent_recoveries_agree(driven: Driven) -> None:
    writer = made(driven)
    writer.append([b"a", b"b"], [1, 1], Outcomes())
    first = start(driven.store.recover(writer.segment))
    writer.append([b"c"], [1], Outcomes())
    second = start(driven.store.recover(writer.segment))
    driven.settle()
    assert first.result() == second.result()
    again = run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    assert again == first.result()


def test_4_what_was_not_reported_survives_without_gaps(driven: Driven) -> None:
    writer = made(driven)
    for number in range(5):
        writer.append([b"%d" % number], [1], Outcomes())
    sealed = run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    assert all_of(driven, writer.segment) == [b"%d" % n for n in range(sealed.entries)]


def test_5_a_writer_that_may_not_append_stays_that_way(driven: Driven) -> None:
    writer, outcome = made(driven), Outcomes()
    run(writer.seal(), driven.clock, driven.idle)
    for _ in range(2):
        writer.append([b"x"], [1], outcome)
        driven.settle()
    assert len(outcome) == 2 and all(isinstance(error, StorageError) for error in outcome)
    assert all_of(driven, writer.segment) == []


def test_6_missing_is_its_own_answer(driven: Driven) -> None:
    writer, outcome = made(driven), Outcomes()
    run(driven.store.delete(writer.segment), driven.clock, driven.idle)
    run(driven.store.delete(writer.segment), driven.clock, driven.idle)
    for missing in (writer.segment, writer.segment + 100):
        with pytest.raises(NoSegment):
            run(driven.store.recover(missing), driven.clock, driven.idle)
        with pytest.raises(NoSegment):
            run(driven.store.reader(missing), driven.clock, driven.idle)
    writer.append([b"x"], [1], outcome)
    driven.settle()
    assert len(outcome) == 1 and isinstance(outcome[0], NoSegment)


def test_7_recover_settles_a_seal(driven: Driven) -> None:
    writer, outcome = made(driven), Outcomes()
    writer.append([b"a", b"b"], [1, 2], outcome)
    sealing = start(writer.seal())
    recovered = run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    driven.settle()
    assert sealing.result() == recovered == (2, 3, 2)
    assert outcome == [None]


def test_ids_grow_and_segments_are_listed(driven: Driven) -> None:
    ids = [made(driven).segment for _ in range(4)]
    assert ids == sorted(set(ids))
    run(driven.store.delete(ids[1]), driven.clock, driven.idle)

    async def listed() -> list[int]:
        return [segment async for segment in driven.store.segments()]

    assert run(listed(), driven.clock, driven.idle) == [ids[0], *ids[2:]]


def test_reads_keep_within_their_limits(driven: Driven) -> None:
    writer = made(driven)
    writer.append([b"x" * 10 for _ in range(10)], list(range(1, 11)), Outcomes())
    for _ in range(10):
        writer.append([b"y" * 10], [2], Outcomes())
        driven.settle()
    reader = run(driven.store.reader(writer.segment), driven.clock, driven.idle)

    def read(first: int, entries: int, size: int) -> tuple[int, list[bytes], list[int]]:
        found = run(reader.read(first, entries, size), driven.clock, driven.idle)
        return found.first, found.payloads, list(found.counts)

    assert read(3, 2, 1000) == (3, [b"x" * 10] * 2, [4, 5])
    assert read(3, 100, 25) == (3, [b"x" * 10] * 2, [4, 5])
    assert read(9, 1, 1) == (9, [b"x" * 10], [10])
    assert read(19, 5, 0) == (19, [b"y" * 10], [2])
    assert read(20, 5, 100) == (20, [], [])


def test_the_messages_of_entries_are_counted(driven: Driven) -> None:
    writer = made(driven)
    counts = [1, 3, 0, 7, 2]
    writer.append([b"a", b"b", b"c"], counts[:3], Outcomes())
    driven.settle()

    def check() -> None:
        reader = run(driven.store.reader(writer.segment), driven.clock, driven.idle)
        for entry in range(len(counts) + 1):
            counting = start(reader.messages_before(entry))  # may wait
            driven.settle()
            assert counting.result() == sum(counts[:entry])
        known = [reader.messages_in(entry) for entry in range(len(counts))]
        assert all(number in (None, count) for number, count in zip(known, counts, strict=True))
        reader.close()

    writer.append([b"d", b"e"], counts[3:], Outcomes())
    driven.settle()
    check()
    run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    check()
    if driven.checkpoint is not None:
        run(driven.checkpoint(), driven.clock, driven.idle)
        check()


def test_a_reader_sees_no_entry_before_it_is_durable(growing: Driven) -> None:
    writer = made(growing)
    reader = run(growing.store.reader(writer.segment), growing.clock, growing.idle)
    outcome = Outcomes()
    writer.append([b"a"], [1], outcome)
    before = start(reader.read(0, 1, 1))
    growing.settle()
    assert before.result().payloads in ([], [b"a"])
    assert outcome == [None]
    assert run(reader.read(0, 1, 1), growing.clock, growing.idle).payloads == [b"a"]


def test_what_was_set_aside_is_kept_for_a_time_and_comes_back_when_asked_for(
    driven: Driven,
) -> None:
    def do(work: Coroutine[Any, Any, T]) -> T:
        return run(work, driven.clock, driven.idle)

    async def listed() -> list[int]:
        return [segment async for segment in driven.store.segments()]

    first, second = made(driven), made(driven)
    for writer in (first, second):
        writer.append([b"a", b"bb"], [1, 3], Outcomes())
    driven.settle()
    aside = [first.segment, second.segment]
    assert do(driven.store.set_aside([*aside, 4711], "a test")) == dict.fromkeys(aside, (2, 4, 3))
    assert do(listed()) == []
    assert list(do(driven.store.delete_set_aside(0))) == []
    assert do(driven.store.recover(first.segment)) == (2, 4, 3)
    assert all_of(driven, first.segment) == [b"a", b"bb"]
    assert do(listed()) == [first.segment]
    assert list(do(driven.store.delete_set_aside(1 << 60))) == [second.segment]
    with pytest.raises(NoSegment):
        do(driven.store.recover(second.segment))
    assert all_of(driven, first.segment) == [b"a", b"bb"]


def test_the_bytes_of_entries_are_had_without_a_check(driven: Driven) -> None:
    writer = made(driven)
    for payload in (b"first", b"second", b"third"):
        writer.append([payload], [1], Outcomes())
        driven.settle()
    run(driven.store.recover(writer.segment), driven.clock, driven.idle)
    assert all_of(driven, writer.segment) == [b"first", b"second", b"third"]
    if driven.checkpoint is not None:
        run(driven.checkpoint(), driven.clock, driven.idle)
    reader = run(driven.store.reader(writer.segment), driven.clock, driven.idle)
    data = run(reader.stored_bytes(1, 2), driven.clock, driven.idle)
    assert b"second" in data and b"first" not in data and b"third" not in data
    whole = run(reader.stored_bytes(0, 3), driven.clock, driven.idle)
    assert whole.index(b"first") < whole.index(b"second") < whole.index(b"third")


def test_closed_segments_are_those_that_do_not_change_any_more(driven: Driven) -> None:
    closed, growing = made(driven), made(driven)
    for writer in (closed, growing):
        writer.append([b"entry"], [1], Outcomes())
        driven.settle()
    run(driven.store.recover(closed.segment), driven.clock, driven.idle)
    if driven.checkpoint is not None:
        run(driven.checkpoint(), driven.clock, driven.idle)
    assert closed.segment in driven.store.closed()
    assert growing.segment not in driven.store.closed()


def test_damaged_entries_can_be_kept(driven: Driven) -> None:
    entries = [DamagedEntries(1, 0, 2, "rot", b"bytes", "/topics/x")]
    run(driven.store.keep_damaged(entries, "a test"), driven.clock, driven.idle)
    assert run(driven.store.delete_set_aside(0), driven.clock, driven.idle) in ([], set())


def test_segments_of_a_living_process_are_no_orphans_of_another(two: Two) -> None:
    """It has created them and is about to list them."""
    own = two.do(two.one.create(MESSAGES))
    empty, used, outcome = (
        two.do(two.other.create(MESSAGES)),
        two.do(two.other.create(MESSAGES)),
        Outcomes(),
    )
    used.append([b"a"], [1], outcome)
    two.settle()
    unlisted = [empty.segment, used.segment]
    assert two.orphans(two.one) == [own.segment]
    assert two.orphans(two.other) == unlisted
    assert two.do(two.one.set_aside(unlisted, "a test")) == {}
    for writer in (empty, used):
        writer.append([b"b"], [1], outcome)
    two.settle()
    assert outcome == [None] * 3
    # Once it has ended they are.
    heir = two.end_other()
    assert set(unlisted) <= set(two.orphans(heir))
    moved = two.do(heir.set_aside(unlisted, "a test"))
    assert {segment: end.entries for segment, end in moved.items()} == dict(
        zip(unlisted, (1, 2), strict=True)
    )
