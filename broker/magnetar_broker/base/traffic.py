"""What the traffic of one topic leaves behind for its statistics, besides counters.

Apart from `meter.py` because it is compiled: it is asked once for every run and acknowledgement.
"""

from magnetar_storage.world.runtime import Clock


class Traffic:
    """One per loaded topic; its producers, subscriptions and consumers share it."""

    __slots__ = ("_now_ms", "changed", "chunked", "created_ms", "fresh", "seen")

    def __init__(self, clock: Clock) -> None:
        self.fresh = False
        """Whether a counter may have changed since the last window of the rates was closed, or a
        rate is not 0.  The rates of a topic without it need no work."""
        self.changed = True
        """Whether figures of the topic may have changed since they were gathered last.  Set by
        whoever changes something that others show, unset by who gathers."""
        self.seen: object = None
        """What was gathered then."""
        self.chunked = False
        """Whether the topic has had a chunk since it was loaded: only then are chunks counted."""
        self.created_ms = clock.now_ms()
        """When the topic was loaded."""
        self._now_ms = clock.now_ms

    def change(self) -> None:
        """Something changed that is no traffic, such as the producers that there are."""
        self.changed = True

    def now_ms(self) -> int:
        """The time of something that is counted, which is part of the next rates."""
        self.fresh = self.changed = True  # promise[without self.changed =]: traffic is a change
        return self._now_ms()
