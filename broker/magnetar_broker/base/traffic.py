"""State of one topic's traffic for its statistics, besides counters.

It is apart from `meter.py` because it is compiled: every run and acknowledgement uses it.
"""

from magnetar_storage.runtime.execution import Clock


class Traffic:
    """The state of one loaded topic, which its producers, subscriptions and consumers share."""

    __slots__ = ("_now_ms", "changed", "chunked", "created_ms", "fresh", "seen")

    def __init__(self, clock: Clock) -> None:
        self.fresh = False
        """Whether a counter may have changed since the last window of the rates was closed, or a
        rate is not 0.  The rates of a topic with False need no work."""
        self.changed = True
        """Whether figures of the topic may have changed since they were last gathered.  Code that
        changes a figure sets this, and the code that gathers resets it."""
        self.seen: object = None
        """The figures that were gathered then."""
        self.chunked = False
        """Whether the topic has had a chunk since it was loaded: only then are chunks counted."""
        self.created_ms = clock.now_ms()
        """The time at which the topic was loaded."""
        self._now_ms = clock.now_ms

    def change(self) -> None:
        """Note a change that is not traffic, for example of the number of producers."""
        self.changed = True

    def now_ms(self) -> int:
        """Return the present time for something that is counted, and note that there is traffic."""
        self.fresh = self.changed = True  # promise[without self.changed =]: traffic is a change
        return self._now_ms()
