"""Session stores of several processes, over one store of objects and one of metadata."""

import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from fakes.faulty_objects import FaultyObjects
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, ManualTasks, QueuedWorker, run
from magnetar_storage.errors import Fenced, StorageError
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Guard,
    Lease,
    Listed,
    MetadataStore,
    Version,
    Versioned,
)
from magnetar_storage.local.recovery import Finding
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.runtime.execution import yield_turn
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.opening import SessionWorkers, open_session_store
from magnetar_storage.session_store.session_record import SESSIONS_PREFIX
from magnetar_storage.session_store.store import SessionStore
from magnetar_storage.wal.slot_writer import WalLimits

T = TypeVar("T")

SMALL = SessionLimits(
    WalLimits(round_bytes=64, linger_seconds=0.1),
    settle_bytes=200,
    settle_slots=6,
    most_bytes=800,
    most_slots=12,
    most_extents=2,
    read_ahead_bytes=4000,
    loaded_segments=3,
)
"""Limits so low that a few entries exceed them."""


class ProcessClock:
    """The part of a clock that one process sees: its calls end with it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.is_alive = True
        self.now_ms = clock.now_ms
        self.uptime = clock.uptime
        self.promise = clock.promise

    def soon(self, call: Callable[[], None], cause: Any = "other") -> None:
        self._clock.soon(lambda: call() if self.is_alive else None)

    def later(self, seconds: float, call: Callable[[], None]) -> Any:
        return self._clock.later(seconds, lambda: call() if self.is_alive else None)


class ProcessMetadata:
    """The metadata store as one process sees it: each call takes turns before and behind it.

    After the end of the process a call that was made still takes place, and nobody goes on.
    """

    def __init__(self, metadata: MetadataStore, clock: ProcessClock) -> None:
        self._metadata = metadata
        self._clock = clock
        self.lease_is_lost = False
        """Whether the process may not change the records of topics any more, although it runs."""

    async def get(self, key: str) -> Versioned | None:
        return await self._taking_turns(self._metadata.get(key))

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        return await self._taking_turns(self._put(key, value, expect, lease, guard))

    async def _put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None,
        lease: Lease | None,
        guard: Guard | None,
    ) -> Version:
        if self.lease_is_lost and not key.startswith(SESSIONS_PREFIX):
            raise Fenced(f"{key}: the lease of the process has ended")
        return await self._metadata.put(key, value, expect, lease, guard)

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return await self._taking_turns(self._metadata.list(prefix, after, limit))

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return await self._taking_turns(self._metadata.read_under(prefix, after, limit))

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._taking_turns(self._metadata.delete(key, expect, guard))

    async def _taking_turns(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            await yield_turn(self._clock)
        except GeneratorExit:
            call.close()
            raise
        try:
            answer = await call
        except StorageError:
            await yield_turn(self._clock)
            raise
        await yield_turn(self._clock)
        return answer


class Process:
    """One process with its threads; after `kill` none of them does anything."""

    def __init__(self, world: "SessionWorld", limits: SessionLimits, owner: str) -> None:
        self.clock = ProcessClock(world.clock)
        made = [QueuedWorker(self.clock) for _ in range(6)]  # type: ignore[arg-type]
        self.threads = made
        self.findings: list[Finding] = []
        self.tasks = ManualTasks(self.clock)  # type: ignore[arg-type]
        self.metadata = ProcessMetadata(world.metadata, self.clock)
        self.store: SessionStore
        self.is_killed = False
        self.opening = open_session_store(
            world.objects,
            SessionWorkers(made[:2], made[2:4], made[4:]),
            self.clock,
            self.tasks,
            cast(MetadataStore, self.metadata),
            world.nonce,
            self.findings.append,
            owner=owner,
            limits=limits,
        )

    def kill(self, landing: bool = False) -> None:
        """End the process: no thread and no timer of it does anything more.

        If `landing` the requests that its threads were making take place.
        """
        self.is_killed = True
        self.clock.is_alive = False
        self.tasks.forget()
        for thread in self.threads:
            thread.forget(landing)


class SessionWorld:
    """Processes over shared stores, and what makes them go on."""

    def __init__(
        self,
        clock: ManualClock,
        seed: int,
        limits: SessionLimits = SMALL,
        metadata: MetadataStore | None = None,
    ) -> None:
        self.clock = clock
        self.dice = random.Random(seed)
        self.limits = limits
        self.objects = FaultyObjects(clock.now_ms, seed)
        self.metadata = metadata or MemoryMetadata(clock)
        self.processes: list[Process] = []

    def nonce(self) -> bytes:
        return self.dice.randbytes(NONCE_BYTES)

    def start(self, owner: str = "") -> Process:
        """Start a process, which begins a session."""
        process = Process(self, self.limits, owner)
        self.processes.append(process)
        process.store = self.do(process.opening)
        return process

    def step(self) -> bool:
        """Let a thread do one job, or if none has any, let time pass until a timer is due."""
        threads = deque(thread for each in self.processes for thread in each.threads if len(thread))
        if threads:
            self.dice.choice(threads).step()
            return True
        return self.clock.advance_to_timer()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return run(work, self.clock, self.step)

    def settle(self) -> None:
        """Let everything end that goes on."""
        self.clock.pump()
        while self.step():
            self.clock.pump()
