"""Moves bundles from workers that have much to do to those that have little, in the controller."""

import logging
from collections.abc import Awaitable
from typing import Any, NamedTuple

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.directory import Directory
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.balance import Bundle, Imbalance, choose, find_imbalance
from magnetar_broker.placement.bundles import BundleRefused
from magnetar_broker.placement.worker_links import WorkerLinks, unless_ended
from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger(__name__)

BALANCING = "balancing of bundles"
USED, TRAFFIC = "load.used", "load.traffic"
"""The requests of the controller to a worker: for its processor time so far, and its traffic."""


class _Used(NamedTuple):
    """The processor time that a worker had taken at a time; both in seconds."""

    link: Link
    processor: float
    at: float


class Balancing:
    """Balances the load of the workers; one per controller, call `register` once.

    A round compares the loads of the workers since the round before it.  If one worker is the
    busiest in two rounds, by more than the threshold, one of its bundles moves to the idlest.
    """

    def __init__(
        self, settings: Settings, directory: Directory, placement: Placement, links: WorkerLinks
    ) -> None:
        self._directory = directory
        self._owners = placement.owners
        self._drained = placement.drained
        self._links = links
        self._clock: Clock = directory.runtime.clock
        self._used: dict[int, _Used] = {}
        self._loads: dict[int, float] = {}
        self._imbalance: Imbalance | None = None
        self._moved: dict[Bundle, int] = {}
        """The times at which this class moved bundles, in milliseconds since 1970."""
        self._is_reported = False
        """Whether the log already says that no move of a bundle reduces the present imbalance."""
        if settings.load_balancer_enabled:
            placement.load_of = self.load_of  # promise: new bundles go to the least busy worker

    @property
    def _settings(self) -> Settings:
        return self._directory.settings

    def register(self) -> None:
        """Schedule a round in every interval, unless balancing is switched off."""
        settings = self._settings
        if settings.load_balancer_enabled:
            seconds = settings.load_balancer_shedding_interval_minutes * 60
            self._directory.jobs.every(seconds, BALANCING, self._round)

    def load_of(self, worker: int) -> float:
        """Return a worker's load in the last round in tenths of a core: similar loads are equal."""
        return round(self._loads.get(worker, 0.0), 1)

    async def _round(self) -> None:
        self._loads = await self._measure()
        before, self._imbalance = self._imbalance, None
        # promise[len(self._loads) < self._owners.workers -> not self._loads]: loads are compared
        #   only when all are known
        # promise[without or self._drained]: no bundle moves while a worker is drained
        if len(self._loads) < self._owners.workers or self._drained:
            return  # one has just started, or is about to be restarted
        self._imbalance = found = find_imbalance(
            self._loads, self._settings.load_balancer_broker_threshold_shedder_percentage / 100
        )
        if found is None:
            self._is_reported = False
        # promise[without and before.busiest == found.busiest]: only a lasting imbalance moves a
        #   bundle
        elif (
            self._settings.load_balancer_shedding_enabled
            and before is not None
            and before.busiest == found.busiest
        ):
            await self._relieve(found)

    async def _measure(self) -> dict[int, float]:
        """Return the cores that each worker has used since the last round, where known."""
        loads = {}
        for worker in self._owners.names:
            link = self._links.of(worker)
            used = None if link is None else await _ask(link, USED)
            before = self._used.pop(worker, None)
            if link is not None and used is not None:
                self._used[worker] = now = _Used(link, *used)
                # promise[without before.link is link and]: the load of a restarted worker begins
                #   again
                if before is not None and before.link is link and now.at > before.at:
                    loads[worker] = (now.processor - before.processor) / (now.at - before.at)
        return loads

    async def _relieve(self, found: Imbalance) -> None:
        link = self._links.of(found.busiest)
        answer = None if link is None else await _ask(link, TRAFFIC)
        if answer is None:
            return  # the worker has just ended
        traffic = {Bundle(namespace, text): rate for namespace, text, rate in answer}
        busiest, idlest = self._loads[found.busiest], self._loads[found.idlest]
        bundle = choose(traffic, self._recent(), busiest, idlest)
        names = self._owners.names
        loads = (names[found.busiest], busiest, names[found.idlest], idlest)
        if bundle is not None:
            logger.info(
                "bundle %s of %s moves from %s, which uses %.2f cores, to %s, which uses %.2f",
                bundle.range,
                bundle.namespace,
                *loads,
            )
            await self._move(bundle, names[found.idlest])
        elif not self._is_reported:
            self._is_reported = True
            logger.info(
                "%s uses %.2f cores and %s %.2f, and no move of a bundle changes that: split the "
                "bundle that has most of the traffic, or give its topics more partitions",
                *loads,
            )

    def _recent(self) -> set[Bundle]:
        """Return the bundles that were moved within the grace period."""
        minutes = self._settings.load_balancer_shedding_grace_period_minutes
        since = self._clock.now_ms() - minutes * 60_000
        self._moved = {bundle: at for bundle, at in self._moved.items() if at > since}
        return set(self._moved)

    async def _move(self, bundle: Bundle, process: str) -> None:
        try:
            await self._directory.bundles.move(*bundle, process)
            self._moved[bundle] = self._clock.now_ms()  # promise: moves are remembered
        except (BrokerError, BundleRefused) as error:
            # The bundle may have been split, or its namespace deleted, since the worker answered.
            logger.info("bundle %s of %s has not moved: %s", bundle.range, bundle.namespace, error)


async def _ask(link: Link, what: str) -> Any:
    """Return the answer of a worker; None if it has ended."""
    asked: Awaitable[Any] = link.request(what)
    return await unless_ended(link, asked, None)
