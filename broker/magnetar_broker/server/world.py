"""The real world, for storage and broker: asyncio's clock and tasks, threads that wait."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from magnetar_storage.world import Promise, Timer, Worker

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class LoopClock:
    """Time and scheduled calls of the running event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def soon(self, call: Callable[[], None]) -> None:
        """Call in the loop's next turn."""
        self._loop.call_soon(call)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now."""
        return self._loop.call_later(seconds, call)

    def promise(self) -> Promise:
        """An unsettled promise."""
        return self._loop.create_future()


class LoopTasks:
    """Coroutines as tasks of the running loop; a failure is a defect and is logged as one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on its own."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task failed; this is a defect", exc_info=error)


class ThreadWorker:
    """A thread that runs jobs one after the other and reports to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `job` in the thread; then call `done(result, error)` on the loop."""
        self._jobs.put((job, done))

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """The same for coroutines."""
        future: asyncio.Future[T] = self._loop.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(job, done)
        return future

    def stop(self) -> None:
        """Finish what was given, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        post = self._loop.call_soon_threadsafe
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result = job()
            except BaseException as error:  # carried to the owner's thread, whatever it is
                post(done, None, error)
            else:
                post(done, result, None)


class ThreadWorkers:
    """A thread each for the journal, for write-behind, for reads and for metadata."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._all = {
            name: ThreadWorker(loop, f"magnetar-{name}")
            for name in ("journal", "background", "reads", "metadata")
        }

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

    def stop(self) -> None:
        """End every thread; the loop must still run, or nobody hears the last results."""
        for worker in self._all.values():
            worker.stop()
