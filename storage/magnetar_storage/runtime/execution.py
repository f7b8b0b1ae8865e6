"""The environment of storage: threads for blocking calls, and a clock.

Storage itself is single-threaded.  Every method of every class here is called
on one thread (the owner's: the event loop in the broker, the test in a test),
and every callback is made on that thread.  Only closures over a `Disk` run
elsewhere, and they touch no shared state.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")

Done = Callable[[BaseException | None], None]
"""Called once, on the owner's thread: with None for success, else with the error."""


Cause = Literal[
    "read",
    "write",
    "journal",
    "dispatch",
    "checkpoint",
    "write_behind",
    "metadata",
    "compaction",
    "http",
    "link",
    "timer",
    "task",
    "garbage",
    "other",
]
"""The work that keeps the owner's thread busy, for measurements: see docs/monitoring.md."""


class Worker(Protocol):
    """Runs blocking jobs one after the other, in the order they were given."""

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `job` elsewhere; then call `done(result, error)` on the owner's thread."""

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """Run `job` elsewhere; await its result, or its exception."""


class Promise(Protocol):
    """A value to come, awaited by any number of coroutines (`asyncio.Future` is one)."""

    def done(self) -> bool:
        """Return whether the promise was settled or its waiter cancelled; settle it only if not."""

    def set_result(self, result: Any, /) -> None:
        """Settle the promise; at most once."""

    def set_exception(self, error: BaseException, /) -> None:
        """Settle the promise as a failure; at most once."""

    def __await__(self) -> Generator[Any, None, Any]: ...


def settling(promise: Promise) -> Done:
    """Return a callback that settles a promise, unless its waiter was cancelled."""

    def done(error: BaseException | None) -> None:
        # Cancelled: whoever waited has left, and settling it again would be an error.
        if promise.done():
            return
        if error is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)

    return done


class Timer(Protocol):
    """A call that has been scheduled."""

    def cancel(self) -> None:
        """Cancel the call; no effect if it was already made."""


class Clock(Protocol):
    """Time, and calls at a time."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""

    def uptime(self) -> float:
        """Return the seconds since the machine started, including the time it was suspended.

        Setting the wall clock does not change it.
        """

    def soon(self, call: Callable[[], None], cause: Cause = "other") -> None:
        """Call at the end of the present turn, after everything that has arrived was handled."""

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now."""

    def promise(self) -> Promise:
        """Return an unsettled promise; settle it on the owner's thread only."""


async def yield_turn(clock: Clock) -> None:
    """Continue after everything else that is due now has run: for use within long work."""
    turn = clock.promise()
    settle = settling(turn)
    clock.soon(lambda: settle(None))
    # Not `asyncio.sleep(0)`: storage runs on the loop of a test, too, which has no asyncio.
    await turn


async def sleep(clock: Clock, seconds: float) -> None:
    """Continue after some seconds; nothing shortens the wait."""
    promise = clock.promise()
    settle = settling(promise)
    clock.later(seconds, lambda: settle(None))
    await promise


class Workers(Protocol):
    """The threads that wait for the disk: for commit rounds, for write-behind, for reads."""

    @property
    def journal(self) -> Worker: ...
    @property
    def background(self) -> Worker: ...
    @property
    def reads(self) -> Worker: ...


class Tasks(Protocol):
    """Runs coroutines concurrently with the present call; never one per message."""

    def spawn(self, work: Coroutine[Any, Any, None], cause: Cause = "task") -> None:
        """Run `work` as a task; an exception that it raises is reported as a defect."""
