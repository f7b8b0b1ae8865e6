"""The memory limit of one client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

HIGH_PERCENT = 95
"""The percentage of the limit above which consumers ask for fewer messages at a time."""


class MemoryLimit:
    """Counts the bytes of messages without receipt, and of messages received and not taken.

    0 means no limit.  Received messages are counted, but never refused.  One message may always be
    sent: an application that sends what it receives would otherwise deadlock.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.sending = 0
        self.received = 0
        self._wakers: set[Callable[[], None]] = set()
        self._reducers: set[Callable[[], None]] = set()

    @property
    def used(self) -> int:
        """The number of bytes counted."""
        return self.sending + self.received

    def has_room(self) -> bool:
        """Return whether one more message may wait for its receipt."""
        # promise[without not self.sending or]: who sends what it receives never waits for itself
        return not self.limit or not self.sending or self.used < self.limit

    @property
    def is_high(self) -> bool:
        """Whether the limit is nearly reached."""
        return bool(self.limit) and self.used * 100 > self.limit * HIGH_PERCENT

    def sends(self, size: int) -> None:
        """Count `size` more bytes that wait for a receipt; negative: fewer."""
        was_high = self.is_high
        self.sending += size
        self._changed(size, was_high)

    def receives(self, size: int) -> None:
        """Count `size` more bytes that are received and not taken; negative: fewer."""
        was_high = self.is_high
        self.received += size
        self._changed(size, was_high)

    def _changed(self, size: int, was_high: bool) -> None:
        if size > 0 and not was_high and self.is_high:
            for reduce in list(self._reducers):
                reduce()
        # promise: a producer that waits is told of room
        elif size < 0 and self._wakers and self.has_room():
            for wake in list(self._wakers):
                wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever there is room, until the block ends."""
        self._wakers.add(wake)
        try:
            yield
        finally:
            self._wakers.discard(wake)

    def on_high(self, reduce: Callable[[], None]) -> None:
        """Call `reduce` each time that the limit is nearly reached, until `forget`."""
        self._reducers.add(reduce)

    def forget(self, reduce: Callable[[], None]) -> None:
        """Stop calling `reduce` when memory is short."""
        self._reducers.discard(reduce)
