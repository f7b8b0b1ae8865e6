"""A bucket: how much may happen in a period."""


class Bucket:
    """Fills smoothly with `rate` in a period, up to `rate`; beyond what is in it there is debt.

    Taking never fails: who has taken more than there was waits until the debt is gone.  So within
    any time t at most `rate` x (t / period + 1) is taken, and the last take on top.  It is
    reckoned in whole parts, so nothing is lost to rounding.  A clock that is put back costs what
    would have come meanwhile, nothing more.
    """

    __slots__ = ("_parts", "_per_unit", "_rate", "_since_ms")

    def __init__(self, rate: int, period_seconds: int, now_ms: int) -> None:
        """It begins full; `rate` and the period are above 0."""
        self._rate = rate
        self._per_unit = period_seconds * 1000  # parts; `rate` of them come every millisecond
        self._parts = rate * self._per_unit
        self._since_ms = now_ms

    def left(self, now_ms: int) -> int:
        """How much may be taken without a debt; 0 or less while there is one."""
        self._fill(now_ms)
        return self._parts // self._per_unit

    def take(self, amount: int, now_ms: int) -> None:
        """So much happened."""
        self._fill(now_ms)
        self._parts -= amount * self._per_unit

    def wait_ms(self, now_ms: int) -> int:
        """How long it takes until something is left."""
        self._fill(now_ms)
        return max(0, -((self._parts - self._per_unit) // self._rate))

    def become(self, rate: int, now_ms: int) -> None:
        """Fill at another rate from now on; a debt stays."""
        self._fill(now_ms)
        self._rate = rate
        self._parts = min(self._parts, rate * self._per_unit)

    def _fill(self, now_ms: int) -> None:
        passed_ms = now_ms - self._since_ms
        self._since_ms = now_ms
        if passed_ms > 0:
            full = self._rate * self._per_unit
            self._parts = min(full, self._parts + passed_ms * self._rate)
