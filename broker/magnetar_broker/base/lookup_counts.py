"""Counts lookups of clients over the binary protocol."""

from magnetar_broker.base.durations import Durations
from magnetar_storage.runtime.execution import Clock


class LookupCounts:
    """The numbers of lookups that one process has answered."""

    def __init__(self, clock: Clock) -> None:
        self.durations = Durations(clock)
        self.answered = self.redirected = self.failed = 0
        """The lookups answered with this process, with another one, and with an error."""
