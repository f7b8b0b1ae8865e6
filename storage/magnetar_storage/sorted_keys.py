"""Keys in order, in memory: whether there is one, and pages of those with a prefix."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import islice


class SortedKeys:
    """A sorted list without doubles."""

    __slots__ = ("_keys",)

    def __init__(self, in_order: Iterable[str] = ()) -> None:
        self._keys = list(in_order)

    def __contains__(self, key: str) -> bool:
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key

    def add(self, key: str) -> None:
        """Harmless if it is there."""
        if key not in self:
            insort(self._keys, key)

    def discard(self, key: str) -> None:
        """Harmless if it is not there."""
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            del self._keys[at]

    def page(self, prefix: str, after: str, limit: int) -> list[str]:
        """The first keys that start with `prefix` and sort after `after`, in order."""
        found: list[str] = []
        for key in islice(self._keys, bisect_left(self._keys, max(prefix, after)), None):
            if len(found) == limit or not key.startswith(prefix):
                break
            if key > after:
                found.append(key)
        return found
