"""Ending leases of processes that no longer renew them, where the server does not do it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

LONGEST_PAUSE: Final = 2.5
SHORTEST_PAUSE: Final = 0.1
"""The most and the fewest seconds between two looks at all leases."""
LOOKS: Final = 4
"""The number of looks within the time to live of a lease."""


class SeenLease(NamedTuple):
    """A lease as it was read."""

    id: int
    ttl_seconds: float
    renewals: int
    """The number of its renewals."""


class Expiry:
    """Finds leases that were not renewed for their time to live, by the clock of this process.

    Clocks of several machines are not compared.  A lease counts as unchanged from the time at which
    it was read first with its number of renewals: its owner has sent the last one before that.
    Times in which nothing could be read do not count, since nobody could renew anything then.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[SeenLease, float]] = {}
        """Each lease, and the uptime from which it is unchanged."""
        self._looked = -float("inf")

    def ended(self, leases: Iterable[SeenLease], asked: float, now: float) -> list[SeenLease]:
        """Return the leases to end among all that there are, which were read just now.

        `asked` is the uptime at which they were requested, and `now` that of the answer.  End each
        one only if it still has the number of renewals that was read.
        """
        found = {lease.id: lease for lease in leases}
        shortest = min((lease.ttl_seconds for lease in found.values()), default=0.0)
        # promise[never]: leases outlast the times in which nobody can renew them
        was_away = now - self._looked > max(2 * pause_for(shortest), shortest / 2)
        self._looked = now
        seen: dict[int, tuple[SeenLease, float]] = {}
        for id, lease in found.items():
            before, since = self._seen.get(id, (lease, now))
            # promise[before != lease -> False]: a lease that is renewed does not end
            if before != lease or was_away:
                since = now
            seen[id] = lease, since
        self._seen = seen
        return [lease for lease, since in seen.values() if asked - since >= lease.ttl_seconds]

    def pause(self) -> float:
        """Return the seconds until the next look."""
        return pause_for(min((lease.ttl_seconds for lease, _ in self._seen.values()), default=60.0))


def pause_for(ttl_seconds: float) -> float:
    """Return the seconds between looks at a lease of that time to live."""
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, ttl_seconds / LOOKS))
