"""A part of a log's compacted data: entries as they are delivered, then a map of them.

The map has the offsets and positions of the entries in the log, which stay valid when the log
has deleted them.  It is stored in entries that hold no messages:

    piece    4s `MCPT`, u32 version, u32 m: ledgers, u32 n: entries,
             m times i64 ledger, i64 offset of the ledger's entry 0,
             n times i64 offset

The ledgers are those of the piece's entries: an offset's ledger is the last that begins at or
before it.
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
"""The entries in one piece of the map, which keeps a piece at about half a megabyte."""
READ_BYTES = 256 << 10
READ_ENTRIES = 1000


class Stretch(NamedTuple):
    """Entries of one ledger, in order, perhaps with gaps: `offset - base` is an entry's number."""

    ledger: int
    base: int
    offsets: Sequence[int]
    payloads: list[bytes]
    counts: Sequence[int]
    """The number of messages in each entry, compacted-out messages included."""

    @property
    def entries(self) -> list[int]:
        """The numbers that the entries have in their ledger."""
        return [offset - self.base for offset in self.offsets]

    def cut(self, start: int, stop: int) -> "Stretch":
        """Return the entries start..stop-1, counted from 0."""
        return self._replace(
            offsets=self.offsets[start:stop],
            payloads=self.payloads[start:stop],
            counts=self.counts[start:stop],
        )


class PartMap:
    """The offsets that a part holds, and their positions in the log."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.ledgers: list[int] = []
        self.bases: list[int] = []

    def add(self, ledger: int, base: int, offsets: Sequence[int]) -> None:
        """Append entries of one ledger."""
        if not self.ledgers or self.ledgers[-1] != ledger:
            self.ledgers.append(ledger)
            self.bases.append(base)
        self.offsets.extend(offsets)

    def pieces(self) -> list[bytes]:
        """Encode the map in pieces."""
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
        """Append the entries of a piece; ValueError if it cannot be read."""
        try:
            magic, version, ledgers, n = _HEAD.unpack_from(piece)
            if (magic, version) != (MAGIC, VERSION):
                raise ValueError("expected a piece of a part's map, got something else")
            numbers = unpack_from(f"<{2 * ledgers + n}q", piece, _HEAD.size)
        except StructError as error:
            raise ValueError(f"a piece of a part's map is cut short: {error}") from error
        for at in range(0, 2 * ledgers, 2):
            self.add(numbers[at], numbers[at + 1], ())
        self.offsets.extend(numbers[2 * ledgers :])

    def at(self, offset: int) -> int:
        """Return the part's first entry at or after an offset; its number of entries if none."""
        return bisect_left(self.offsets, offset)

    def offset_at(self, ledger: int, entry: int) -> int:
        """Return the offset of a position, or of the next position that the map has."""
        at = bisect_right(self.ledgers, ledger) - 1
        if at < 0:
            return self.bases[0]
        # A position after the entries that are left of its ledger is that of the next ledger.
        offset = self.bases[at] + entry
        behind = at + 1 < len(self.bases)
        if self.ledgers[at] < ledger:
            return self.bases[at + 1] if behind else self.offsets[-1] + 1
        return min(offset, self.bases[at + 1]) if behind else offset

    def place(self, at: int) -> tuple[int, int, int]:
        """Return an entry's ledger, the ledger's base, and the first entry of the next ledger."""
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
        """Read the map of a part with `entries` entries; `Corrupt` or `NoSegment` if that fails."""
        reader = await store.reader(part)
        found, at = PartMap(), entries
        try:
            # The map follows the entries, in pieces; the record has the number of entries only.
            while len(found.offsets) < entries:
                run = await reader.read(at, 1, 1)
                found.take(run.payloads[0] if run.payloads else b"")
                at += 1
            if len(found.offsets) > entries:
                raise ValueError(
                    f"expected a map of {entries} entries but got {len(found.offsets)}"
                )
        except ValueError as error:
            reader.close()
            raise Corrupt("compacted data", 0, str(error), part, at, at) from error
        except Corrupt:
            reader.close()
            raise
        return cls(found, reader)

    async def read(self, at: int, max_entries: int, max_bytes: int) -> Stretch:
        """Read entries of one ledger, from the part's entry `at` on; `Corrupt` if it is damaged."""
        # Not beyond the ledger: callers number the entries of a stretch from one base.
        ledger, base, stop = self.map.place(at)
        run = await self._reader.read(at, min(max_entries, stop - at), max_bytes)
        offsets = self.map.offsets[at : at + len(run.payloads)]
        return Stretch(ledger, base, offsets, run.payloads, run.counts)

    def close(self) -> None:
        """Release the reader's resources."""
        self._reader.close()


def _little(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
