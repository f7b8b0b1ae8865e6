"""The permitted rate of messages, as checked by an observer at intervals."""


class Pace:
    """`rate` messages per second on average, and as many at once; 0 means no limit."""

    MOST_BEYOND = 12
    """The messages that one run may have beyond the limit: its last entry, and chunks."""

    def __init__(self, rate: int, now_ms: int) -> None:
        self.rate = rate
        self._since_ms = self._looked_ms = now_ms
        self._came = 0
        self._least_left = float(rate)

    def came(self, messages: int, now_ms: int) -> None:
        """Count messages since the last check, and check that they are not too many."""
        if self.rate:
            self._came += messages
            may = self.rate * ((now_ms - self._since_ms) / 1000 + 1) + self.MOST_BEYOND
            assert self._came <= may, "faster than the rate"
            self._least_left = self._filled(now_ms) - messages
            self._looked_ms = now_ms

    def may_be_spent(self, now_ms: int) -> bool:
        """Tell whether the rate may explain the silence: not if messages were due long ago."""
        return self.rate > 0 and self._filled(now_ms) < 1 + self.rate * 0.02

    def _filled(self, now_ms: int) -> float:
        """Return the least that is left: what came may have come before the bucket was full."""
        passed_ms = now_ms - self._looked_ms
        return min(self.rate, self._least_left + self.rate * passed_ms / 1000)
