"""Logs over stores in memory, in a world that the test advances."""

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from fakes.memory_metadata import MemoryMetadata
from fakes.moody_store import MoodyStore
from fakes.runs import append
from fakes.world import ManualClock, ManualPromise, ManualTasks, run, start
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import MetadataStore, SegmentStore, Version
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits

T = TypeVar("T")

NEVER = RollLimits()
BY_THREE = RollLimits(max_entries=3, min_age_ms=0)
KEY = "/topics/log"


class LogWorld:
    """One store and one metadata store, on which logs can be opened repeatedly."""

    def __init__(self, roll: RollLimits = NEVER, cache_bytes: int = 1 << 20) -> None:
        self.clock = ManualClock()
        self.store = MoodyStore(self.clock)
        self.metadata = MemoryMetadata(self.clock)
        self.tasks = ManualTasks(self.clock)
        self.engine = self.engine_on(self.store, self.metadata, roll, cache_bytes)

    def engine_on(
        self, store: SegmentStore, metadata: MetadataStore, roll: RollLimits, cache_bytes: int
    ) -> Engine:
        return Engine(store, metadata, EntryCache(cache_bytes), self.clock, self.tasks, roll)

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock)

    def begin(self, coro: Coroutine[Any, Any, Any]) -> ManualPromise:
        """Run up to the first wait; pump to continue."""
        return start(coro)

    def open(self, key: str = KEY, writing: bool = True) -> Log:
        log = self.do(Log.open(key, self.engine, create=True))
        assert log is not None
        if writing:
            self.do(log.rollover.start_writing())
        return log

    def append(self, log: Log, *payloads: bytes, counts: Sequence[int] = ()) -> None:
        """Append a run and wait until it is durable."""
        outcome: list[BaseException | None] = []
        append(log, list(payloads), list(counts) or [1] * len(payloads), outcome.append)
        self.clock.pump()
        assert outcome == [None]

    @contextmanager
    def failing_metadata(self, lands: bool = False) -> Iterator[None]:
        """Let every write of metadata fail in the block, and take effect anyway if it `lands`."""
        put = self.metadata.put

        async def fail(*asked: Any) -> Version:
            if lands:
                await put(*asked)
            raise Unavailable("metadata cannot be written")

        self.metadata.put = fail  # type: ignore[assignment]
        yield
        self.metadata.put = put  # type: ignore[method-assign]

    def read_all(self, log: Log, step: int = 1000) -> list[bytes]:
        """Return every entry from the first one kept, read run by run."""
        offset, found = log.first_offset, list[bytes]()
        while True:
            part = self.do(log.entries.read(offset, step, 1 << 20))
            if not part.payloads:
                assert offset == log.end
                return found
            assert part.first == offset
            assert len(part.counts) == len(part.payloads) <= step
            found += part.payloads
            offset += len(part.payloads)


def numbered(first: int, stop: int) -> list[bytes]:
    """Return entries that contain their own offset."""
    return [b"%d" % offset for offset in range(first, stop)]
