"""Runs periodic jobs beside the traffic: trimming, measuring, expiry, quotas."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from magnetar_broker.base.runtime import Runtime
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock, Timer, yield_turn
from magnetar_storage.runtime.mutex import Mutex

logger = logging.getLogger(__name__)


class Named(Protocol):
    """A topic, of which only the name is used."""

    @property
    def name(self) -> TopicName: ...


T = TypeVar("T", bound=Named)
PAUSE_EVERY = 256
"""The number of topics after which the rest of the broker gets a turn."""


class PeriodicJobs:
    """The jobs of a broker, whose rounds never overlap; each job continues after a failed round."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._jobs: dict[str, _Job] = {}
        self._running = False

    def every(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` repeatedly, `seconds` after its last end; never by itself if 0 or less."""
        assert name not in self._jobs
        job = self._jobs[name] = _Job(self._runtime, seconds, name, work)
        if self._running:
            job.schedule()

    def start(self) -> None:
        """Begin; the first rounds come after their intervals."""
        self._running = True
        for job in self._jobs.values():
            job.schedule()

    def stop(self) -> None:
        """Begin no more rounds; a running one ends by itself."""
        self._running = False
        for job in self._jobs.values():
            job.stop()

    async def run(self, name: str) -> None:
        """Do a round now, which has ended on return; raise its error."""
        await self._jobs[name].run()


class _Job:
    __slots__ = ("_name", "_one_at_a_time", "_runtime", "_seconds", "_stopped", "_timer", "_work")

    def __init__(
        self, runtime: Runtime, seconds: float, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        self._runtime = runtime
        self._seconds = seconds
        self._name = name
        self._work = work
        self._one_at_a_time = Mutex(runtime.clock)
        self._timer: Timer | None = None
        self._stopped = True

    def schedule(self) -> None:
        self._stopped = False
        if self._seconds > 0:
            spawn, later = self._runtime.tasks.spawn, self._runtime.clock.later
            self._timer = later(self._seconds, lambda: spawn(self._round()))

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    async def run(self) -> None:
        async with self._one_at_a_time.held():
            await self._work()

    async def _round(self) -> None:
        """Run the job once.  Errors of storage are logged; the task reports any other error."""
        try:
            if not self._stopped:
                await self.run()
        except StorageError as error:
            logger.warning("%s failed and will be retried: %s", self._name, error)
        finally:
            if not self._stopped:
                self.schedule()


async def each(
    clock: Clock, topics: Iterable[T], work: Callable[[T], Awaitable[None]], complaint: str
) -> None:
    """Call `work` for one topic after another; a storage error of one topic stops no other.

    `complaint` is logged with the topic's `name` and the error, as `"%s ...: %s"`.
    """
    for count, topic in enumerate(topics, 1):
        try:
            await work(topic)
        except StorageError as error:
            logger.warning(complaint, topic.name, error)
        if count % PAUSE_EVERY == 0:
            await yield_turn(clock)
