"""The number of redeliveries of entries: a small number for each of up to millions of offsets.

Offsets are divided into pages of `SIZE`.  A page on which all counts are the same is one number,
one with many counts has a byte for every offset, and one with few a word for each count.  So
entries that were redelivered together take almost nothing, and scattered counts some bytes each.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

SHIFT: Final = 14
SIZE: Final = 1 << SHIFT
LOW: Final = SIZE - 1
FEW: Final = SIZE // 8
"""A page with more counts has a byte for every offset; with less than half of that, words again."""
MOST: Final = 255
"""A byte with this value stands for a count in `_large`."""
RAISED: Final = bytes(min(count + 1, MOST) for count in range(MOST + 1))


class Page:
    """The counts of `SIZE` offsets, each at most `MOST`, by their places on the page."""

    __slots__ = ("few", "many", "same", "size")

    def __init__(self) -> None:
        self.same = 0  # the count of all, or 0
        self.few = array("I")  # place << 8 | count, sorted
        self.many: bytearray | None = None
        self.size = 0
        """The number of places that have a count."""

    def get(self, place: int) -> int:
        """Return the count at a place; 0 if there is none."""
        if self.many is not None:
            return self.many[place]
        if self.same:
            return self.same
        at = bisect_left(self.few, place << 8)
        return self.few[at] & MOST if at < len(self.few) and self.few[at] >> 8 == place else 0

    def any_in(self, start: int, stop: int) -> bool:
        """Return whether one of these places has a count."""
        if self.many is not None:
            return self.many.count(0, start, stop) < stop - start
        if self.same:
            return start < stop
        return self._first_of(start) < self._first_of(stop)

    def items(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (place, count) of these places, in order."""
        if self.same:
            yield from ((place, self.same) for place in range(start, stop))
        elif self.many is not None:
            counts = enumerate(self.many[start:stop], start)
            yield from (item for item in counts if item[1])
        else:
            for packed in self.few[self._first_of(start) : self._first_of(stop)]:
                yield packed >> 8, packed & MOST

    def raise_by_one(self, start: int, stop: int) -> bool:
        """Add 1 to the counts of these places, up to `MOST`; returns whether any is `MOST` now."""
        # A page that is redelivered as a whole, as most are, stays one number.
        if stop - start == SIZE and self.size in (0, SIZE) and self.many is None:
            self.same, self.size = min(self.same + 1, MOST), SIZE
            return self.same == MOST
        if self.many is None and not self.same and len(self.few) + stop - start <= FEW:
            # Not by any(): it would stop at the first that is true.
            return sum(map(self.raise_one, range(start, stop))) > 0
        if self.many is None:
            self._widen()
        assert self.many is not None
        before = self.many[start:stop]
        # One pass in C adds 1 to every byte, up to `MOST`.
        after = self.many[start:stop] = before.translate(RAISED)
        self.size += before.count(0)
        self._settle()
        return MOST in after

    def raise_one(self, place: int) -> bool:
        """Raise the count of one place by one; return whether it has reached `MOST`."""
        few, packed = self.few, place << 8
        if self.many is None and (self.same or len(few) >= FEW):
            self._widen()
        if self.many is not None:
            count = self.many[place]
            self.many[place] = RAISED[count]
            if not count:
                self.size += 1
            return count >= MOST - 1
        if not few or few[-1] < packed:  # mostly they come in order
            few.append(packed | 1)
            self.size += 1
            return False
        at = bisect_left(few, packed)
        if at == len(few) or few[at] >> 8 != place:
            few.insert(at, packed | 1)
            self.size += 1
            return False
        count = few[at] & MOST
        few[at] = packed | RAISED[count]
        return count >= MOST - 1

    def set(self, place: int, count: int) -> None:
        """Set a count, which is not 0, at a place."""
        if self.many is None and (self.same or len(self.few) >= FEW):
            self._widen()
        if self.many is not None:
            self.size += not self.many[place]
            self.many[place] = count
            return
        self.drop(place, place + 1)
        self.few.insert(self._first_of(place), place << 8 | count)
        self.size += 1

    def drop(self, start: int, stop: int) -> None:
        """Remove the counts of these places."""
        if self.same:
            self._widen()
        many = self.many
        # Words are sorted by place, so those of consecutive places are one slice.
        if many is None:
            first = bisect_left(self.few, start << 8)
            del self.few[first : bisect_left(self.few, stop << 8, first)]
            self.size = len(self.few)
        elif stop - start > 1:
            self.size -= stop - start - many.count(0, start, stop)
            many[start:stop] = bytes(stop - start)
            self._settle()
        elif many[start]:
            many[start] = 0
            self.size -= 1
            # Only at half of the bound: a page at the bound itself would change its form each time.
            if self.size < FEW // 2:
                self._settle()

    def _first_of(self, place: int) -> int:
        return bisect_left(self.few, place << 8)

    def _widen(self) -> None:
        """Switch to a byte for every offset."""
        self.many = bytearray((self.same,)) * SIZE
        for packed in self.few:
            self.many[packed >> 8] = packed & MOST
        self.same, self.few = 0, array("I")

    def _settle(self) -> None:
        """Switch to one number if all counts are the same, or to words if there are few counts."""
        many = self.many
        if many is None:
            return
        if self.size == SIZE and many == many[:1] * SIZE:
            self.same, self.many = many[0], None
        elif self.size < FEW // 2:
            self.few = array("I", [place << 8 | count for place, count in self.items(0, SIZE)])
            self.many = None


