"""The page for Prometheus of a process that serves topics."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from magnetar_broker.broker import Broker
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.metrics.figures import Figures
from magnetar_broker.metrics.gathering import Gatherer
from magnetar_broker.metrics.journal import JournalFigures, JournalStats
from magnetar_broker.metrics.loop import LoopFigures, LoopStats
from magnetar_broker.metrics.tls import TlsFigures
from magnetar_broker.metrics.usage import UsageMeter
from magnetar_broker.schemas.counts import SchemaCounts
from magnetar_broker.server.pages.metrics_page import IsWanted, Page, gradually
from magnetar_broker.server.runtime.pauses import long_work


class Advertised(Protocol):
    """An object that knows the address at which clients reach the broker."""

    @property
    def service_url(self) -> str:
        """The address that lookups answer with."""


class BrokerPage:
    """Makes the metrics page of one process."""

    def __init__(
        self,
        broker: Broker,
        advertised: Advertised,
        journal: JournalStats,
        loop: LoopStats,
        is_joined: bool = False,
        tls: Callable[[], TlsFigures | None] = lambda: None,
        schemas: SchemaCounts | None = None,
        stray: StrayObjects | None = None,
    ) -> None:
        """`is_joined` says that the page will be joined with the pages of other processes."""
        self._schemas = schemas
        self._stray = stray
        self._usage = UsageMeter(broker.engine.clock.now_ms())
        self._tls = tls
        self._broker = broker
        self._gatherer = Gatherer(broker)
        self._advertised = advertised
        self._journal = journal
        self._loop = loop
        self._is_joined = is_joined

    async def make(self, is_wanted: IsWanted) -> Page | None:
        """Return a page; None if it is no longer wanted."""
        with long_work() as slices:
            url = self._advertised.service_url
            figures = await self._gatherer.gather(url, is_wanted, slices.after)
            journal, loop, tls = self._journal.figures(), self._loop.figures(), self._tls()
            parts, process = await asyncio.to_thread(self._begin, figures, journal, loop, tls)
            page = [process, *await gradually(parts, is_wanted, slices)]
        return page if is_wanted() else None

    def _begin(
        self,
        figures: Figures,
        journal: JournalFigures,
        loop: LoopFigures,
        tls: TlsFigures | None,
    ) -> tuple[Iterator[bytes], bytes]:
        """Return an empty page, and the parts that should be made in a thread.

        Those parts read files in /proc.  The page's modules are imported with the first scrape.
        """
        from magnetar_broker.metrics.process import process_part  # noqa: PLC0415
        from magnetar_broker.metrics.prometheus import (  # noqa: PLC0415
            of_schemas,
            of_space,
            of_stray_objects,
            of_tls,
            of_usage,
            parts,
        )

        process = (
            process_part(figures.cluster),
            of_tls(tls, figures.cluster),
            of_space(self._broker.engine.space.figures(), figures.cluster),
            of_usage(self._usage.usage(figures.now_ms), figures),
            of_schemas(self._schemas, figures.cluster),
            of_stray_objects(self._stray, figures.cluster),
        )
        return parts(figures, journal, loop, self._is_joined), b"".join(process)
