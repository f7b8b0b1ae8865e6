"""Requests of a recovery: many in flight, their answers used in order, repeated in an outage."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar, cast

from magnetar_storage.errors import AccessDenied, StorageError, Unavailable
from magnetar_storage.objects.creation import FIRST_PAUSE, LONGEST_PAUSE
from magnetar_storage.runtime.execution import Clock, Worker, sleep

T = TypeVar("T")

LIMIT_SECONDS: Final = 60.0
"""The time for which a request is repeated while the store is away."""


class Answer(Generic[T]):
    """The result of a job in a worker: awaited at most once, at any time, or never."""

    __slots__ = ("_outcome",)

    def __init__(self, worker: Worker, job: Callable[[], T]) -> None:
        """Start the job."""
        # An error of the store is a result: that nobody waits for it is not a defect.
        self._outcome = worker.run(partial(_outcome_of, job))

    async def get(self) -> T:
        """Wait for the result, and return it, or raise the error of the job."""
        result, error = await self._outcome
        if error is not None:
            raise error
        return cast(T, result)


def _outcome_of(job: Callable[[], T]) -> tuple[T | None, StorageError | None]:
    try:
        return job(), None
    except StorageError as error:
        return None, error


async def patiently(
    clock: Clock, limit_seconds: float, answer: Answer[T], again: Callable[[], Answer[T]]
) -> T:
    """Return the result of a job; while the store is away, make it again by calling `again`.

    `Unavailable` after `limit_seconds`, `AccessDenied` at once.
    """
    deadline, pause = clock.uptime() + limit_seconds, FIRST_PAUSE
    while True:
        try:
            return await answer.get()
        except AccessDenied:
            raise  # stays so: trying again only delays the report
        except Unavailable:
            left = deadline - clock.uptime()
            if left <= 0:
                raise
        await sleep(clock, min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE)
        answer = again()


async def patiently_in(worker: Worker, clock: Clock, job: Callable[[], T]) -> T:
    """Return the result of a job in a worker, as `patiently` does within `LIMIT_SECONDS`."""

    def ask() -> Answer[T]:
        return Answer(worker, job)

    return await patiently(clock, LIMIT_SECONDS, ask(), ask)


class LookAhead(Generic[T]):
    """Results of a job for each of consecutive slots, in order; as many ahead as there are workers.

    A slot's job always runs in the same worker, and its result waits there for its turn.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        clock: Clock,
        job: Callable[[int], T],
        slots: range,
        limit_seconds: float,
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._job = job
        self._not_asked = iter(slots)
        self._limit_seconds = limit_seconds
        self._asked: deque[tuple[int, Answer[T]]] = deque()
        for _ in workers:
            self._ask_next()

    async def next(self) -> T:
        """Return the result for the next slot; an error that is raised ends the look-ahead."""
        slot, answer = self._asked.popleft()
        result = await patiently(self._clock, self._limit_seconds, answer, partial(self._ask, slot))
        # Only now: what a slow consumer has not asked for takes no memory.
        self._ask_next()
        return result

    def _ask_next(self) -> None:
        slot = next(self._not_asked, None)
        if slot is not None:
            self._asked.append((slot, self._ask(slot)))

    def _ask(self, slot: int) -> Answer[T]:
        worker = self._workers[slot % len(self._workers)]
        return Answer(worker, partial(self._job, slot))
