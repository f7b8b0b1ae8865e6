"""Logs over session stores: taken over after a death, and handed over by a running process."""

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest

from fakes.logs import BY_THREE, numbered
from fakes.runs import append
from fakes.session_stores import Process, SessionWorld
from fakes.world import ManualClock
from magnetar_storage.errors import Fenced, StorageError, Unavailable
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log

T = TypeVar("T")

KEY = "/topics/log"


class World:
    """Two processes, each with an engine."""

    def __init__(self) -> None:
        self.world = SessionWorld(ManualClock(), seed=1)
        self.one, self.other = self.world.start(), self.world.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.world.do(work)

    def open(self, process: Process) -> Log:
        engine = Engine(
            process.store,
            cast(MetadataStore, process.metadata),
            EntryCache(0),
            process.clock,
            process.tasks,
            BY_THREE,
        )
        log = self.do(Log.open(KEY, engine, create=True))
        assert log is not None
        self.do(log.rollover.start_writing())
        return log

    def append(self, log: Log, first: int, stop: int) -> list[BaseException | None]:
        outcomes: list[BaseException | None] = []
        for payload in numbered(first, stop):
            append(log, [payload], [2], outcomes.append)
            self.world.settle()
        return outcomes

    def entries(self, log: Log) -> list[bytes]:
        offset, found = log.first_offset, list[bytes]()
        while part := self.do(log.entries.read(offset, 2, 1 << 20)).payloads:
            found += part
            offset += len(part)
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_a_log_is_taken_over_from_a_process_that_died(world: World) -> None:
    log = world.open(world.one)
    assert world.append(log, 0, 10) == [None] * 10
    assert len(log.record.segments) > 2
    world.one.kill()
    with pytest.raises(Unavailable, match="was not ended"):
        world.open(world.other)
    world.do(world.other.store.end_session(world.one.store.session))
    log = world.open(world.other)
    assert (log.end, log.messages_end) == (10, 20)
    assert world.entries(log) == numbered(0, 10)
    assert world.append(log, 10, 14) == [None] * 4
    assert world.entries(log) == numbered(0, 14)
    assert [segment.id for segment in log.record.segments] == sorted(
        {segment.id for segment in log.record.segments}
    )


def test_a_log_is_handed_over_by_a_process_that_goes_on(world: World) -> None:
    log = world.open(world.one)
    world.append(log, 0, 5)
    world.do(log.close())
    world.do(world.one.store.settle())
    log = world.open(world.other)
    assert world.entries(log) == numbered(0, 5)
    assert world.append(log, 5, 8) == [None] * 3
    # And back, to the process whose segments are the oldest.
    world.do(log.close())
    world.do(world.other.store.settle())
    log = world.open(world.one)
    assert world.entries(log) == numbered(0, 8)


def test_a_process_that_was_ended_cannot_go_on(world: World) -> None:
    log = world.open(world.one)
    world.append(log, 0, 2)
    world.do(world.other.store.end_session(world.one.store.session))
    taken = world.open(world.other)
    outcomes = world.append(log, 2, 3)
    assert isinstance(outcomes[0], Fenced)
    assert log.failed is not None
    with pytest.raises(StorageError):
        world.open(world.one)
    assert world.entries(taken) == numbered(0, 2)


def test_segments_of_a_session_that_ended_are_deleted_with_the_log(world: World) -> None:
    world.append(world.open(world.one), 0, 10)
    world.one.kill()
    world.do(world.other.store.end_session(world.one.store.session))
    log = world.open(world.other)
    world.append(log, 10, 12)
    world.do(log.delete())
    world.do(world.other.store.close())
    names = world.world.objects.names()
    assert [name for name in names if not name.startswith("wal/00000001/")] == []
