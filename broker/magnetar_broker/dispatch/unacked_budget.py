"""The limit of unacknowledged messages of the whole broker (maxUnackedMessagesPerBroker)."""

from typing import Protocol


class UnackedCounted(Protocol):
    """The unacknowledged messages of one subscription."""

    @property
    def unacked(self) -> int:
        """The number of unacknowledged messages."""

    def resume(self) -> None:
        """Deliver again, after the budget had stopped the subscription."""


class UnackedBudget:
    """Limits unacknowledged messages of all subscriptions together.

    At `limit` messages, subscriptions with more than `share` of it are stopped; 0 means no limit.
    A stopped one resumes once it has less than half of its share, and all of them resume once the
    total is less than half of the limit.
    """

    def __init__(self, limit: int = 0, share: float = 0.16) -> None:
        self.limit = limit
        self.total = 0
        self._share = max(1, int(limit * share))
        self._exceeded = False
        self._stopped: dict[UnackedCounted, None] = {}

    def room(self, counted: UnackedCounted) -> int:
        """Return how many messages a subscription may still send; stop it at 0."""
        if self.limit <= 0:
            raise ValueError("there is no limit, so there is no room to ask for")
        if counted in self._stopped:
            return 0
        # Below the limit of the broker a subscription may have all that is left of it; once that
        # was exceeded, its share only.
        room = self._share - counted.unacked
        if not self._exceeded:
            room = max(room, self.limit - self.total)
        # Stopped when it asks for room: one that sends nothing need not be woken.
        if room <= 0:
            self._exceeded = True
            self._stopped[counted] = None
        return max(room, 0)

    def stops(self, counted: UnackedCounted) -> bool:
        """Return whether a subscription found no room and has not resumed."""
        return counted in self._stopped

    def add(self, counted: UnackedCounted, messages: int) -> None:
        """Add to the unacknowledged messages of a subscription; a negative number removes some."""
        self.total += messages
        if messages > 0 or not self._exceeded:
            return
        # Resume only below half of the limit: otherwise every acknowledgement would stop and resume
        # all of them.
        if self.total * 2 < self.limit:
            self._exceeded = False
            stopped, self._stopped = list(self._stopped), {}
        elif counted in self._stopped and counted.unacked * 2 < self._share:
            del self._stopped[counted]
            stopped = [counted]
        else:
            stopped = []
        for one in stopped:
            one.resume()
