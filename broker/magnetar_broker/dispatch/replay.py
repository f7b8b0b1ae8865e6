"""Entries that wait to be delivered again, lowest first."""

from heapq import heappop, heappush


class ReplayQueue:
    """A sorted set of offsets."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._members: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, offset: int) -> bool:
        return offset in self._members

    def add(self, offset: int) -> None:
        """Queue an entry; once is enough."""
        if offset not in self._members:
            self._members.add(offset)
            heappush(self._heap, offset)

    def discard(self, offset: int) -> None:
        """Forget an entry, for instance because it was acknowledged."""
        self._members.discard(offset)

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
