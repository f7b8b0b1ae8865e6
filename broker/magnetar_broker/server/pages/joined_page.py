"""The page for Prometheus of a broker of several processes, joined by the controller.

Unlike `broker_page`, it imports the page's modules at once: before the fork, so that the processes
share them.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count

from magnetar_broker.authentication.authenticator import Authenticator
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.ipc.link import Link
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.metrics.joining import join
from magnetar_broker.metrics.loop import LoopStats
from magnetar_broker.metrics.process import process_part
from magnetar_broker.metrics.prometheus import (
    of_authentication,
    of_limits,
    of_loop,
    of_schemas,
    of_space,
    of_stray_objects,
    of_tls,
    of_workers,
)
from magnetar_broker.metrics.tls import TlsFigures
from magnetar_broker.schemas.counts import SchemaCounts
from magnetar_broker.server.pages.linked_page import page_of
from magnetar_broker.server.pages.metrics_page import IsWanted, Page, gradually
from magnetar_broker.server.runtime.pauses import long_work
from magnetar_broker.server.supervision.children import name_of
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.space.disk_space import SpaceState


class JoinedPage:
    """Makes the pages of a broker of several processes."""

    def __init__(
        self,
        cluster: str,
        workers: int,
        links: Mapping[int, Link],
        loop: LoopStats,
        clock: Clock,
        reached: ReachedLimits,
        authenticator: Authenticator | None = None,
        tls: Callable[[], TlsFigures | None] = lambda: None,
        schemas: SchemaCounts | None = None,
        space: SpaceState | None = None,
        stray: StrayObjects | None = None,
    ) -> None:
        """`links` are the links to the present workers, by worker number.

        `authenticator` is the one of HTTP requests; None while authentication is off.
        """
        self._authenticator = authenticator
        self._tls = tls
        self._schemas = schemas
        self._stray = stray
        self._space = space or SpaceState()
        self._cluster = cluster
        self._workers = workers
        self._links = links
        self._loop = loop
        self._clock = clock
        self._reached = reached
        self._numbers = count(1)

    async def make(self, is_wanted: IsWanted) -> Page | None:
        """Return a page of this process and the workers that answer in time; None if not wanted."""
        workers = sorted(self._links)
        asked = (self._links[worker] for worker in workers)
        number = next(self._numbers)
        pages = await asyncio.gather(
            *(page_of(link, number, self._clock, is_wanted) for link in asked)
        )
        if not is_wanted():
            return None
        by_worker = zip(workers, pages, strict=True)
        answered = {name_of(worker): page for worker, page in by_worker if page is not None}
        process = await asyncio.to_thread(process_part, self._cluster)  # it reads files
        outcomes = None if self._authenticator is None else self._authenticator.outcomes.counts()
        own = (
            process,
            of_loop(self._loop.figures(), self._cluster),
            of_authentication(outcomes, self._cluster),
            of_tls(self._tls(), self._cluster),
            of_space(self._space.figures(), self._cluster),
            of_limits(self._reached.counts, self._cluster),
            of_schemas(self._schemas, self._cluster),
            of_stray_objects(self._stray, self._cluster),
        )
        joined = join({**answered, name_of(None): own})
        # promise[answered -> pages]: only workers that answered are up
        known = of_workers(self._cluster, len(answered), self._workers)
        with long_work() as slices:
            page = [known, *await gradually(joined, is_wanted, slices)]
        return page if is_wanted() else None
