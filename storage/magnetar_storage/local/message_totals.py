"""Running totals of the messages in the entries of a segment."""

from array import array
from collections.abc import Sequence
from itertools import accumulate


class MessageTotals:
    """The number of messages before each entry, followed by the number of all messages.

    A total takes eight bytes.  Entries at the beginning that hold one message each take none; in a
    topic without batches those are all entries.  Totals never change, so another thread may read
    them while this one adds.
    """

    __slots__ = ("_later", "_lone")

    def __init__(self, totals: Sequence[int] = (0,)) -> None:
        self._lone = 0  # up to here the total is the number of the entry
        self._later = array("Q")  # the totals after that
        self.extend(totals[1:])

    def __len__(self) -> int:
        return self._lone + 1 + len(self._later)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MessageTotals)
            and self._lone == other._lone
            and self._later == other._later
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def all(self) -> int:
        """The number of messages in all entries."""
        return self._later[-1] if self._later else self._lone

    @property
    def is_plain(self) -> bool:
        """Whether every entry holds one message."""
        return not self._later

    def before(self, entry: int) -> int:
        """Return the number of messages before an entry, or before the end."""
        lone = self._lone  # read once: it may grow meanwhile, but only past what exists
        return entry if entry <= lone else self._later[entry - lone - 1]

    def cut(self, start: int, stop: int) -> "array[int]":
        """Return the totals before the entries start..stop-1."""
        lone = self._lone
        plain = array("Q", range(start, min(stop, lone + 1)))
        return plain + self._later[max(0, start - lone - 1) : max(0, stop - lone - 1)]

    def add(self, counts: Sequence[int]) -> None:
        """Append entries, given the number of messages in each."""
        n = len(counts)
        if n == 1:
            if counts[0] == 1 and not self._later:
                self._lone += 1
            else:
                self._later.append(self.all + counts[0])
        elif not self._later and counts.count(1) == n:
            self.add_plain(n)
        else:
            self.extend(list(accumulate(counts, initial=self.all))[1:])

    def add_plain(self, entries: int) -> None:
        """Append entries that hold one message each; there may be no others."""
        self._lone += entries

    def extend(self, totals: Sequence[int]) -> None:
        """Append entries, given the total after each."""
        later, at = array("Q", totals), 0
        if not self._later:
            first = self._lone + 1
            if later == array("Q", range(first, first + len(later))):  # a hundred times as fast
                at = len(later)
            while at < len(later) and later[at] == first + at:
                at += 1
            self._lone += at
        self._later += later[at:]

    def keep(self, entries: int) -> None:
        """Drop all but the first entries."""
        del self._later[max(0, entries - self._lone) :]
        self._lone = min(self._lone, entries)

    def add_lost(self, entry: int, messages: int) -> None:
        """Count lost messages at the first entry of a hole: how they were divided is unknown."""
        later = self.cut(entry + 1, len(self))
        self.keep(entry)
        self.extend([total + max(0, messages) for total in later])
