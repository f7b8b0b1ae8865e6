"""Keeps the segment ids of all workers above those of their topics' earlier segments."""

from contextlib import suppress

from magnetar_broker.base.waiters import Waiters
from magnetar_broker.links.link import Link
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.world.runtime import Clock


class LastIds:
    """Knows the last segment id that each worker has given.

    Topics may have segments that another worker has given ids to: with another number of workers
    they were served by others.  Clients need the ids of a topic to grow.
    """

    def __init__(self, workers: int, clock: Clock) -> None:
        self._workers = workers
        self._last: dict[int, SegmentId] = {}
        self._links: dict[int, Link] = {}
        self._complete = Waiters(clock)

    def follow(self, worker: int, link: Link) -> None:
        """A worker has started, or started again."""
        self._links[worker] = link

    async def join(self, worker: int, last: SegmentId) -> SegmentId:
        """The id beyond which a worker has to begin, once all workers have reported theirs."""
        self._last[worker] = last
        if len(self._last) == self._workers:
            self._complete.release()
        else:
            await self._complete.wait()
        return await self._largest(worker)

    async def advance(self, worker: int) -> None:
        """Have a worker go on beyond what the others have given, before it takes topics over.

        Raises what its store does if it cannot.
        """
        # promise[ProcessUnavailable -> Exception]: a worker whose store fails takes no bundles over
        with suppress(ProcessUnavailable):  # it has ended, and joins again, as all do that start
            largest = await self._largest(worker)
            await self._links[worker].request("segments.advance", largest)

    async def _largest(self, worker: int) -> SegmentId:
        """The largest id of all; this worker has reported its own when it joined."""
        for other in self._last.keys() - {worker}:
            with suppress(ProcessUnavailable):  # it has ended, and joins again with its id then
                self._last[other] = await self._links[other].request("segments.last_id")
        return max(self._last.values())
