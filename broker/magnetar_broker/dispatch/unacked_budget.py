"""Messages that a whole broker has out unacknowledged, against one limit."""

from typing import Protocol


class Holder(Protocol):
    """A subscription's part of the budget."""

    @property
    def unacked(self) -> int:
        """Messages that its consumers hold."""

    def go_on(self) -> None:
        """It was stopped by the budget and may deliver again."""


class UnackedBudget:
    """At `limit` messages, holders of more than `share` of it are stopped; 0 is no limit.

    One that is stopped goes on once it holds less than half of its share, and all of them once
    everybody together holds less than half of the limit.
    """

    def __init__(self, limit: int = 0, share: float = 0.16) -> None:
        self.limit = limit
        self.total = 0
        self._share = max(1, int(limit * share))
        self._exceeded = False
        self._stopped: dict[Holder, None] = {}

    def room(self, holder: Holder) -> int:
        """Messages that a holder may be given; who has none is stopped from now on."""
        if self.limit <= 0:
            raise ValueError("without a limit nobody asks for room")
        if holder in self._stopped:
            return 0
        room = self._share - holder.unacked
        if not self._exceeded:
            room = max(room, self.limit - self.total)
        if room <= 0:
            self._exceeded = True
            self._stopped[holder] = None
        return max(room, 0)

    def stops(self, holder: Holder) -> bool:
        """Whether a holder found no room and has not been told to go on."""
        return holder in self._stopped

    def add(self, holder: Holder, messages: int) -> None:
        """A holder has so many more, or fewer."""
        self.total += messages
        if messages > 0 or not self._exceeded:
            return
        if self.total * 2 < self.limit:
            self._exceeded = False
            stopped, self._stopped = list(self._stopped), {}
        elif holder in self._stopped and holder.unacked * 2 < self._share:
            del self._stopped[holder]
            stopped = [holder]
        else:
            stopped = []
        for one in stopped:
            one.go_on()
