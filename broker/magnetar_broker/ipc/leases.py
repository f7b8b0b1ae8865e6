"""The leases of the process at the other end of a link."""

import logging

from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.interfaces import Lease, MetadataStore
from magnetar_storage.runtime.execution import Clock, Tasks, Timer

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""The time after which a lease that could not be ended is ended again."""


class Leases:
    """The leases of the peer, which end by `revoke`, without timely renewal, or with the link."""

    def __init__(self, link: Link, store: MetadataStore, clock: Clock, tasks: Tasks) -> None:
        self._link = link
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._held: dict[str, tuple[float, Timer]] = {}
        """The time to live of each lease, with the timer that ends it."""
        link.when_ended(self._end_all)  # promise: the leases of a process end with it

    async def grant(self, ttl_seconds: float) -> str:
        """Return a new lease's id."""
        lease = await self._store.lease(ttl_seconds)
        self._hold(lease.id, ttl_seconds)
        if self._link.has_ended:  # promise: a lease that is made as its process ends is ended
            self._expire(lease.id)
        return lease.id

    def renew(self, lease: str, sent: float) -> None:
        """Extend a lease to its whole time from now on, and tell the peer; it asked at `sent`.

        If the lease has ended, the peer is told that.
        """
        if lease in self._held:
            ttl_seconds, timer = self._held[lease]
            timer.cancel()
            self._hold(lease, ttl_seconds)
            self._link.notify("metadata.renewed", lease, sent)
        else:
            self._link.notify("metadata.lost", lease)

    async def revoke(self, lease: str) -> None:
        """End a lease; durable on return.  No effect on a lease that this process does not hold."""
        if lease in self._held:
            await self._store.revoke(Lease(lease))  # if this fails, it ends when its time is over
            self._release(lease)  # promise: a revoked lease is released

    def held(self, lease: str) -> Lease:
        """Return the lease of that id; `Unavailable` if it has ended."""
        if lease not in self._held:
            raise Unavailable(f"lease {lease} has ended")
        return Lease(lease)

    def _hold(self, lease: str, ttl_seconds: float) -> None:
        self._held[lease] = ttl_seconds, self._clock.later(ttl_seconds, lambda: self._expire(lease))

    def _release(self, lease: str) -> None:
        if lease in self._held:
            _, timer = self._held.pop(lease)
            timer.cancel()

    def _expire(self, lease: str) -> None:
        if lease in self._held:
            self._link.notify("metadata.lost", lease)
        self._release(lease)
        self._tasks.spawn(self._end(lease), "link")

    def _end_all(self) -> None:
        for lease in list(self._held):
            self._expire(lease)

    async def _end(self, lease: str) -> None:
        """End a lease; retried later if it fails, because the process that held it is gone."""
        try:
            await self._store.revoke(Lease(lease))
        except StorageError as error:
            logger.warning(
                "the keys of %s under %s are still there, and are deleted later: %s",
                self._link.peer,
                lease,
                error,
            )
            # promise: a lease that could not be ended is ended later
            self._clock.later(RETRY_SECONDS, lambda: self._expire(lease))
