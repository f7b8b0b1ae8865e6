"""Logs in a running event loop, where, unlike in `fakes.world`, tasks can be cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fakes.logs import KEY, NEVER
from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore, MemoryWriter
from magnetar_storage.interfaces import SegmentId, SegmentOrigin
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.runtime.execution import Cause


class LoopClock:
    """The clock of the running event loop, with a fixed wall-clock time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        return 0

    def uptime(self) -> float:
        return self._loop.time()

    def soon(self, call: Callable[[], None], cause: Cause = "other") -> None:
        self._loop.call_soon(call)

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)

    def promise(self) -> "asyncio.Future[Any]":
        return self._loop.create_future()


class LoopTasks:
    """Tasks of the running event loop; `ended` raises their exceptions."""

    def __init__(self) -> None:
        self._spawned: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], cause: Cause = "task") -> None:
        self._spawned.append(asyncio.create_task(work))

    async def ended(self) -> None:
        """Wait for all tasks that were spawned."""
        await asyncio.gather(*self._spawned)


class GatedStore(MemoryStore):
    """Creates segments only while its gate is open."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        """Set when a coroutine waits at the gate."""
        self.created = 0

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> MemoryWriter:
        self.created += 1
        if not self.gate.is_set():
            self.asked.set()
            await self.gate.wait()
        return await super().create(origin, beyond)


class LoopWorld:
    """A log in an event loop, where tasks can be cancelled."""

    def __init__(self, roll: RollLimits = NEVER) -> None:
        self.clock = LoopClock()
        self.store = GatedStore(self.clock)
        self.tasks = LoopTasks()
        metadata = MemoryMetadata(self.clock)
        self.engine = Engine(
            self.store, metadata, EntryCache(1 << 20), self.clock, self.tasks, roll
        )

    async def open(self) -> Log:
        log = await Log.open(KEY, self.engine, create=True)
        assert log is not None
        return log


async def turns(count: int = 5) -> None:
    """Let everything run that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)
