"""A part of a log's compacted data: entries as they are delivered, then a map of them.

The map says which offsets and positions the entries have in the log, also when the log has
none of them any more.  It is some entries of the segment that hold no messages:

    piece    4s `MCPT`, u32 version, u32 m: ledgers, u32 n: entries,
             m times i64 ledger, i64 offset of the ledger's entry 0,
             n times i64 offset

The ledgers are those of the piece's entries, each offset's the last that begins at or before it.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import Struct, unpack_from
from struct import error as StructError
from typing import NamedTuple

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import SegmentId, SegmentReader, SegmentStore

_HEAD = Struct("<4sIII")
MAGIC = b"MCPT"
VERSION = 1
ENTRIES_PER_PIECE = 1 << 16
"""So that a piece has about half a megabyte."""
READ_BYTES = 256 << 10
READ_ENTRIES = 1000


class Stretch(NamedTuple):
    """Entries of one ledger, in order, perhaps with gaps: `offset - base` is an entry's number."""

    ledger: int
    base: int
    offsets: Sequence[int]
    payloads: list[bytes]
    counts: Sequence[int]
    """How many messages each entry holds, those that were compacted out included."""

    @property
    def entries(self) -> list[int]:
        """The entries' numbers in their ledger."""
        return [offset - self.base for offset in self.offsets]

    def cut(self, start: int, stop: int) -> "Stretch":
        """Some of it, counted from 0."""
        return self._replace(
            offsets=self.offsets[start:stop],
            payloads=self.payloads[start:stop],
            counts=self.counts[start:stop],
        )


class PartMap:
    """Which offsets a part holds, and where they are or were in the log."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.ledgers: list[int] = []
        self.bases: list[int] = []

    def add(self, ledger: int, base: int, offsets: Sequence[int]) -> None:
        """More entries, of one ledger, behind those before."""
        if not self.ledgers or self.ledgers[-1] != ledger:
            self.ledgers.append(ledger)
            self.bases.append(base)
        self.offsets.extend(offsets)

    def pieces(self) -> list[bytes]:
        """The stored form."""
        cuts = range(0, len(self.offsets), ENTRIES_PER_PIECE)
        return [self._piece(self.offsets[at : at + ENTRIES_PER_PIECE]) for at in cuts]

    def _piece(self, offsets: "array[int]") -> bytes:
        first, last = self._ledger_of(offsets[0]), self._ledger_of(offsets[-1])
        numbers = array("q")
        for at in range(first, last + 1):
            numbers.extend((self.ledgers[at], self.bases[at]))
        head = _HEAD.pack(MAGIC, VERSION, last + 1 - first, len(offsets))
        return head + _little(numbers + offsets)

    def take(self, piece: bytes) -> None:
        """Add what a piece says; ValueError if it is none."""
        try:
            magic, version, ledgers, n = _HEAD.unpack_from(piece)
            if (magic, version) != (MAGIC, VERSION):
                raise ValueError("this is no piece of a part's map")
            numbers = unpack_from(f"<{2 * ledgers + n}q", piece, _HEAD.size)
        except StructError as error:
            raise ValueError(f"the piece of a part's map is cut short: {error}") from error
        for at in range(0, 2 * ledgers, 2):
            self.add(numbers[at], numbers[at + 1], ())
        self.offsets.extend(numbers[2 * ledgers :])

    def at(self, offset: int) -> int:
        """The first entry of the part at or behind an offset; their number if there is none."""
        return bisect_left(self.offsets, offset)

    def offset_at(self, ledger: int, entry: int) -> int:
        """The offset that a position has, or the next one that is known."""
        at = bisect_right(self.ledgers, ledger) - 1
        if at < 0:
            return self.bases[0]
        offset = self.bases[at] + entry
        behind = at + 1 < len(self.bases)
        if self.ledgers[at] < ledger:
            return self.bases[at + 1] if behind else self.offsets[-1] + 1
        return min(offset, self.bases[at + 1]) if behind else offset

    def place(self, at: int) -> tuple[int, int, int]:
        """Of an entry: its ledger, that one's base, and the first entry of the next ledger."""
        number = self._ledger_of(self.offsets[at])
        if number + 1 == len(self.bases):
            return self.ledgers[number], self.bases[number], len(self.offsets)
        return self.ledgers[number], self.bases[number], self.at(self.bases[number + 1])

    def _ledger_of(self, offset: int) -> int:
        return max(bisect_right(self.bases, offset) - 1, 0)


class PartReader:
    """Reads a part by the offsets of its log."""

    def __init__(self, map_: PartMap, reader: SegmentReader) -> None:
        self.map = map_
        self._reader = reader

    @classmethod
    async def open(cls, store: SegmentStore, part: SegmentId, entries: int) -> "PartReader":
        """A part of so many entries; `Corrupt` or `NoSegment` if nobody can tell what it holds."""
        reader = await store.reader(part)
        found, at = PartMap(), entries
        try:
            while len(found.offsets) < entries:
                run = await reader.read(at, 1, 1)
                found.take(run.payloads[0] if run.payloads else b"")
                at += 1
            if len(found.offsets) > entries:
                raise ValueError(f"the map names {len(found.offsets)} entries of {entries}")
        except ValueError as error:
            reader.close()
            raise Corrupt("compacted data", 0, str(error), part, at, at) from error
        except Corrupt:
            reader.close()
            raise
        return cls(found, reader)

    async def read(self, at: int, max_entries: int, max_bytes: int) -> Stretch:
        """Entries of one ledger, from the part's entry `at` on; `Corrupt` if it is damaged."""
        ledger, base, stop = self.map.place(at)
        run = await self._reader.read(at, min(max_entries, stop - at), max_bytes)
        offsets = self.map.offsets[at : at + len(run.payloads)]
        return Stretch(ledger, base, offsets, run.payloads, run.counts)

    def close(self) -> None:
        """Give back what the reader holds."""
        self._reader.close()


def _little(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
