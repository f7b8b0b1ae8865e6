"""The clock, tasks and worker threads that storage and the broker run on: asyncio's."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_storage.errors import LogClosed
from magnetar_storage.runtime.execution import Cause, Promise, Timer, Worker

logger = logging.getLogger(__name__)

T = TypeVar("T")
CAUSES: dict[str, Cause] = {
    "journal": "journal",
    "background": "write_behind",
    "reads": "other",
    "metadata": "metadata",
}
"""The cause that the results of each thread are counted for, by the thread's name."""
UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that also counts suspended time if the system has one, as Linux does."""
Job = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class LoopClock:
    """The wall clock, and calls scheduled on the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, loop_timer: LoopTimer | None = None
    ) -> None:
        self._loop = loop
        self._run = (loop_timer or LoopTimer()).run

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def uptime(self) -> float:
        """Return the seconds since the machine started."""
        return time.clock_gettime(UPTIME)

    def soon(self, call: Callable[[], None], cause: Cause = "other") -> None:
        """Call in the next turn of the loop."""
        self._loop.call_soon(self._run, cause, call)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now."""
        return self._loop.call_later(seconds, self._run, "timer", call)

    def promise(self) -> Promise:
        """Return an unsettled promise."""
        return self._loop.create_future()


STOPPING: Final = "the process is stopping: what it transfers goes on after the next start"


class LoopTasks:
    """Runs coroutines as tasks of the loop.  Their errors are defects, and are logged as such."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, loop_timer: LoopTimer | None = None
    ) -> None:
        self._loop = loop
        self._loop_timer = loop_timer or LoopTimer()
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], cause: Cause = "task") -> None:
        """Run `work` as a task of its own."""
        # Measured by each of its steps: while it waits it does not keep the loop busy.
        task = self._loop.create_task(self._loop_timer.measured(cause, work))
        # The loop itself refers to tasks weakly: one that nobody holds may be collected.
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task failed; this is a defect", exc_info=error)


class ThreadWorker:
    """A thread that runs jobs in order and calls back on the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, cause: Cause, loop_timer: LoopTimer
    ) -> None:
        self._loop = loop
        self._cause = cause
        self._run = loop_timer.run
        # Not an executor, which would make a future for each round of the journal.
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, so that a thread that hangs on a dead disk does not prevent the end.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `job` in the thread; then call `done(result, error)` on the loop."""
        self._jobs.put((job, done))

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `job` in the thread; await its result.  A cancelled wait does not stop the job."""
        future: asyncio.Future[T] = self._loop.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            # The waiter has left; the job could not be stopped.
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(job, done)
        return future

    def stop(self) -> None:
        """Finish the submitted jobs, then end the thread."""
        # Behind all other jobs, which are done first.
        self._jobs.put(None)
        self._thread.join()

    def abandon(self) -> None:
        """End the thread after the submitted jobs, without waiting for it."""
        self._jobs.put(None)

    def _work(self) -> None:
        # Local names: this loop runs once for each round.
        post, run, cause = self._loop.call_soon_threadsafe, self._run, self._cause
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result = job()
            except BaseException as error:  # whatever it is, the loop raises it
                post(run, cause, done, None, error)
            else:
                post(run, cause, done, result, None)


class LazyWorker:
    """A `ThreadWorker` whose thread is started by its first job."""

    def __init__(self, start: Callable[[], ThreadWorker]) -> None:
        self._start = start
        self._worker: ThreadWorker | None = None
        self._awaited: set[asyncio.Future[Any]] = set()
        self._abandoned = False

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `job` in the thread; then call `done(result, error)` on the loop."""
        self._started().submit(job, done)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """Run `job` in the thread; await its result.  `LogClosed` once `abandon` was called."""
        if self._abandoned:
            raise LogClosed(STOPPING)
        future = self._started().run(job)
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        return future

    def abandon(self) -> None:
        """End the thread, if there is one, without waiting for its jobs; all waits for them fail.

        May be called again.
        """
        if self._abandoned:
            return
        self._abandoned = True
        if self._worker is not None:
            self._worker.abandon()
        # promise: a stop does not wait for a store of objects
        for future in [one for one in self._awaited if not one.done()]:
            future.set_exception(LogClosed(STOPPING))

    def _started(self) -> ThreadWorker:
        if self._worker is None:
            self._worker = self._start()
        return self._worker


class ThreadWorkers:
    """One thread each for the journal, for write-behind, for reads and for metadata, and threads
    that wait for the network."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, loop_timer: LoopTimer | None = None
    ) -> None:
        loop_timer = loop_timer or LoopTimer()
        self._all = {
            name: ThreadWorker(loop, f"magnetar-{name}", cause, loop_timer)
            for name, cause in CAUSES.items()
        }
        self._start = partial(ThreadWorker, loop, cause="other", loop_timer=loop_timer)
        self._transfers: list[LazyWorker] = []

    def more(self, name: str, number: int) -> list[Worker]:
        """Start more threads, for storage that needs several; `stop` waits for their jobs."""
        started = {
            f"{name}-{one}": self._start(name=f"magnetar-{name}-{one}") for one in range(number)
        }
        self._all.update(started)
        return list(started.values())

    def transfers(self, number: int) -> list[LazyWorker]:
        """Return more threads, each started by its first job; `stop` does not wait for them."""
        first = len(self._transfers)
        names = [f"magnetar-transfer-{first + one}" for one in range(number)]
        made = [LazyWorker(partial(self._start, name=name)) for name in names]
        self._transfers += made
        return made

    @property
    def journal(self) -> Worker:
        return self._all["journal"]

    @property
    def background(self) -> Worker:
        return self._all["background"]

    @property
    def reads(self) -> Worker:
        return self._all["reads"]

    @property
    def metadata(self) -> Worker:
        return self._all["metadata"]

    def abandon_transfers(self) -> None:
        """End the threads that wait for the network, and fail all waits for them."""
        # Records of logs list their work, and a request may take minutes to fail.
        for transfer in self._transfers:
            transfer.abandon()

    def stop(self) -> None:
        """End every thread.  Call it while the loop runs: it receives the last results."""
        self.abandon_transfers()
        for worker in self._all.values():
            worker.stop()
