"""Threads that call an application's listeners and callbacks, and the tasks that feed them."""

import asyncio
import itertools
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from magnetar.base.errors import Closed, Damaged, MagnetarError
from magnetar.clock import Clock
from magnetar.messages import Message

logger = logging.getLogger(__name__)

AGAIN_S = 1.0
"""The pause, in seconds, after a temporary failure, such as a schema that is unavailable."""


class ListenerThreads:
    """A pool of threads, created when needed; each listener is always called by the same one."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads: list[ThreadPoolExecutor] = []
        self._turn = itertools.cycle(range(count))
        self._lock = threading.Lock()

    def next(self) -> ThreadPoolExecutor:
        """Return the thread of a new listener."""
        with self._lock:
            index = next(self._turn)
            while len(self._threads) <= index:
                self._threads.append(
                    ThreadPoolExecutor(1, thread_name_prefix=f"magnetar-listener-{index}")
                )
            return self._threads[index]

    def close(self) -> None:
        """Accept no more calls; calls in progress complete."""
        with self._lock:
            for thread in self._threads:
                thread.shutdown(wait=False, cancel_futures=True)


class Listening:
    """Receives messages one at a time, and calls the listener for each in a thread.

    It must be created in the event loop.
    """

    def __init__(
        self,
        thread: ThreadPoolExecutor,
        receive: Callable[[], Awaitable[Message]],
        tell: Callable[[Message], None],
        clock: Clock,
    ) -> None:
        self._thread = thread
        self._receive = receive
        self._tell = tell
        self._clock = clock
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._task = asyncio.create_task(self._run())

    def pause(self) -> None:
        """Hold back the next message until `resume`."""
        self._resumed.clear()

    def resume(self) -> None:
        self._resumed.set()

    def close(self) -> None:
        """Stop receiving; a listener that is being called completes."""
        self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                message = await self._receive()
            except Closed:
                return
            except MagnetarError as error:
                # Damaged: what follows comes once the damaged entries are set aside.
                if not (error.retriable or isinstance(error, Damaged)):
                    logger.warning("a message listener was stopped: %s", error)
                    return
                logger.warning("a message listener waits for further messages: %s", error)
                await self._clock.sleep(AGAIN_S)
                continue
            await self._resumed.wait()
            try:
                await loop.run_in_executor(self._thread, self._tell, message)
            except Exception:  # the application's; other messages are not affected
                logger.exception("a message listener failed")


class CallbackThread:
    """A thread that calls the callbacks of `send_async` in order; created on first use."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def call(self, function: Callable[[], object]) -> None:
        """Queue a call; after `close`, make it immediately."""
        if self._is_closed:
            _call(function)
            return
        self._calls.put(function)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="magnetar-callbacks", daemon=True
                    )
                    self._thread.start()

    def drain(self) -> None:
        """Wait until all earlier calls were made; in a callback, return at once."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        called = threading.Event()
        self.call(called.set)
        called.wait()

    def close(self) -> None:
        """Make the queued calls, and stop the thread."""
        self.drain()
        self._is_closed = True
        if self._thread is not None:
            self._calls.put(None)

    def _run(self) -> None:
        while True:
            function = self._calls.get()
            if function is None:
                return
            _call(function)


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:  # the application's; other callbacks are not affected
        logger.exception("a callback of send_async failed")
