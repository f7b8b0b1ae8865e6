"""The queue of clients from one worker to another: limits, order, acknowledgements, no I/O."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outgoing(Generic[T]):
    """Items in the order of `add`: each waits, is sent, and is acknowledged by the receiver.

    At most `limit` items are kept, of which at most `window` are sent and not acknowledged.
    Nothing is sent before the receiver is ready, which is the first thing that it acknowledges.  An
    item waits at most `seconds` until it is sent.  `now` is in seconds, of any clock.
    """

    def __init__(self, limit: int, window: int, seconds: float) -> None:
        self._limit = limit
        self._window = window
        self._seconds = seconds
        self._waiting: deque[tuple[float, T]] = deque()  # each with its deadline
        self._sent: deque[tuple[float, T]] = deque()
        self._ready = False

    def __len__(self) -> int:
        """Return the number of items that wait or are sent."""
        return len(self._waiting) + len(self._sent)

    def add(self, item: T, now: float) -> bool:
        """Queue an item; return False if there are too many."""
        if len(self) >= self._limit:  # promise: clients that wait for a worker are limited
            return False
        self._waiting.append((now + self._seconds, item))
        return True

    def following(self) -> T | None:
        """Return the item to send next, or None; call `sent` after sending it."""
        # promise[without _ready and self.]: clients are sent only to a worker that is ready
        if self._ready and self._waiting and len(self._sent) < self._window:
            return self._waiting[0][1]
        return None

    def sent(self) -> None:
        """Note that the `following` item was sent; it is kept until it is acknowledged."""
        self._sent.append(self._waiting.popleft())

    @property
    def is_ready(self) -> bool:
        """Whether a receiver is connected and takes items."""
        return self._ready

    def items(self) -> list[T]:
        """Return all items, waiting or sent."""
        return [item for items in (self._sent, self._waiting) for _, item in items]

    def remove(self, item: T) -> bool:
        """Forget an item that waits; return False if it does not wait."""
        for at, (_, one) in enumerate(self._waiting):
            if one is item:
                del self._waiting[at]
                return True
        return False

    def acknowledged(self, count: int) -> list[T]:
        """Remove and return the items among the next `count` acknowledged elements."""
        if not self._ready and count:
            self._ready = True
            count -= 1
        return [self._sent.popleft()[1] for _ in range(count)]

    def lost(self) -> None:
        """Note that the receiver is gone; items without acknowledgement wait for the next one."""
        self._ready = False
        # promise: what a dead worker has not acknowledged is sent again
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()

    @property
    def deadline(self) -> float | None:
        """The time at which `expire` must be called; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def expire(self, now: float) -> list[T]:
        """Remove and return the items that have waited too long."""
        expired = []
        while self._waiting and self._waiting[0][0] <= now:
            expired.append(self._waiting.popleft()[1])
        return expired

    def clear(self) -> tuple[list[T], list[T]]:
        """Remove all items; return those that waited, and those that were sent."""
        waiting, sent = ([item for _, item in items] for items in (self._waiting, self._sent))
        self._waiting.clear()
        self._sent.clear()
        return waiting, sent
