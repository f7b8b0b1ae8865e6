"""The event loop of those that do not have one: a background thread runs it."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from magnetar.closing import Closing
from magnetar.errors import Closed

T = TypeVar("T")
W = TypeVar("W", bound=Closing)


class Background:
    """The loop and its thread, made when they are first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.generation = 0
        """Changes in a forked child: what was opened before cannot be used."""

    def forked(self) -> None:
        """The thread is not there in a child; its loop must not be touched."""
        self._lock = threading.Lock()
        self._loop = None
        self.generation += 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="magnetar-sync", daemon=True
                ).start()
            return self._loop


background = Background()
"""One for all of the process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background.forked)


class Facade(Generic[W]):
    """Runs what `wrapped` does in the background loop, and waits for it."""

    def __init__(self, wrapped: W) -> None:
        self.wrapped = wrapped
        self._generation = background.generation

    def check_not_forked(self) -> None:
        """Raise Closed in a child of the process that opened it."""
        if self._generation != background.generation:
            raise Closed(
                f"this {type(self).__name__} was opened before the process was forked: a child "
                "opens its own"
            )

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
        """The result of a coroutine function."""
        self.check_not_forked()
        return background.run(work(*args, **options))

    def do(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """The result of a function that must be called in the loop."""

        async def call() -> T:
            return function(*args, **options)

        return self.run(call)
