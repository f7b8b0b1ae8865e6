"""The leases that this process has in the metadata store of another one, and their renewal."""

from dataclasses import dataclass

from magnetar_broker.ipc.link import Link
from magnetar_storage.interfaces import Lease
from magnetar_storage.runtime.execution import Clock, Timer

RENEWALS = 3
"""The number of renewals of a lease within its time to live."""
MARGIN = 1 / 6
"""The part of the time to live that is left to work which began before the deadline."""


@dataclass(slots=True)
class _Held:
    lease: Lease
    ttl_seconds: float
    renewal: Timer
    loss: Timer


class Renewals:
    """Renews leases while this process's event loop runs; they end with the link.

    A renewal counts from when it was sent, and the other process counts from when it arrives.  So
    this process takes a lease for lost before the other one ends it, however long messages take.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        """Prepare the use of a link that is not connected yet."""
        self._link = link
        self._clock = clock
        self._held: dict[str, _Held] = {}
        link.serve({"metadata.renewed": self._renewed, "metadata.lost": self._lost})
        link.when_ended(self._end_all)

    def add(self, id: str, ttl_seconds: float, asked: float) -> Lease:
        """Return the lease that this process asked for at the time `asked`, and renew it."""
        lease = Lease(id)
        if self._link.has_ended:
            lease.lose()
        else:
            renewal = self._later_renewal(id, ttl_seconds)
            loss = self._last_until(lease, asked, ttl_seconds)
            self._held[id] = _Held(lease, ttl_seconds, renewal, loss)
        return lease

    def end(self, id: str) -> None:
        """Stop renewing a lease; it is lost."""
        held = self._held.pop(id, None)
        if held is not None:
            held.renewal.cancel()
            held.loss.cancel()
            held.lease.lose()

    def end_all(self) -> list[Lease]:
        """Stop renewing all leases, and return them; they are lost."""
        leases = [held.lease for held in self._held.values()]
        self._end_all()
        return leases

    def _end_all(self) -> None:
        for id in list(self._held):
            self.end(id)

    def _later_renewal(self, id: str, ttl_seconds: float) -> Timer:
        return self._clock.later(ttl_seconds / RENEWALS, lambda: self._renew(id))

    def _last_until(self, lease: Lease, sent: float, ttl_seconds: float) -> Timer:
        """Set the deadline of a lease that was asked for, or renewed, at the time `sent`."""
        lease.deadline = sent + ttl_seconds * (1 - MARGIN)
        # promise[self.end(lease.id) -> None]: a lease whose renewals are not answered is lost
        return self._clock.later(lease.deadline - self._clock.uptime(), lambda: self.end(lease.id))

    def _renew(self, id: str) -> None:
        held = self._held[id]
        # promise: a lease lasts as long as its process
        held.renewal = self._later_renewal(id, held.ttl_seconds)
        # Last, since a link that has too much to send ends, and its leases with it.
        self._link.notify("metadata.renew", id, self._clock.uptime())

    def _renewed(self, id: str, sent: float) -> None:
        if id in self._held:
            held = self._held[id]
            held.loss.cancel()
            held.loss = self._last_until(held.lease, sent, held.ttl_seconds)

    def _lost(self, id: str) -> None:
        self.end(id)
