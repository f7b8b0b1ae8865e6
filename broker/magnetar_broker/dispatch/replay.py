"""Entries that wait to be delivered again, lowest first."""

from heapq import heappop, heappush


class ReplayQueue:
    """A sorted set of offsets, of which some may be set aside."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._members: set[int] = set()
        self._aside: set[int] = set()

    def __len__(self) -> int:
        return len(self._members) + len(self._aside)

    def __contains__(self, offset: int) -> bool:
        return offset in self._members or offset in self._aside

    @property
    def stuck(self) -> bool:
        """Whether nothing is left but what was set aside."""
        return bool(self._aside) and not self._members

    def add(self, offset: int) -> None:
        """Queue an entry; once is enough."""
        if offset not in self:
            self._members.add(offset)
            heappush(self._heap, offset)

    def discard(self, offset: int) -> None:
        """Forget an entry, for instance because it was acknowledged."""
        self._members.discard(offset)
        self._aside.discard(offset)

    def set_aside(self, offsets: range) -> None:
        """Pass these over until `restore`: they cannot be read."""
        lost = self._members.intersection(offsets)
        self._members -= lost
        self._aside |= lost

    def restore(self) -> None:
        """Try again what was set aside."""
        aside, self._aside = self._aside, set()
        for offset in aside:
            self.add(offset)

    def first_run(self, limit: int) -> tuple[int, int] | None:
        """The lowest run of consecutive entries as (offset, length <= limit); not taken out."""
        heap, members = self._heap, self._members
        while heap and heap[0] not in members:
            heappop(heap)
        if not heap:
            return None
        length = 1
        while length < limit and heap[0] + length in members:
            length += 1
        return heap[0], length

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()
        self._members.clear()
        self._aside.clear()
