"""Takes the bundles of a worker away during its restart, in the controller."""

import logging

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.names.bundle_changes import BundleChanges
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.balance import Bundle
from magnetar_broker.placement.bundles import BundleRefused, deal
from magnetar_storage.errors import StorageError

logger = logging.getLogger(__name__)


class Draining:
    """Moves bundles away from restarting workers; call `undrain` for each that was drained."""

    def __init__(self, bundles: BundleChanges, placement: Placement) -> None:
        self._bundles = bundles
        self._placement = placement
        self._former: dict[int, list[Bundle]] = {}

    async def drain(self, worker: int) -> None:
        """Give the bundles of a worker to the other workers; it gets none until `undrain`.

        A bundle that cannot be moved stays: its topics are closed when the worker ends.
        """
        placement = self._placement
        # promise: new namespaces do not go to a worker about to restart
        placement.drained.add(worker)
        self._former[worker] = bundles = [
            Bundle(namespace, bundle)
            for namespace, placed in placement.owners.all()
            for bundle, owner in zip(placed.bundles.ranges, placed.workers, strict=True)
            if owner == worker
        ]
        # Move one after another, so that the topics of each are closed no longer than in any move.
        for bundle, other in zip(bundles, deal(len(bundles), placement.least_busy()), strict=True):
            await self._move(bundle, other)

    async def undrain(self, worker: int) -> None:
        """Give a worker the bundles back that `drain` took away."""
        self._placement.drained.discard(worker)
        # promise[self._former.pop(worker, []) -> []]: a worker that was restarted gets its bundles
        #   back
        for bundle in self._former.pop(worker, []):
            await self._move(bundle, worker)

    async def _move(self, bundle: Bundle, worker: int) -> None:
        process = self._placement.owners.names[worker]
        try:
            await self._bundles.move(*bundle, process)
        except (BrokerError, BundleRefused, StorageError) as error:
            # The bundle may have been split, its namespace deleted, or a worker may have ended.
            logger.info(
                "bundle %s of %s has not moved to %s: %s",
                bundle.range,
                bundle.namespace,
                process,
                error,
            )
