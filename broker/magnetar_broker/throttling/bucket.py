"""A token bucket."""


class Bucket:
    """Fills continuously with `rate` tokens a period, up to `rate`; taking more makes a debt.

    Taking never fails: after a take that exceeds the content, callers wait until the debt is paid.
    So within any time t at most `rate` x (t / period + 1) is taken, plus the last take.  It
    calculates in whole parts of a token, so nothing is lost to rounding.  A clock that is set back
    costs the tokens of that time, nothing more.
    """

    __slots__ = ("_parts", "_per_unit", "_rate", "_since_ms")

    def __init__(self, rate: int, period_seconds: int, now_ms: int) -> None:
        """Create a full bucket; `rate` and `period_seconds` must be above 0."""
        self._rate = rate
        self._per_unit = period_seconds * 1000  # parts; `rate` of them come every millisecond
        self._parts = rate * self._per_unit
        self._since_ms = now_ms

    def left(self, now_ms: int) -> int:
        """Return the tokens that can be taken without a debt; 0 or less while there is one."""
        self._fill(now_ms)
        return self._parts // self._per_unit

    def take(self, amount: int, now_ms: int) -> None:
        """Take tokens, with a debt if need be."""
        self._fill(now_ms)
        self._parts -= amount * self._per_unit

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until a token is left."""
        self._fill(now_ms)
        return max(0, -((self._parts - self._per_unit) // self._rate))

    def set_rate(self, rate: int, now_ms: int) -> None:
        """Fill at another rate from now on; a debt remains."""
        self._fill(now_ms)
        self._rate = rate
        # What was saved up at a higher rate is not kept.
        self._parts = min(self._parts, rate * self._per_unit)

    def _fill(self, now_ms: int) -> None:
        passed_ms = now_ms - self._since_ms
        self._since_ms = now_ms
        # A clock may be set back.
        if passed_ms > 0:
            full = self._rate * self._per_unit
            self._parts = min(full, self._parts + passed_ms * self._rate)
