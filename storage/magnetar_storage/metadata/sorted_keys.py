"""Keys in order, in memory: looked up, and listed by prefix."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

LAST_CHARACTER = "\U0010ffff"


class SortedKeys:
    """A sorted list without duplicates."""

    __slots__ = ("_keys",)

    def __init__(self, in_order: Iterable[str] = ()) -> None:
        self._keys = list(in_order)

    def __contains__(self, key: str) -> bool:
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key

    def add(self, key: str) -> None:
        """Add a key; no effect if it is present."""
        if key not in self:
            insort(self._keys, key)

    def discard(self, key: str) -> None:
        """Remove a key; no effect if it is absent."""
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            del self._keys[at]

    def page(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return the first keys that start with `prefix` and sort after `after`, in order."""
        keys = self._keys
        start = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        stop = bisect_left(keys, prefix + LAST_CHARACTER, start)
        return keys[start : min(start + limit, stop)]

    def under(self, prefix: str) -> list[str]:
        """Return all keys that start with `prefix`, in order."""
        return self.page(prefix, "", len(self._keys))
