"""The right to serve the data of a store, which one broker at a time has, under a lease."""

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from magnetar_broker.base.metadata_keys import DIRECTORY
from magnetar_storage.errors import BadVersion, Unavailable
from magnetar_storage.interfaces import ABSENT, Guard, Lease, MetadataStore
from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger(__name__)


class Leadership(NamedTuple):
    """The proof that this broker serves the data."""

    lease: Lease
    guard: Guard
    """The condition of all writes to the metadata: they fail once another broker serves."""
    uptime: Callable[[], float]

    def holds(self) -> bool:
        """Return whether no other broker can have begun to serve."""
        # promise[without not self.lease.is_lost and]: nothing is confirmed after the loss
        # promise[and self.uptime() < self.lease.deadline -> and True]:
        #   nothing is confirmed at the end of a lease, before its loss is noticed
        return not self.lease.is_lost and self.uptime() < self.lease.deadline


async def lead(metadata: MetadataStore, clock: Clock, seconds: float, name: str) -> Leadership:
    """Wait until no other broker serves the data, and become the one that does.

    The lease lasts `seconds` after its last renewal.  `name` names this broker to the others.
    """
    changes, waits_for = metadata.watch(DIRECTORY), ""
    try:
        # The first change comes at once, and each other one may be the end of a leader.
        async for _ in changes:
            if (leader := await _leader(metadata)) is not None:
                if leader != waits_for:
                    logger.info("standby: %s serves the data; waiting until it ends", leader)
                waits_for = leader
            elif (leadership := await _try(metadata, clock, seconds, name)) is not None:
                return leadership
    finally:
        changes.end()
    raise Unavailable("the metadata was closed while this broker waited to serve")


async def _leader(metadata: MetadataStore) -> str | None:
    """Return the name of the broker that serves; None if none does."""
    found = await metadata.get(DIRECTORY)
    return None if found is None else str(json.loads(found.value)["broker"])


async def _try(
    metadata: MetadataStore, clock: Clock, seconds: float, name: str
) -> Leadership | None:
    """Become the broker that serves; None if another one was faster."""
    lease = await metadata.lease(seconds)
    try:
        value = json.dumps({"broker": name}).encode()
        # promise[, ABSENT -> , None]: a broker does not take over from one that serves
        version = await metadata.put(DIRECTORY, value, ABSENT, lease)
    except BaseException as error:
        await metadata.revoke(lease)
        if isinstance(error, BadVersion):
            return None
        raise
    return Leadership(lease, Guard(DIRECTORY, version), clock.uptime)
