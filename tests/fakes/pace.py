"""How fast messages may come, as an observer sees it who looks now and then."""


class Pace:
    """`rate` messages a second on the average, and as many at once; 0 is no limit."""

    MOST_BEYOND = 12
    """What one run may bring beyond the limit: its last entry, and chunks of one message."""

    def __init__(self, rate: int, now_ms: int) -> None:
        self.rate = rate
        self._since_ms = self._looked_ms = now_ms
        self._came = 0
        self._least_left = float(rate)

    def came(self, messages: int, now_ms: int) -> None:
        """So many came since the last look, and not too many."""
        if self.rate:
            self._came += messages
            may = self.rate * ((now_ms - self._since_ms) / 1000 + 1) + self.MOST_BEYOND
            assert self._came <= may, "faster than the rate"
            self._least_left = self._filled(now_ms) - messages
            self._looked_ms = now_ms

    def may_be_spent(self, now_ms: int) -> bool:
        """Whether the rate may be what nothing comes for: not if it could have come long ago."""
        return self.rate > 0 and self._filled(now_ms) < 1 + self.rate * 0.02

    def _filled(self, now_ms: int) -> float:
        """At least so much is left, for what came may have come before the bucket was full."""
        passed_ms = now_ms - self._looked_ms
        return min(self.rate, self._least_left + self.rate * passed_ms / 1000)
