"""The queue of what one worker sends to another: limits, order and acknowledgements, no I/O."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outgoing(Generic[T]):
    """Items in the order of `add`: each waits, is sent, and is acknowledged by the receiver.

    At most `limit` are kept, of which `window` are sent and not acknowledged.  None is sent before
    the receiver is ready, which is the first thing that it acknowledges.  Until an item is sent it
    waits at most `seconds`.  `now` is in seconds, of any clock.
    """

    def __init__(self, limit: int, window: int, seconds: float) -> None:
        self._limit = limit
        self._window = window
        self._seconds = seconds
        self._waiting: deque[tuple[float, T]] = deque()  # each with its deadline
        self._sent: deque[tuple[float, T]] = deque()
        self._ready = False

    def __len__(self) -> int:
        """The items that are waiting or sent."""
        return len(self._waiting) + len(self._sent)

    def add(self, item: T, now: float) -> bool:
        """Queue an item; False if there are too many."""
        if len(self) >= self._limit:  # promise: clients that wait for a worker are limited
            return False
        self._waiting.append((now + self._seconds, item))
        return True

    def following(self) -> T | None:
        """The item to send now, if there is one; call `sent` when it was sent."""
        # promise[without _ready and self.]: clients are sent only to a worker that is ready
        if self._ready and self._waiting and len(self._sent) < self._window:
            return self._waiting[0][1]
        return None

    def sent(self) -> None:
        """The `following` item was sent: it is kept until it is acknowledged."""
        self._sent.append(self._waiting.popleft())

    @property
    def is_ready(self) -> bool:
        """Whether there is a receiver that takes what is sent."""
        return self._ready

    def items(self) -> list[T]:
        """All that are waiting or sent."""
        return [item for items in (self._sent, self._waiting) for _, item in items]

    def remove(self, item: T) -> bool:
        """Forget an item that waits; False if it does not."""
        for at, (_, one) in enumerate(self._waiting):
            if one is item:
                del self._waiting[at]
                return True
        return False

    def acknowledged(self, count: int) -> list[T]:
        """The receiver acknowledged `count` things; the items among them, which are forgotten."""
        if not self._ready and count:
            self._ready = True
            count -= 1
        return [self._sent.popleft()[1] for _ in range(count)]

    def lost(self) -> None:
        """The receiver is gone: what it did not acknowledge waits for the next one."""
        self._ready = False
        # promise: what a dead worker has not acknowledged is sent again
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()

    @property
    def deadline(self) -> float | None:
        """When `expire` is to be called; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def expire(self, now: float) -> list[T]:
        """Forget the items that waited too long, and return them."""
        expired = []
        while self._waiting and self._waiting[0][0] <= now:
            expired.append(self._waiting.popleft()[1])
        return expired

    def clear(self) -> tuple[list[T], list[T]]:
        """Forget everything; returns the items that wait, and those that are sent."""
        waiting, sent = ([item for _, item in items] for items in (self._waiting, self._sent))
        self._waiting.clear()
        self._sent.clear()
        return waiting, sent
