"""Worlds for the torture of the disk: one without waiting, one where threads take turns."""

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from fakes.faulty_disk import Crash, FaultyDisk
from fakes.memory_metadata import MemoryMetadata
from fakes.world import InlineWorkers, ManualClock, ManualPromise, run, start
from magnetar_storage.interfaces import Absent, Guard, Lease, Version, Versioned
from magnetar_storage.metadata.sorted_keys import SortedKeys
from magnetar_storage.runtime.execution import Workers

T = TypeVar("T")

Point = Callable[[str, str], None]
"""Called with what is about to happen to the disk, and to which name."""


class World(Protocol):
    """What a store lives in."""

    clock: ManualClock

    def workers_of(self, process: int) -> Workers:
        """The threads of one process."""

    def step(self) -> bool:
        """Let something happen; False when nothing can."""

    def drive(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and whatever happens meanwhile."""


class InlineWorld:
    """Every job runs at once and to its end."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    def workers_of(self, process: int) -> Workers:
        return InlineWorkers(self.clock)

    def step(self) -> bool:
        return self.clock.step()

    def drive(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock)


class SteppedWorker:
    """A worker in a thread that stops before each change to the disk until it may continue.

    Only one thread runs at any time, so that a history is the same whenever it is repeated.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.waits_for: tuple[str, str] | None = None
        """What it is about to do to the disk."""
        self._clock = clock
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = deque()
        self._may_go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._jobs.append((job, done))

    def run(self, job: Callable[[], T]) -> ManualPromise:
        promise = ManualPromise()

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                promise.set_result(result)
            else:
                promise.set_exception(error)

        self.submit(job, done)
        return promise

    def step(self) -> None:
        """Go on to the next change to the disk, or to the end of the job."""
        self._may_go.release()
        self._stopped.acquire()

    def yield_turn(self, what: str, name: str) -> None:
        """Called by the job itself, in its thread."""
        if not self._killed:
            self.waits_for = what, name
            self._stopped.release()
            self._may_go.acquire()
            self.waits_for = None
        if self._killed:
            raise Crash("the process was killed")

    def kill(self) -> None:
        """End the thread; what the job has not done yet is never done."""
        self._killed = True
        self._may_go.release()
        self._thread.join()

    def _work(self) -> None:
        self._may_go.acquire()
        while not self._killed:
            job, done = self._jobs[0]
            result: Any = None
            error: BaseException | None = None
            try:
                result = job()
            except Crash:
                return
            except Exception as caught:
                error = caught
            self._jobs.popleft()
            self._clock.soon(partial(done, result, error))
            self._stopped.release()
            self._may_go.acquire()


class SteppedWorkers:
    """The threads of one process."""

    def __init__(self, clock: ManualClock) -> None:
        self.journal, self.background, self.reads = (SteppedWorker(clock) for _ in range(3))


class SteppedWorld:
    """Three threads of each process and the owner take turns at random; use with `with`."""

    def __init__(self, disk: FaultyDisk, dice: Random, point: Point) -> None:
        self.clock = ManualClock()
        self._all: list[SteppedWorker] = []
        self._dice = dice
        self._point = point
        self._running: SteppedWorker | None = None
        disk.before = self._before

    def workers_of(self, process: int) -> SteppedWorkers:
        made = SteppedWorkers(self.clock)
        self._all += (made.journal, made.background, made.reads)
        return made

    def step(self) -> bool:
        busy = [worker for worker in self._all if worker.busy]
        turn = self._dice.randrange(len(busy) + 1)
        if turn == len(busy) and self.clock.step():
            return True
        if not busy:
            return False
        worker = busy[min(turn, len(busy) - 1)]
        if worker.waits_for is not None:
            self._point(*worker.waits_for)
        self._running = worker
        worker.step()
        self._running = None
        return True

    def drive(self, coro: Coroutine[Any, Any, T]) -> T:
        outcome = start(coro)
        while not outcome.done():
            assert self.step(), "the coroutine waits for something that will never come"
        result: T = outcome.result()
        return result

    def __enter__(self) -> "SteppedWorld":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.kill()

    def _before(self, what: str, name: str) -> None:
        if self._running is None:
            self._point(what, name)
        else:
            self._running.yield_turn(what, name)


class DurableMetadata(MemoryMetadata):
    """Metadata that is durable at once; the machine may stop before each change."""

    def __init__(self, clock: ManualClock, disk: FaultyDisk, of: MemoryMetadata | None) -> None:
        super().__init__(clock)
        self._disk = disk
        if of is not None:
            self._values, self._keys = dict(of._values), SortedKeys(sorted(of._values))
            self._writes = of._writes

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        self._disk.operation("put", key)
        return await super().put(key, value, expect, lease, guard)

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        self._disk.operation("delete", key)
        await super().delete(key, expect, guard)

    def now(self, key: str) -> Versioned | None:
        """The value of a key, without waiting."""
        return self._values.get(key)
