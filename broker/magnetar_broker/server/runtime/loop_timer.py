"""Measures how long each call keeps the event loop busy.

It wraps what the loop calls, where that is handed to the loop, and nothing after that: work that
is scheduled (`asyncio_runtime`), and methods that sockets call (`timed`).
"""

import gc
import time
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Protocol, TypeVar

from magnetar_broker.metrics.loop import LoopStats
from magnetar_storage.runtime.execution import Cause

T = TypeVar("T")


class LoopTimer:
    """Runs the calls of the event loop, and counts how long each took, by cause."""

    def __init__(
        self, stats: LoopStats | None = None, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self.stats = stats or LoopStats()
        self.timer = timer
        """Returns the seconds since some time."""
        self._collecting_since = 0.0

    def run(self, cause: Cause, call: Callable[..., object], *args: Any) -> None:
        """Make a call, and count its time."""
        began = self.timer()
        try:
            call(*args)
        finally:
            self.stats.observe(cause, self.timer() - began)

    def measured(self, cause: Cause, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return a coroutine that does `work`; its work between two waits is one stretch."""
        # A class, since a generator would be one frame more for each step.
        return _Measured(cause, work, self.stats.observe, self.timer)

    def watch_garbage(self) -> None:
        """Count collections of garbage, which stop the loop in whatever thread they begin."""
        # The collector runs in whatever thread allocates, and stops all of them.
        gc.callbacks.append(self._collection)

    def ignore_garbage(self) -> None:
        """Undo `watch_garbage`."""
        gc.callbacks.remove(self._collection)

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = self.timer()
        else:
            self.stats.observe("garbage", self.timer() - self._collecting_since)


class Timed(Protocol):
    """An object whose methods can be `timed`."""

    loop_timer: LoopTimer


S = TypeVar("S", bound=Timed)


def timed(cause: Cause) -> Callable[[Callable[[S, T], None]], Callable[[S, T], None]]:
    """Decorate a method with one argument that the event loop calls: its time is counted."""

    def decorate(method: Callable[[S, T], None]) -> Callable[[S, T], None]:
        @wraps(method)
        def measured(self: S, argument: T) -> None:
            # Not `LoopTimer.run`: one call less for each read of each client.
            loop_timer = self.loop_timer
            began = loop_timer.timer()
            try:
                method(self, argument)
            finally:
                loop_timer.stats.observe(cause, loop_timer.timer() - began)

        return measured

    return decorate


class _Measured(Coroutine[Any, Any, T]):
    def __init__(
        self,
        cause: Cause,
        work: Coroutine[Any, Any, T],
        observe: Callable[[Cause, float], None],
        timer: Callable[[], float],
    ) -> None:
        self._cause = cause
        self._work = work
        self._observe = observe
        self._timer = timer

    def send(self, value: Any) -> Any:
        began = self._timer()
        try:
            return self._work.send(value)
        finally:
            self._observe(self._cause, self._timer() - began)

    def throw(self, error: Any, *deprecated: Any) -> Any:
        began = self._timer()
        try:
            return self._work.throw(error, *deprecated)
        finally:
            self._observe(self._cause, self._timer() - began)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()
