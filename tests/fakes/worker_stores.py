"""The stores of a broker's workers on one `FaultyDisk`, and the truth about their segments."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY, SegmentBooks
from fakes.world import InlineWorkers, ManualClock, QueuedWorkers, run
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.local import directories
from magnetar_storage.local.limits import Limits
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import Share, open_store

T = TypeVar("T")


class Link:
    """A `Holder` that asks a worker of the same test, while it is alive."""

    def __init__(self, stores: dict[int, JoinedStore], worker: int) -> None:
        self._stores = stores
        self._worker = worker
        self.asked: list[tuple[str, SegmentId]] = []

    async def recover(self, segment: SegmentId) -> Sealed:
        return await self._store("recover", segment).opened(segment).recover(segment)

    async def finish(self, segment: SegmentId) -> None:
        await self._store("finish", segment).opened(segment).finish(segment)

    async def delete(self, segment: SegmentId) -> None:
        await self._store("delete", segment).opened(segment).delete(segment)

    def _store(self, what: str, segment: SegmentId) -> JoinedStore:
        self.asked.append((what, segment))
        if self._worker not in self._stores:
            raise ProcessUnavailable(f"worker {self._worker} cannot be asked: it has stopped")
        return self._stores[self._worker]


class WorkerStores:
    """The stores of several workers; each has a separate world, as a process has."""

    def __init__(
        self,
        disk: FaultyDisk,
        count: int,
        limits: Limits = TINY,
        workers: Callable[[ManualClock], InlineWorkers | QueuedWorkers] = InlineWorkers,
    ) -> None:
        self.disk = disk
        self.count = count
        self.stores: dict[int, JoinedStore] = {}
        self.clocks: dict[int, ManualClock] = {}
        self.links = {worker: Link(self.stores, worker) for worker in range(count)}
        self._limits = limits
        self._workers = workers
        self._steps: dict[int, list[Callable[[], bool]]] = {}

    def start(self) -> None:
        """Start as a broker does: prepare directories, open every store, then align the ids."""
        directories.prepare(self.disk, self.count)
        for worker in range(self.count):
            self.open(worker)
        self.align()

    def open(self, worker: int) -> None:
        """Open the store of one worker; call `align` before it is used."""
        clock = self.clocks[worker] = ManualClock()
        workers = self._workers(clock)
        self._steps[worker] = [clock.step]
        if isinstance(workers, QueuedWorkers):
            self._steps[worker].append(workers.step)
        others = {number: link for number, link in self.links.items() if number != worker}
        opening = open_store(
            self.disk, workers, clock, self._limits,
            share=Share(worker, self.count, others),
        )  # fmt: skip
        self.stores[worker] = self.do(opening)

    def align(self) -> None:
        """Ensure that no new segment has a smaller id than any that was ever created."""
        largest = max(store.last_id for store in self.stores.values())
        for store in self.stores.values():
            self.do(store.advance_beyond(largest))

    def kill(self, worker: int) -> None:
        """Kill one process: what it has written stays, and it does nothing more."""
        del self.stores[worker]
        self._steps.pop(worker)
        self.clocks.pop(worker).forget()
        for number in range(worker, 256, self.count):
            name = directories.name_of(number)
            self.disk.locks.discard(f"{name}/LOCK" if name else "LOCK")

    def close(self) -> None:
        for store in self.stores.values():
            self.do(store.close())

    def step(self) -> bool:
        """Let something happen in some process; return False if nothing can."""
        return any(step() for steps in list(self._steps.values()) for step in steps)

    def pump(self) -> None:
        while self.step():
            pass

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Drive a coroutine of any of the processes to its end."""
        return run(work, ManualClock(), self.step)


class WorkerBooks(SegmentBooks):
    """The books of several workers; the present `store` is the one that is asked."""

    store: JoinedStore

    def __init__(self, disk: FaultyDisk, count: int) -> None:
        super().__init__()
        self.disk = disk
        self._largest = 0
        self.start(count)

    def start(self, count: int) -> None:
        """Start `count` workers, after a stop or a crash of the former ones."""
        self.writers = {}
        self.workers = WorkerStores(self.disk, count)
        self.workers.start()
        self._largest = max(self.truths, default=0)
        self.turn_to(0)

    def turn_to(self, worker: int) -> None:
        """Ask this worker from now on; if it was killed, start it first."""
        if worker not in self.workers.stores:
            self.workers.open(worker)
            self.workers.align()
            self._largest = max(self.truths, default=0)
        self.store = self.workers.stores[worker]

    def create(self) -> int:
        made = super().create()
        assert made > self._largest, "an id is not above all those before the start"
        return made

    def check(self) -> None:
        """Check everything, as every worker sees it."""
        for worker in list(self.workers.stores):
            self.turn_to(worker)
            super().check()

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return self.workers.do(coro)

    def pump(self) -> None:
        self.workers.pump()

    def close(self) -> None:
        self.workers.close()
