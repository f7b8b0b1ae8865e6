"""A `magnetar_storage.runtime.execution` without threads or waiting: the test advances it."""

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from magnetar_storage.runtime.execution import Cause

T = TypeVar("T")


class ManualPromise:
    """A promise whose waiters are resumed when it is settled."""

    def __init__(self) -> None:
        self._settled = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> bool:
        return self._settled

    def set_result(self, result: Any, /) -> None:
        self._settle(result, None)

    def set_exception(self, error: BaseException, /) -> None:
        self._settle(None, error)

    def result(self) -> Any:
        assert self._settled, "not settled yet"
        if self._error is not None:
            raise self._error
        return self._result

    def when_done(self, call: Callable[[], None]) -> None:
        if self._settled:
            call()
        else:
            self._callbacks.append(call)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        assert not self._settled, "a promise is settled once"
        self._settled, self._result, self._error = True, result, error
        for call in self._callbacks:
            call()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._settled:
            yield self
        return self.result()


class ManualTimer:
    """A call that `ManualClock.advance` makes unless it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class ManualClock:
    """A clock that stands still until `advance`; deferred calls run in `pump`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._set_ms = 0
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._timers_made = 0

    def now_ms(self) -> int:
        return self._now_ms

    def uptime(self) -> float:
        return (self._now_ms - self._set_ms) / 1000

    def soon(self, call: Callable[[], None], cause: Cause = "other") -> None:
        self._soon.append(call)

    def later(self, seconds: float, call: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(call)
        self._timers_made += 1
        heapq.heappush(self._timers, (self._now_ms + seconds * 1000.0, self._timers_made, timer))
        return timer

    def promise(self) -> ManualPromise:
        return ManualPromise()

    def step(self) -> bool:
        """Make one deferred call; return False if there is none."""
        if not self._soon:
            return False
        self._soon.popleft()()
        return True

    def pump(self) -> None:
        """Make all deferred calls, including those deferred meanwhile."""
        while self.step():
            pass

    def forget(self) -> None:
        """Drop all deferred calls, because their process has ended."""
        self._soon.clear()
        self._timers.clear()

    def set_forward(self, ms: int) -> None:
        """Set the wall clock forward; timers do not fire earlier because of it."""
        self._now_ms += ms
        self._set_ms += ms
        self._timers = [(due + ms, number, timer) for due, number, timer in self._timers]

    def advance_to_timer(self) -> bool:
        """Let time pass until the next timer is due; False if there is none."""
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        self.advance(max(0.0, (self._timers[0][0] - self._now_ms) / 1000))
        return True

    def advance(self, seconds: float) -> None:
        """Let time pass: the timers due fire in order, with a pump after each."""
        until = self._now_ms + seconds * 1000.0
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, int(due))
            if timer.call is not None:
                timer.call()
            self.pump()
        self._now_ms = int(until)


def _settle_by(
    job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
) -> Callable[[], None]:
    """Run the job now; return the call that reports its outcome."""
    try:
        result = job()
    except Exception as error:
        failure = error
        return lambda: done(None, failure)
    return lambda: done(result, None)


class _Worker(ABC):
    """Implements `run` by `submit`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    @abstractmethod
    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Submit a job; see `Worker.submit`."""

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        promise = ManualPromise()

        def settle(result: Any, error: BaseException | None) -> None:
            if error is None:
                promise.set_result(result)
            else:
                promise.set_exception(error)

        self.submit(job, settle)
        return promise


class InlineWorker(_Worker):
    """Runs each job immediately; its outcome is reported with the next pump."""

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._clock.soon(_settle_by(job, done))


class QueuedWorker(_Worker):
    """Keeps jobs until the test runs them, one per `step`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def forget(self, landing: bool = False) -> None:
        """Drop all jobs, because their process has ended; if `landing` the first one is done."""
        if landing and self._jobs:
            # Nobody learns of its outcome.
            _settle_by(*self._jobs[0])
        self._jobs.clear()

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._jobs.append((job, done))

    def step(self) -> bool:
        """Run the oldest job and report its outcome; return False if there is none."""
        if not self._jobs:
            return False
        _settle_by(*self._jobs.popleft())()
        return True


class InlineWorkers:
    """Three workers that run every job immediately."""

    def __init__(self, clock: ManualClock) -> None:
        self.journal = InlineWorker(clock)
        self.background = InlineWorker(clock)
        self.reads = InlineWorker(clock)


class QueuedWorkers:
    """Three workers that wait for the test."""

    def __init__(self, clock: ManualClock) -> None:
        self.journal = QueuedWorker(clock)
        self.background = QueuedWorker(clock)
        self.reads = QueuedWorker(clock)

    def step(self) -> bool:
        """Let every worker run one job; return False if there was none."""
        return any([self.journal.step(), self.background.step(), self.reads.step()])


def start(coro: Coroutine[Any, Any, T]) -> ManualPromise:
    """Run a coroutine up to its first wait, and continue whenever its promise is settled."""
    outcome = ManualPromise()

    def advance() -> None:
        try:
            waits_for = coro.send(None)
        except StopIteration as end:
            outcome.set_result(end.value)
        except Exception as error:
            outcome.set_exception(error)
        else:
            assert isinstance(waits_for, ManualPromise), "awaits something of another world"
            waits_for.when_done(advance)

    advance()
    return outcome


def run(
    coro: Coroutine[Any, Any, T], clock: ManualClock, idle: Callable[[], bool] = lambda: False
) -> T:
    """Drive a coroutine to its end by pumping; `idle` (such as `QueuedWorkers.step`) helps."""
    outcome = start(coro)
    while not outcome.done():
        if not clock.step() and not idle():
            raise AssertionError("the coroutine waits for something that will never come")
    result: T = outcome.result()
    return result


class ManualTasks:
    """Coroutines that start with the next pump, which raises their exceptions."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._not_begun: list[Coroutine[Any, Any, None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], cause: Cause = "task") -> None:
        self._not_begun.append(work)
        self._clock.soon(lambda: self._begin(work))

    def forget(self) -> None:
        """Close coroutines that have not started, because their process has ended."""
        for work in self._not_begun:
            work.close()
        self._not_begun.clear()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._not_begun.remove(work)
        outcome = start(work)
        outcome.when_done(outcome.result)
