"""Spark's blocking calls to the asyncio client: one event loop and client per process."""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pyspark_magnetar.options.connecting import Connecting

logger = logging.getLogger(__name__)

T = TypeVar("T")

END_S = 10.0
"""The longest wait for the end of a coroutine whose calling thread was interrupted."""


class Bridge:
    """Runs coroutines on an event loop in a thread of its own."""

    def __init__(self, connecting: Connecting) -> None:
        self._loop = asyncio.new_event_loop()
        self._started: list[Future[object]] = []
        self.client = connecting.client()
        self._thread = threading.Thread(target=self._loop.run_forever, name="magnetar", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and wait for its result; may be called in any thread.

        If the thread is interrupted, the coroutine is cancelled, and can release its resources.
        """
        tasks: list[asyncio.Task[T]] = []
        ended = threading.Event()

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # the thread was interrupted before the coroutine started
                work.close()
                ended.set()

        try:
            self._loop.call_soon_threadsafe(begin)
            ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            ended.wait(END_S)
            raise
        return tasks.pop().result()  # a local of the task would make a reference cycle

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine in the background until the process ends, or the bridge is closed.

        Its exception is logged.
        """
        self._started = [one for one in self._started if not one.done()]
        self._started.append(asyncio.run_coroutine_threadsafe(work, self._loop))
        self._started[-1].add_done_callback(_log_failure)

    def close(self) -> None:
        """Close background coroutines, connections and the thread; nothing can be run after it."""
        for one in self._started:
            one.cancel()
        self.run(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _log_failure(done: Future[object]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.error("a background task has failed", exc_info=error)


_bridges: dict[tuple[Connecting, int], Bridge] = {}


def bridge_to(connecting: Connecting) -> Bridge:
    """Return this process's bridge to a broker, created on first use.

    Spark reuses its worker processes, so connections outlive a task; a forked process creates
    its own.
    """
    key = connecting, os.getpid()
    if key not in _bridges:
        _bridges[key] = Bridge(connecting)
    return _bridges[key]


def close_bridges() -> None:
    """Close the bridges of this process, which goes on without Spark, as tests do."""
    for key in [one for one in _bridges if one[1] == os.getpid()]:
        _bridges.pop(key).close()
