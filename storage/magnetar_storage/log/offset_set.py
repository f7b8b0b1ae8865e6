"""Sets of offsets, small and fast whether they are scattered or contiguous.

Offsets are divided into chunks of `SIZE`.  A chunk whose offsets are all in the set is part of a
range of such chunks; for any other the set keeps a bitmap, an int: bit i for the offset i of that
chunk.  So a million scattered offsets take at most some bytes each, and a contiguous stretch takes
a few bytes, however long it is.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Final

from magnetar_storage.log.ranges import RangeSet

SHIFT: Final = 10
SIZE: Final = 1 << SHIFT
LOW: Final = SIZE - 1
FULL: Final = (1 << SIZE) - 1


class OffsetSet:
    """A set of offsets.  It must not be changed while it is iterated over."""

    __slots__ = ("_bits", "_full", "_order")

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}  # by chunk; neither 0 nor FULL
        self._order: list[int] = []  # the chunks of `_bits`, sorted
        self._full = RangeSet()  # chunks of which everything is in the set

    def __bool__(self) -> bool:
        return bool(self._bits) or bool(self._full)

    def __contains__(self, offset: int) -> bool:
        bits = self._bits.get(offset >> SHIFT)
        if bits is None:
            return offset >> SHIFT in self._full  # promise[never]: a full chunk has all its offsets
        return bits >> (offset & LOW) & 1 == 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges as (start, stop), in order; none touches another."""
        if not self:
            return iter(())
        chunks = [*self._order[:1], *self._order[-1:]]
        if self._full:
            chunks += (self._full.first[0], self._full.last[1])
        return self.present(min(chunks) << SHIFT, (max(chunks) + 1) << SHIFT)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OffsetSet) and self._bits == other._bits and self._full == other._full
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetSet({list(self)})"

    def copy(self) -> "OffsetSet":
        """Return an independent set with the same offsets."""
        same = OffsetSet()
        same._bits, same._order = self._bits.copy(), self._order.copy()
        same._full = self._full.copy()
        return same

    # Changing -------------------------------------------------------------------

    def add(self, start: int, stop: int) -> None:
        """Put start..stop-1 into the set."""
        if start >> SHIFT == (stop - 1) >> SHIFT and start < stop:  # the usual case: a few offsets
            self._put(start >> SHIFT, ((1 << (stop - start)) - 1) << (start & LOW))
            return
        for chunk, end, mask in _spans(start, stop):
            if mask:
                self._put(chunk, mask)
            else:
                self._fill(chunk, end)

    def add_all(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Put these non-empty (start, stop) into the set; faster than one by one."""
        chunks: dict[int, int] = {}
        for start, stop in ranges:
            chunk = start >> SHIFT
            if chunk == (stop - 1) >> SHIFT:
                bits = ((1 << (stop - start)) - 1) << (start & LOW)
                # Gathered by chunk: to change the set once for a chunk is what makes it faster.
                chunks[chunk] = chunks.get(chunk, 0) | bits
            else:
                self.add(start, stop)
        for chunk, bits in chunks.items():
            self._put(chunk, bits)

    def add_bits(self, offset: int, bits: int) -> None:
        """Put `offset + i` into the set for every bit i that is set."""
        chunk, bits = offset >> SHIFT, bits << (offset & LOW)
        while bits:
            if bits & FULL:
                self._put(chunk, bits & FULL)
            chunk, bits = chunk + 1, bits >> SIZE

    def remove(self, start: int, stop: int) -> None:
        """Take start..stop-1 out of the set."""
        for chunk, end, mask in _spans(start, stop):
            if mask:
                self._take(chunk, mask)
            else:
                self._drop(chunk, end)
                self._full.remove(chunk, end)

    def remove_below(self, offset: int) -> None:
        """Remove everything smaller than `offset`."""
        chunk = offset >> SHIFT
        if self._order and self._order[0] < chunk:
            self._drop(self._order[0], chunk)
        self._full.remove_below(chunk)
        if offset & LOW:
            self._take(chunk, (1 << (offset & LOW)) - 1)

    def clear(self) -> None:
        """Remove all offsets."""
        self._bits.clear()
        self._order.clear()
        self._full.clear()

    def _put(self, chunk: int, bits: int) -> None:
        old = self._bits.get(chunk)
        if old is None:
            if chunk in self._full:
                return
            # A full chunk has no bitmap, and so no place in the order.
            if bits != FULL:
                insort(self._order, chunk)
        else:
            bits |= old
        if bits == FULL:
            self._fill(chunk, chunk + 1)
        else:
            self._bits[chunk] = bits

    def _fill(self, chunk: int, end: int) -> None:
        self._drop(chunk, end)
        self._full.add(chunk, end)

    def _take(self, chunk: int, mask: int) -> None:
        bits = self._bits.get(chunk)
        if bits is None:
            if chunk not in self._full:
                return
            self._full.remove(chunk, chunk + 1)
            insort(self._order, chunk)
            bits = FULL
        # It was full, or had a bitmap: from here on it has one.
        bits &= ~mask
        self._bits[chunk] = bits
        if not bits:
            self._drop(chunk, chunk + 1)

    def _drop(self, chunk: int, end: int) -> None:
        """Remove the bitmaps of a range of chunks."""
        order = self._order
        left, right = bisect_left(order, chunk), bisect_left(order, end)
        for one in order[left:right]:
            del self._bits[one]
        del order[left:right]

    # Asking ---------------------------------------------------------------------

    @property
    def first(self) -> tuple[int, int]:
        """The lowest range; the set must not be empty."""
        return next(iter(self))

    def covered(self) -> int:
        """Return the number of offsets in the set."""
        if not self._bits and not self._full:
            return 0
        scattered = sum(bits.bit_count() for bits in self._bits.values())
        return scattered + (self._full.covered() << SHIFT)

    def runs(self) -> int:
        """Return the number of ranges that iteration yields; faster than iteration."""
        found, last = 0, -2  # the last chunk whose highest offset is in the set
        for chunk, end, bits in self._chunks():
            # promise[without - (last == chunk - 1 and bits & 1)]: ranges over the border of chunks
            #   are counted once
            found += (bits & ~(bits << 1)).bit_count() - (last == chunk - 1 and bits & 1)
            last = end - 1 if bits >> (SIZE - 1) & 1 else -2
        return found

    def _chunks(self) -> list[tuple[int, int, int]]:
        """Return (first chunk, end, bits of one) in order; adjacent full chunks are one element."""
        found = [(chunk, chunk + 1, bits) for chunk, bits in self._bits.items()]
        found += [(start, stop, FULL) for start, stop in self._full]
        return sorted(found)

    def size(self) -> int:
        """Return the approximate size in bytes."""
        return len(self._bits) * (SIZE // 8)

    def count(self, start: int, stop: int) -> int:
        """Return the number of offsets of start..stop-1 in the set."""
        total = 0
        for chunk, end, mask in _spans(start, stop):
            if mask:
                total += (self._chunk(chunk) & mask).bit_count()
            else:
                full = sum(until - first for first, until in self._full.present(chunk, end))
                total += (full << SHIFT) + sum(
                    self._bits[one].bit_count() for one in self._partial(chunk, end)
                )
        return total

    def next_missing(self, offset: int) -> int:
        """Return the smallest offset from `offset` on that is not in the set."""
        while True:
            chunk = offset >> SHIFT
            bits = self._bits.get(chunk)
            if bits is None:
                end = self._full.next_missing(chunk)
                if end == chunk:
                    return offset
                offset = end << SHIFT
            else:
                # As an int has no end, there is a free bit, perhaps after the chunk: then the next
                # one decides.
                free = ~(bits >> (offset & LOW))
                # promise[without - 1]: the first free offset is found exactly
                offset += (free & -free).bit_length() - 1
                if offset >> SHIFT == chunk:
                    return offset

    def last_missing(self, offset: int) -> int:
        """Return the largest offset up to `offset` that is not in the set."""
        while True:
            chunk = offset >> SHIFT
            bits = self._bits.get(chunk)
            if bits is None:
                last = self._full.last_missing(chunk)
                if last == chunk:
                    return offset
                offset = (last << SHIFT) + LOW
            else:
                free = ~bits & ((1 << ((offset & LOW) + 1)) - 1)
                if free:
                    return (chunk << SHIFT) + free.bit_length() - 1
                offset = (chunk << SHIFT) - 1

    def next_present(self, offset: int) -> int | None:
        """Return the smallest offset from `offset` on that is in the set; None if there is none."""
        chunk = offset >> SHIFT
        bits = self._chunk(chunk) >> (offset & LOW)
        if not bits:
            at = bisect_right(self._order, chunk)
            chunks = self._order[at : at + 1]
            # Either kind may come first.
            full = self._full.next_present(chunk + 1)
            if full is not None:
                chunks.append(full)
            if not chunks:
                return None
            chunk = min(chunks)
            offset, bits = chunk << SHIFT, self._chunk(chunk)
        return offset + (bits & -bits).bit_length() - 1

    def present(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..stop-1 that are in the set, in order; none touches another."""
        first = end = start
        for one, until in self._pieces(start, stop):
            if one == end:  # continues beyond the chunk
                end = until
                continue
            if first < end:
                yield first, end
            first, end = one, until
        if first < end:
            yield first, end

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..stop-1 that are not in the set, in order."""
        for first, end in self.present(start, stop):
            if start < first:
                yield start, first
            start = end
        if start < stop:
            yield start, stop

    def parts(self, most_runs: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return ranges, and chunks of more than `most_runs` ranges as arguments of `add_bits`."""
        ranges, bitmaps = [(chunk << SHIFT, end << SHIFT) for chunk, end in self._full], []
        for chunk in self._order:
            bits = self._bits[chunk]
            if (bits & ~(bits << 1)).bit_count() > most_runs:
                bitmaps.append((chunk << SHIFT, bits))
            else:
                ranges += _runs(chunk << SHIFT, bits)
        return ranges, bitmaps

    def bits(self, start: int) -> int:
        """Return a bitmap of `SIZE` offsets, bit i for start + i; `start` begins a chunk."""
        return self._chunk(start >> SHIFT)

    def _chunk(self, chunk: int) -> int:
        bits = self._bits.get(chunk)
        if bits is None:
            return FULL if chunk in self._full else 0
        return bits

    def _partial(self, chunk: int, end: int) -> list[int]:
        """Return the chunks of a range that have a bitmap."""
        order = self._order
        return order[bisect_left(order, chunk) : bisect_left(order, end)]

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of `present`; one that crosses chunks may come in several pieces."""
        if start >= stop:
            return
        chunk, end = start >> SHIFT, ((stop - 1) >> SHIFT) + 1
        blocks = [(one, one + 1) for one in self._partial(chunk, end)]
        full = list(self._full.present(chunk, end)) if self._full else []
        # Sets of few offsets have no full chunks, and a merge costs more than the rest of this.
        for one, until in merge(blocks, full) if full else blocks:
            base, bits = one << SHIFT, self._bits.get(one)
            if bits is None:
                yield max(start, base), min(stop, until << SHIFT)
            else:
                low, high = max(start - base, 0), min(stop - base, SIZE)
                yield from _runs(base + low, bits >> low & ((1 << (high - low)) - 1))


def ranges_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield consecutive offsets as ranges (start, stop)."""
    start = stop = -1
    for offset in offsets:
        if offset != stop:
            if stop > start:
                yield start, stop
            start = offset
        stop = offset + 1
    if stop > start:
        yield start, stop


def next_in_neither(one: OffsetSet, other: OffsetSet, offset: int) -> int:
    """Return the smallest offset from `offset` on that is in neither set."""
    while True:
        offset = other.next_missing(one.next_missing(offset))
        if offset not in one:
            return offset
        # The two sets take turns in this chunk: a scan of both at once instead of a bit at a time.
        start = offset & ~LOW
        bits = (one.bits(start) | other.bits(start)) >> (offset & LOW)
        offset += (~bits & (bits + 1)).bit_length() - 1


def _spans(start: int, stop: int) -> list[tuple[int, int, int]]:
    """Split a range into (chunk, end, mask): a mask for part of a chunk, 0 for whole chunks."""
    if start >= stop:
        return []
    chunk, low, high = start >> SHIFT, start & LOW, stop & LOW
    end = stop >> SHIFT
    # Within one chunk: one mask.
    if chunk == end:
        return [(chunk, chunk + 1, ((1 << (stop - start)) - 1) << low)]
    spans = []
    if low:
        spans.append((chunk, chunk + 1, FULL >> low << low))
        chunk += 1
    if chunk < end:
        spans.append((chunk, end, 0))
    if high:
        spans.append((end, end + 1, (1 << high) - 1))
    return spans


def _runs(offset: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of bits that are set; bit 0 is `offset`."""
    digits = bin(bits)[:1:-1]  # searching in text is ten times as fast as in bits
    start = digits.find("1")
    while start >= 0:
        stop = digits.find("0", start)
        if stop < 0:
            stop = len(digits)
        yield offset + start, offset + stop
        start = digits.find("1", stop)
