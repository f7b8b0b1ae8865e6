"""The commit rounds of the journal in which changes of cursors are written."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from fakes.attached_states import Numbers
from fakes.faulty_disk import FaultyDisk
from fakes.local_store import SMALL_JOURNAL
from fakes.logs import KEY
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import ManualClock, ManualTasks, QueuedWorkers, run
from magnetar_storage.cursors.cursor_log import GATHER_SECONDS, CursorLog
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log

T = TypeVar("T")


class World:
    """A log with a cursor, on a journal whose rounds end on the test's command."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.workers = QueuedWorkers(self.clock)
        self.rounds: list[int] = []
        """The number of records in each round."""
        opening = LocalStore.open(
            FaultyDisk(), self.workers, self.clock, SMALL_JOURNAL, observe=self._ended
        )
        store, tasks = self._do(opening), ManualTasks(self.clock)
        metadata, cache = MemoryMetadata(self.clock), EntryCache(1 << 20)
        engine = Engine(store, metadata, cache, self.clock, tasks)
        log = self._do(Log.open(KEY, engine, create=True))
        assert log is not None
        self.log = log
        self._do(log.rollover.start_writing())
        self.cursors = self._do(CursorLog.open(log, {1: Numbers()}))
        self.cursor = self._do(self.cursors.create("a", -1, {}))
        self.rounds.clear()

    def _do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock, self.workers.step)

    def _ended(self, records: int, size: int, seconds: float | None) -> None:
        self.rounds.append(records)

    def append(self) -> None:
        append(self.log, [b"entry"], [1], lambda _: None)

    def end_rounds(self) -> None:
        while self.clock.step() or self.workers.journal.step():
            pass


@pytest.mark.parametrize("busy", [False, True])
def test_what_is_due_is_in_the_round_of_the_entries_that_come_next(busy: bool) -> None:
    world = World()
    if busy:
        world.append()
        world.clock.pump()
        assert len(world.workers.journal) == 1, "a round is being written"
    world.cursor.ack([0])
    world.cursors.cursor_changed(world.cursor)
    world.clock.advance(GATHER_SECONDS)
    world.append()
    world.end_rounds()
    # The origin of the segment is in the round of its first entries.
    assert world.rounds == ([2, 2] if busy else [3])
