"""From Spark's blocking calls to the asyncio client: one event loop and client a process."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

from pyspark_magnetar.connecting import Connecting

T = TypeVar("T")


class Bridge:
    """Runs coroutines on an event loop in a thread of its own."""

    def __init__(self, connecting: Connecting) -> None:
        self._loop = asyncio.new_event_loop()
        self.client = connecting.client()
        threading.Thread(target=self._loop.run_forever, name="magnetar", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the coroutine's result, in whichever thread this is called."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Have the coroutine run by itself until the process ends."""
        asyncio.run_coroutine_threadsafe(work, self._loop)


def bridge_to(connecting: Connecting) -> Bridge:
    """This process's bridge to a broker, created on first use.

    Spark reuses its worker processes, so connections outlive a task; a forked process creates
    its own.
    """
    return _bridge(connecting, os.getpid())


@lru_cache(maxsize=16)
def _bridge(connecting: Connecting, pid: int) -> Bridge:
    return Bridge(connecting)
