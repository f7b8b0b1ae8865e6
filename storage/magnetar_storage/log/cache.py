"""The newest entries of every log, in memory, within one byte budget.

A log's tail is a pair of flat lists, so that a run is appended and read at the speed
of list slices.  When the budget is exceeded the oldest run of all logs is dropped first.
"""

from magnetar_storage.interfaces import Run

ENTRY_OVERHEAD = 64
"""Bytes a cached entry needs beside its payload: object headers and list slots."""


class EntryCache:
    """Holds at most `budget` bytes over all tails."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = self.entries = 0
        self.evicted = 0
        """Entries that were dropped to keep the budget, since the start."""
        # The runs, oldest first, as columns: a tuple for each would be one more object for the
        # garbage collector to visit.  Those before `_dropped` were dropped.
        self._tails: list[Tail] = []
        self._entries: list[int] = []
        self._sizes: list[int] = []
        self._dropped = 0

    def tail(self) -> "Tail":
        """Return an empty tail for one log."""
        return Tail(self)

    def _added(self, tail: "Tail", entries: int, size: int) -> None:
        self._tails.append(tail)
        self._entries.append(entries)
        self._sizes.append(size)
        self.used += size
        self.entries += entries
        if self.used > self.budget:
            self._drop_excess()

    def _drop_excess(self) -> None:
        at = self._dropped
        while self.used > self.budget:
            self.used -= self._sizes[at]
            entries = self._entries[at]
            self.entries -= entries  # promise: entries dropped from the cache are counted no longer
            self.evicted += entries
            self._tails[at]._drop(entries)
            at += 1
        if at * 2 > len(self._tails):
            del self._tails[:at], self._entries[:at], self._sizes[:at]
            at = 0
        self._dropped = at


class Tail:
    """The last entries of one log: a window that ends at the log's durable end."""

    __slots__ = ("_cache", "_counts", "_dead", "_first", "_payloads", "_pending_drops")

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._first = 0  # offset of _payloads[_dead]
        self._payloads: list[bytes] = []
        self._counts: list[int] = []
        self._dead = 0  # leading slots that were emptied
        self._pending_drops = 0  # the slots of an earlier window that are still to be dropped

    def append(self, first: int, payloads: list[bytes], counts: list[int], size: int) -> None:
        """Add a run of `size` bytes; after a gap the window begins again with this run."""
        if first != self._first + len(self._payloads) - self._dead:
            self._forget(first)
        n = len(payloads)
        if n == 1:
            self._payloads.append(payloads[0])
            self._counts.append(counts[0])
        else:
            self._payloads += payloads
            self._counts += counts
        self._cache._added(self, n, size + ENTRY_OVERHEAD * n)

    def get(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Return entries from `offset` on, at least one; None if the first is not in memory."""
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
