"""The links of the controller to the workers that have joined it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.runtime.execution import Clock

T = TypeVar("T")


class WorkerLinks:
    """The links to the workers that load topics; one per controller."""

    def __init__(self, workers: int, clock: Clock) -> None:
        self._workers = workers
        self._links: dict[int, Link] = {}
        self._leaving: set[Link] = set()
        self._joined = Waiters(clock)

    def join(self, worker: int, link: Link, ended: Callable[[], None]) -> None:
        """Add a worker, which loads topics until its link ends or the worker leaves.

        `ended` is called when the link has ended.
        """
        if worker in self._links:
            # promise: a worker that is started again takes the place of the one before
            # The link of the former process, whose end was not noticed yet.
            self._links[worker].close()
        self._links[worker] = link
        self._joined.release()
        link.when_ended(partial(self._ended, worker, link, ended))

    def leave(self, worker: int) -> None:
        """Note that a worker is stopping: it loads no more topics, and closes those that it has."""
        if worker in self._links:
            self._leaving.add(self._links[worker])

    def _ended(self, worker: int, link: Link, ended: Callable[[], None]) -> None:
        self._leaving.discard(link)
        if self._links.get(worker) is link:
            del self._links[worker]
        ended()

    def missing(self) -> list[int]:
        """Return the numbers of the workers that have not joined, or have ended."""
        return [number for number in range(self._workers) if number not in self._links]

    async def complete(self) -> None:
        """Wait until all workers have joined."""
        while self.missing():
            await self._joined.wait()

    def all(self) -> list[Link]:
        """Return the links to all workers that have joined."""
        return list(self._links.values())

    def of(self, worker: int) -> Link | None:
        """Return the link to a worker; None if it is not there."""
        return self._links.get(worker)

    def loading(self, worker: int) -> Link | None:
        """Return the link to a worker that loads topics; None while it starts or stops."""
        link = self._links.get(worker)
        # promise[without None if link in self._leaving else]: a worker that stops is given no
        #   topics
        return None if link in self._leaving else link


async def unless_ended(link: Link, asked: Awaitable[T], of_ended: T) -> T:
    """Return the answer of a worker; `of_ended` if it has ended, and with it all its topics."""
    try:
        return await asked
    except ProcessUnavailable:
        if link.has_ended:  # promise: a worker that ends holds up no change of policies
            return of_ended
        raise
