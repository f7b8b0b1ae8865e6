"""An event loop in a background thread, for programs that have no event loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from magnetar.base.closing import Closing
from magnetar.base.errors import Closed

T = TypeVar("T")
W = TypeVar("W", bound=Closing)


class Background:
    """The event loop and its thread, created when they are first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.generation = 0
        """A number that changes in a forked child, where objects opened before are not usable."""

    def forked(self) -> None:
        """Forget the loop in a forked child: its thread does not run there."""
        self._lock = threading.Lock()
        self._loop = None
        self.generation += 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and return its result; KeyboardInterrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running event loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="magnetar-sync", daemon=True
                ).start()
            return self._loop


background = Background()
"""The background event loop of the process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background.forked)


class Facade(Generic[W]):
    """Runs the methods of `wrapped` in the background loop, and waits for them."""

    def __init__(self, wrapped: W) -> None:
        self.wrapped = wrapped
        self._generation = background.generation

    def check_not_forked(self) -> None:
        """Raise Closed in a forked child of the process that opened the object."""
        if self._generation != background.generation:
            raise Closed(
                f"this {type(self).__name__} was opened before the process was forked: a child "
                "opens its own"
            )

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
        """Call a coroutine function in the loop, and return the result."""
        self.check_not_forked()
        return background.run(work(*args, **options))

    def do(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a plain function in the loop, and return the result."""

        async def call() -> T:
            return function(*args, **options)

        return self.run(call)
