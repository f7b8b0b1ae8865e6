"""The thread in which the requests to a server of metadata run, on an event loop of its own.

There, renewals of leases do not wait for an event loop that is busy with messages.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from threading import Thread
from typing import Any
from weakref import WeakSet

logger = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], object]
"""Makes a call on the owner's thread, soon; may be called from every thread."""
Work = Callable[[], Coroutine[Any, Any, Any]]
Outcome = Callable[[Any, BaseException | None], None]


def report_defect(task: "asyncio.Task[None]") -> None:
    """Log the error of a task that has ended: all that is expected was handled."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a task failed; this is a defect", exc_info=error)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows its connections, to close those that a library has left."""

    def __init__(self) -> None:
        super().__init__()
        self._connections: WeakSet[asyncio.Transport] = WeakSet()

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        transport, protocol = await super().create_connection(*args, **options)
        self._connections.add(transport)
        return transport, protocol

    async def abort_connections(self) -> None:
        """Close all connections at once: closing one with TLS would wait for its server."""
        for transport in list(self._connections):
            transport.abort()
        await asyncio.sleep(0)  # their sockets are closed in the next turn


class EngineThread:
    """Runs coroutines for the owner, and calls back on the owner's thread."""

    def __init__(self, name: str, post: Post) -> None:
        self._post = post
        self._loop = _Loop()
        self._end = asyncio.Event()
        self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        # A daemon: a host name that is being looked up must not delay the end of the process.
        Thread(target=self._run, name=name, daemon=True).start()

    # For the owner ----------------------------------------------------------------------------

    def submit(self, work: Work, done: Outcome) -> None:
        """Start `work()` in the thread; then call `done(result, error)` on the owner's thread."""
        if not self._is_stopped:
            self._loop.call_soon_threadsafe(self._begin, self._answer(work, done))

    def spawn(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Start `work` in the thread; return a function that cancels it, for every thread."""
        spawned: list[asyncio.Task[None]] = []

        def cancel() -> None:
            for task in spawned:
                task.cancel()

        def stop() -> None:
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(cancel)

        if self._is_stopped:
            work.close()
        else:
            self._loop.call_soon_threadsafe(lambda: spawned.append(self._begin(work)))
        return stop

    def stop(self) -> None:
        """Cancel everything that runs in the thread, and end it; nothing is called any more."""
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._end.set)

    # In the thread ----------------------------------------------------------------------------

    async def on_owner(self, call: Callable[[], Any]) -> Any:
        """Make a call on the owner's thread; return its result."""
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(result: Any) -> None:
            if not answer.done():
                answer.set_result(result)

        def ask() -> None:
            result = call()
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(settle, result)

        self.post(ask)
        return await answer

    def post(self, call: Callable[[], None]) -> None:
        """Make a call on the owner's thread, soon, unless this thread is stopped."""
        if not self._is_stopped:
            self._post(call)

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_defect)
        return task

    async def _answer(self, work: Work, done: Outcome) -> None:
        try:
            result = await work()
        except Exception as error:  # whatever it is, the owner's coroutine raises it
            self.post(partial(done, None, error))
        else:
            self.post(partial(done, result, None))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._wait())

    async def _wait(self) -> None:
        await self._end.wait()
        await self._loop.abort_connections()
