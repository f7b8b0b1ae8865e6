"""The newest entries of every log, in memory, within one byte budget.

A log's tail is a pair of flat lists, so that a run is appended and read at the speed
of list slices.  When the budget is exceeded the oldest run of all logs is dropped first.
"""

from collections import deque
from collections.abc import Sequence

from magnetar_storage.interfaces import Run

ENTRY_OVERHEAD = 64
"""Bytes a cached entry needs beside its payload: object headers and list slots."""


class EntryCache:
    """Holds at most `budget` bytes over all tails."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._order: deque[tuple[Tail, int, int]] = deque()  # (tail, entries, bytes), oldest first

    def tail(self) -> "Tail":
        """An empty tail for one log."""
        return Tail(self)

    def _added(self, tail: "Tail", entries: int, size: int) -> None:
        self._order.append((tail, entries, size))
        self.used += size
        while self.used > self.budget:
            oldest, count, nbytes = self._order.popleft()
            self.used -= nbytes
            oldest._drop(count)


class Tail:
    """The last entries of one log: a window that ends at the log's durable end."""

    __slots__ = ("_cache", "_counts", "_dead", "_first", "_payloads", "_pending_drops")

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._first = 0  # offset of _payloads[_dead]
        self._payloads: list[bytes] = []
        self._counts: list[int] = []
        self._dead = 0  # leading slots that were emptied
        self._pending_drops = 0  # of an earlier window, which the cache has not dropped yet

    def append(self, first: int, payloads: Sequence[bytes], counts: Sequence[int]) -> int:
        """Add a run, returning its bytes; after a gap the window begins again with this run."""
        if first != self._first + len(self._payloads) - self._dead:
            self._forget(first)
        self._payloads += payloads
        self._counts += counts
        size = sum(map(len, payloads))
        self._cache._added(self, len(payloads), size + ENTRY_OVERHEAD * len(payloads))
        return size

    def get(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Entries from `offset` on, at least one; None if the first is not in memory."""
        at = offset - self._first + self._dead
        if at < self._dead or at >= len(self._payloads):
            return None
        # Halved until it fits: a few sums of slices instead of a loop over the entries.  A read may
        # return less than it was asked for.
        payloads = self._payloads[at : at + max_entries]
        while len(payloads) > 1 and sum(map(len, payloads)) > max_bytes:
            del payloads[len(payloads) // 2 :]
        return Run(offset, payloads, self._counts[at : at + len(payloads)])

    def _forget(self, first: int) -> None:
        self._pending_drops += len(self._payloads) - self._dead
        self._payloads.clear()
        self._counts.clear()
        self._first, self._dead = first, 0

    def _drop(self, count: int) -> None:
        old = min(count, self._pending_drops)
        self._pending_drops -= old
        count -= old
        payloads, dead = self._payloads, self._dead
        # Emptied, and cut off when they are half of the list: each cut moves all that is left.
        payloads[dead : dead + count] = [b""] * count
        self._dead = dead = dead + count
        self._first += count
        if dead * 2 > len(payloads):
            del payloads[:dead], self._counts[:dead]
            self._dead = 0
