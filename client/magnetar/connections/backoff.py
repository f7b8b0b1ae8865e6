"""The pauses between attempts. Pure: randomness is an argument."""

from collections.abc import Callable
from random import random


class Backoff:
    """Doubling pauses with jitter: each is between half of the nominal pause and all of it."""

    def __init__(self, first_ms: int, max_ms: int, uniform: Callable[[], float] = random) -> None:
        self._max_ms = max_ms
        self._uniform = uniform
        self._next_ms = first_ms

    def pause_s(self) -> float:
        """Return the next pause, in seconds."""
        nominal_ms = self._next_ms
        self._next_ms = min(nominal_ms * 2, self._max_ms)
        return nominal_ms * (0.5 + 0.5 * self._uniform()) / 1000
