"""The times at which a lease is renewed, and at which it may have ended."""

from collections.abc import Awaitable, Callable
from typing import Final

from magnetar_storage.errors import Unavailable

RENEWALS: Final = 4
"""The number of renewals of a lease within its time to live."""
REPETITIONS: Final = 16
"""The number of attempts within its time to live while renewals fail."""
MARGIN: Final = 1 / 6
"""The part of the time to live that is left to work which began before the deadline."""


class LeaseTimes:
    """The times of one lease, all of them uptimes (`Clock.uptime`).

    A renewal counts from when it was sent, and the server counts from when it arrives, so the
    deadline comes first, however long messages take.
    """

    def __init__(self, ttl_seconds: float, sent: float) -> None:
        """Begin with a lease that was requested at the time `sent`."""
        self._ttl = ttl_seconds
        self.renewed(sent)

    def renewed(self, sent: float) -> None:
        """Note the answer to a renewal that was sent at the time `sent`."""
        # promise[* (1 - MARGIN) -> * (1 + MARGIN)]: a lease is taken for lost before it ends
        self.deadline = sent + self._ttl * (1 - MARGIN)
        self.next = sent + self._ttl / RENEWALS

    def failed(self, now: float) -> None:
        """Note that a renewal had no answer."""
        self.next = now + self._ttl / REPETITIONS

    def has_ended(self, now: float) -> bool:
        """Return whether the lease may have ended."""
        return now >= self.deadline

    def pause(self, now: float) -> float:
        """Return the seconds until the next renewal or the deadline; 0 if one is due."""
        return max(0.0, min(self.next, self.deadline) - now)


async def keep(
    times: LeaseTimes,
    renew: Callable[[], Awaitable[bool]],
    uptime: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    renewed: Callable[[float], None],
) -> None:
    """Renew a lease until it has ended, or may have; then return.

    `renew()` returns whether the lease still exists, and raises `Unavailable` before the deadline
    if there is no answer; `renewed(deadline)` is called after each renewal.
    """
    while not times.has_ended(uptime()):
        if (pause := times.pause(uptime())) > 0:
            await sleep(pause)
            continue
        sent = uptime()
        try:
            exists = await renew()
        except Unavailable:
            times.failed(uptime())
            continue
        # promise[times.has_ended(uptime()) -> False]: an answer that comes after the deadline does
        #   not bring back a lease that others take for lost
        if not exists or times.has_ended(uptime()):
            return
        times.renewed(sent)
        renewed(times.deadline)