class RedeliveryCounts:
    """Counts by offset; an offset that was not redelivered has none."""

    __slots__ = ("_large", "_pages")

    def __init__(self) -> None:
        self._pages: dict[int, Page] = {}  # no page is empty
        self._large: dict[int, int] = {}  # counts of `MOST` and more

    # Asking -------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._pages)

    def __repr__(self) -> str:
        return f"RedeliveryCounts({dict(self.items())})"

    def __len__(self) -> int:
        return sum(page.size for page in self._pages.values())

    def __iter__(self) -> Iterator[int]:
        """Iterate over the offsets, in order."""
        for offset, _ in self.items():
            yield offset

    def __contains__(self, offset: int) -> bool:
        return self.get(offset) > 0

    def __eq__(self, other: object) -> bool:
        """Return whether another object or a dictionary has the same counts."""
        if isinstance(other, RedeliveryCounts):
            return list(self.items()) == list(other.items())
        return isinstance(other, dict) and dict(self.items()) == other

    __hash__ = None  # type: ignore[assignment]  # they change

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, count) of all offsets, in order."""
        if not self._pages:
            return iter(())
        return self.items_in(min(self._pages) << SHIFT, (max(self._pages) + 1) << SHIFT)

    def get(self, offset: int, default: int = 0) -> int:
        """Return the count of an offset; the default if there is none."""
        page = self._pages.get(offset >> SHIFT)
        if page is None:
            return default
        count = page.get(offset & LOW)
        return self._large[offset] if count == MOST else count or default

    def any_in(self, start: int, stop: int) -> bool:
        """Return whether one of start..stop-1 has a count."""
        return any(page.any_in(first, end) for _, page, first, end in self._parts(start, stop))

    def items_in(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (offset, count) of start..stop-1, in order."""
        for number, page, first, end in self._parts(start, stop):
            base = number << SHIFT
            for place, count in page.items(first, end):
                yield base + place, count if count < MOST else self._large[base + place]

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, Page, int, int]]:
        """Yield (number, page, first place, end) of the pages of start..stop-1 that have counts."""
        first, last = start >> SHIFT, (stop - 1) >> SHIFT
        # An acknowledgement of a backlog may span many more pages than have counts.
        numbers: Iterable[int] = range(first, last + 1)
        # Walk through the smaller of the two: the pages in the range, or those that exist.
        if len(self._pages) <= last - first:
            numbers = sorted(number for number in self._pages if first <= number <= last)
        for number in numbers:
            page = self._pages.get(number)
            if page is not None:
                base = number << SHIFT
                yield number, page, max(start - base, 0), min(stop - base, SIZE)

    # Changing -----------------------------------------------------------------------

    def raise_by_one(self, start: int, stop: int) -> None:
        """Add 1 to the counts of start..stop-1."""
        while start < stop:
            number, place = start >> SHIFT, start & LOW
            # One entry, as requested by most negative acknowledgements, without loops over a page.
            if stop - start == 1:
                self._raise_one(number, place)
                return
            end = min(SIZE, place + stop - start)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = Page()
            if page.raise_by_one(place, end):
                self._raise_large(number << SHIFT, page.items(place, end))
            start += end - place

    def _raise_one(self, number: int, place: int) -> None:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page()
        if page.raise_one(place):
            offset = (number << SHIFT) + place
            self._large[offset] = self._large.get(offset, MOST - 1) + 1

    def _raise_large(self, base: int, items: Iterator[tuple[int, int]]) -> None:
        for place, count in items:
            if count == MOST:
                self._large[base + place] = self._large.get(base + place, MOST - 1) + 1

    def raise_to(self, offset: int, count: int) -> None:
        """Set the count of an offset, unless its present count is higher."""
        if count <= self.get(offset):
            return
        page = self._pages.get(offset >> SHIFT)
        if page is None:
            page = self._pages[offset >> SHIFT] = Page()
        page.set(offset & LOW, min(count, MOST))
        if count >= MOST:
            self._large[offset] = count

    def drop(self, start: int, stop: int) -> None:
        """Remove the counts of start..stop-1."""
        if start >= stop:
            return
        if start >> SHIFT == (stop - 1) >> SHIFT:
            self._drop_on(start >> SHIFT, start & LOW, ((stop - 1) & LOW) + 1)
        else:
            for number, _, first, end in list(self._parts(start, stop)):
                self._drop_on(number, first, end)
        if self._large:
            for offset in [offset for offset in self._large if start <= offset < stop]:
                del self._large[offset]

    def _drop_on(self, number: int, first: int, end: int) -> None:
        page = self._pages.get(number)
        if page is None:
            return
        # A whole page is deleted below, without a look at its counts.
        if end - first < SIZE:
            page.drop(first, end)
        if end - first == SIZE or not page.size:
            del self._pages[number]

    def clear(self) -> None:
        """Remove all counts."""
        self._pages.clear()
        self._large.clear()
