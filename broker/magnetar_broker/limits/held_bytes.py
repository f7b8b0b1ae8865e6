"""Limits the memory that clients make this process hold: incomplete frames, and output not read.

A client may hold much for a moment.  When the total exceeds the limit, the clients that have held
something for the longest are disconnected until the rest is within it: a client that makes progress
never counts as one that has waited for long.
"""

from typing import Literal, Protocol

from magnetar_broker.limits.reached import ClientLimit, ReachedLimits


class Holder(Protocol):
    """A connection that holds bytes of the broker's memory."""

    @property
    def address(self) -> str:
        """The address of the client, for people."""

    def give_up(self) -> None:
        """Close the connection at once, which frees its memory."""


class HeldBytes:
    """The sum over all connections of a process; `limit` in bytes, 0 for none."""

    def __init__(
        self, limit: int, reached: ReachedLimits, counted: ClientLimit, setting: str
    ) -> None:
        self.limit = limit
        self.used = 0
        self._reached = reached
        self._counted = counted
        self._setting = setting
        self._holders: dict[Holder, int] = {}
        """The bytes that each connection holds, in the order in which they began to hold any."""

    def hold(self, holder: Holder, size: int, begins: bool = False) -> None:
        """Set the bytes that a connection holds to `size`; `begins` if all of them are new."""
        before = self._holders.get(holder)
        # promise[(begins or not size) -> not size]: who has waited for longest is disconnected
        #   first
        if before is not None and (begins or not size):
            del self._holders[holder]
        if size:
            self._holders[holder] = size
        self.used += size - (before or 0)
        if 0 < self.limit < self.used:  # promise: received bytes are limited
            self._make_room()

    def _make_room(self) -> None:
        while self._holders and self.used > self.limit:
            oldest = next(iter(self._holders))
            self._reached.count(self._counted, self._setting, oldest.address)
            self.used -= self._holders.pop(oldest)
            oldest.give_up()


def buffer_bytes(size_mb: int | Literal["auto"], unknown_mb: int) -> int:
    """Return a buffer's setting in bytes; `unknown_mb` if the size of memory is unknown."""
    return (unknown_mb if size_mb == "auto" else size_mb) << 20
