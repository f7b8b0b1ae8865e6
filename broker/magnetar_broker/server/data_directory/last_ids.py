"""Keeps segment ids of all workers above the ids of their topics' earlier segments."""

from contextlib import suppress

from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.runtime.execution import Clock


class LastIds:
    """The last segment id that each worker has assigned.

    A topic may have segments whose ids another worker assigned: with another number of workers,
    another worker served it.  Clients need the ids of a topic's segments to grow.
    """

    def __init__(self, workers: int, clock: Clock) -> None:
        self._workers = workers
        self._last: dict[int, SegmentId] = {}
        self._links: dict[int, Link] = {}
        self._complete = Waiters(clock)

    def follow(self, worker: int, link: Link) -> None:
        """Use the link to a worker that has started, or started again."""
        self._links[worker] = link

    def rejoin(self, worker: int, last: SegmentId) -> None:
        """Take the last id of a worker that has joined a former process of this one."""
        self._last[worker] = last
        if len(self._last) == self._workers:
            self._complete.release()

    async def join(self, worker: int, last: SegmentId) -> SegmentId:
        """Return the id above which a worker's ids begin; waits until all have reported theirs."""
        self.rejoin(worker, last)
        if len(self._last) < self._workers:
            await self._complete.wait()
        return await self._largest(worker)

    async def advance(self, worker: int) -> None:
        """Make a worker's ids continue above all others, before the worker takes topics over.

        Raises the error of the worker's store if it cannot.
        """
        # promise[ProcessUnavailable -> Exception]: a worker whose store fails takes no bundles over
        with suppress(ProcessUnavailable):  # the worker has ended, and joins again at its start
            largest = await self._largest(worker)
            await self._links[worker].request("segments.advance", largest)

    async def _largest(self, worker: int) -> SegmentId:
        """Return the largest id of the workers; this one reported its own when it joined."""
        for other in self._last.keys() - {worker}:
            # A worker that has ended will join with its id again.
            with suppress(ProcessUnavailable):
                self._last[other] = await self._links[other].request("segments.last_id")
        return max(self._last.values())
