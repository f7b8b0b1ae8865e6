"""How fast one subscription may deliver."""

from collections.abc import Callable, Sequence

from magnetar_broker.rates.rate_limit import RateLimit

UNLIMITED = 1 << 62
CAUGHT_UP_ENTRIES = 1000
"""Who is no further behind counts as caught up."""


class Throttle:
    """Several rates, each of which others may share; delivering waits for all of them."""

    __slots__ = ("_behind", "_by_entries", "_go", "limits")

    def __init__(
        self,
        limits: Sequence[RateLimit],
        go: Callable[[], None],
        by_entries: bool = False,
        behind: Callable[[], int] | None = None,
    ) -> None:
        """`go` is called when delivering may go on.

        `by_entries`: a batch counts as one message.  Who is caught up, by what `behind` says, is
        spared, if it is given.
        """
        self.limits = tuple(limits)
        self._go = go
        self._by_entries = by_entries
        self._behind = behind

    @property
    def is_spent(self) -> bool:
        """Whether nothing may be delivered at present."""
        return not self._is_spared() and not all(limit.admits(self) for limit in self.limits)

    def may_go(self) -> bool:
        """Whether something may be delivered; if not, `go` is called when it may."""
        if self._is_spared():
            return True
        for limit in self.limits:
            if not limit.admits(self):
                limit.wait(self, self._go)
                return False
        return True

    def room(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered at once; a last entry may exceed them."""
        if self._is_spared():
            return UNLIMITED, UNLIMITED
        messages, size = zip(*(limit.left(UNLIMITED) for limit in self.limits), strict=True)
        return min(messages), min(size)

    def took(self, entries: int, messages: int, size: int) -> None:
        """So much was delivered."""
        if not self._is_spared():
            for limit in self.limits:
                limit.take(entries if self._by_entries else messages, size)

    def _is_spared(self) -> bool:
        return self._behind is not None and self._behind() <= CAUGHT_UP_ENTRIES
