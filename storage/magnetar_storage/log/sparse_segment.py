"""Sparse segments: ordinary segments that hold the remaining entries of rewritten ones.

A sparse segment identifies entries by their offset in the log, so it may hold the remaining
entries of several neighbours.  Its first entries are the pieces of a map and count no messages; the
kept entries follow, unchanged and in order.

    piece    4s `MKPR`, u32 version, u32 pieces that follow, u32 n: how many runs,
             n times i64 first offset, i64 entries, i64 messages of the log before it
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from struct import Struct, unpack_from
from struct import error as StructError
from typing import NamedTuple

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Run, SegmentId, SegmentReader, SegmentStore

_HEAD = Struct("<4sIII")
MAGIC = b"MKPR"
VERSION = 1
RUNS_PER_PIECE = 40_000
"""Keeps a piece below a megabyte."""
_EVER = 1 << 62
READ_ENTRIES = 5000
READ_BYTES = 64 << 10
"""The bytes of following entries that are read with the requested one, for the next call."""


class OffsetRun(NamedTuple):
    """Consecutive entries of the log."""

    first: int
    entries: int
    messages_before: int
    """The number of messages of the whole log before the run."""


def encode_map(runs: Sequence[OffsetRun]) -> list[bytes]:
    """Encode the map of these runs, which are in order and apart, in pieces."""
    cuts = range(0, max(len(runs), 1), RUNS_PER_PIECE)
    return [
        _encode_piece(runs[at : at + RUNS_PER_PIECE], len(cuts) - 1 - number)
        for number, at in enumerate(cuts)
    ]


def _encode_piece(runs: Sequence[OffsetRun], pieces_left: int) -> bytes:
    numbers = list(chain.from_iterable(runs))
    head = _HEAD.pack(MAGIC, VERSION, pieces_left, len(runs))
    return head + Struct(f"<{len(numbers)}q").pack(*numbers)


def decode_piece(data: bytes) -> tuple[int, list[OffsetRun]]:
    """Decode a piece of a map; returns the number of pieces that follow, and the runs.

    Raises ValueError if the data is not a piece of a map.
    """
    try:
        magic, version, pieces_left, n = _HEAD.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError("expected a piece of a sparse segment's map, got something else")
        numbers = unpack_from(f"<{3 * n}q", data, _HEAD.size)
    except StructError as error:
        raise ValueError(f"a piece of a sparse segment's map is cut short: {error}") from error
    return pieces_left, [OffsetRun(*numbers[at : at + 3]) for at in range(0, 3 * n, 3)]


class SparseMap:
    """The offsets that a sparse segment holds, and their entries in it."""

    def __init__(self, pieces: int, runs: Sequence[OffsetRun]) -> None:
        self._firsts = [run.first for run in runs]
        self._messages = [run.messages_before for run in runs]
        self._at = list(accumulate((run.entries for run in runs), initial=pieces))

    @property
    def pieces(self) -> int:
        """The number of entries of the sparse segment that make up its map."""
        return self._at[0]

    @property
    def entries(self) -> int:
        """The number of entries of the sparse segment, its map included."""
        return self._at[-1]

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the kept offsets of start..stop-1 as ranges (start, stop), in order."""
        run = max(bisect_right(self._firsts, start) - 1, 0)
        while run < len(self._firsts) and self._firsts[run] < stop:
            first = self._firsts[run]
            low, high = max(first, start), min(first + self._length(run), stop)
            if low < high:
                yield low, high
            run += 1

    def entry_of(self, offset: int) -> tuple[int, int] | None:
        """Return the entry that holds an offset, and the number of consecutive offsets from it on.

        None if the offset is not kept.
        """
        run = bisect_right(self._firsts, offset) - 1
        if run < 0 or offset >= self._firsts[run] + self._length(run):
            return None
        # Runs are stored one after the other: the place in the run is the place after its first
        # entry.
        into = offset - self._firsts[run]
        return self._at[run] + into, self._length(run) - into

    def offset_of(self, entry: int) -> int:
        """Return the offset of an entry after the map."""
        run = bisect_right(self._at, entry) - 1
        return self._firsts[run] + entry - self._at[run]

    async def messages_before(self, offset: int, reader: SegmentReader) -> int | None:
        """Count the messages of the log before an offset; in a gap, before the next kept entry.

        None if no kept entry follows.
        """
        run = bisect_right(self._firsts, offset) - 1
        if run >= 0 and offset <= self._firsts[run] + self._length(run):
            at = self._at[run]
            entry = at + offset - self._firsts[run]
            # The segment counts its own messages; the map has those of the log before each run.
            within = await reader.messages_before(entry) - await reader.messages_before(at)
            return self._messages[run] + within
        return self._messages[run + 1] if run + 1 < len(self._messages) else None

    def _length(self, run: int) -> int:
        return self._at[run + 1] - self._at[run]


def map_of(entries: Iterable[bytes]) -> SparseMap:
    """Decode the map at the beginning of these entries; ValueError if there is none."""
    runs: list[OffsetRun] = []
    for pieces, entry in enumerate(entries, 1):
        left, more = decode_piece(entry)
        runs += more
        if not left:
            return SparseMap(pieces, runs)
    raise ValueError("the sparse segment ends within its map")


class SparseReader:
    """Reads a sparse segment by the offsets of its log."""

    def __init__(self, map_: SparseMap, reader: SegmentReader) -> None:
        self.map = map_
        self._reader = reader
        self._last = Run(0, [], ())  # the last read, which goes beyond the entry asked for

    @classmethod
    async def open(cls, store: SegmentStore, segment: SegmentId) -> "SparseReader":
        """Read the map; `Corrupt` or `NoSegment` if it cannot be read."""
        reader = await store.reader(segment)
        runs: list[OffsetRun] = []
        pieces, left = 0, 1
        try:
            while left:
                run = await reader.read(pieces, 1, 1)
                left, more = decode_piece(run.payloads[0] if run.payloads else b"")
                runs += more
                pieces += 1
        except Corrupt as error:
            reader.close()
            raise Corrupt(error.file, error.offset, f"its map: {error.why}", segment) from error
        except ValueError as error:
            reader.close()
            raise Corrupt("sparse segment", 0, str(error), segment) from error
        return cls(SparseMap(pieces, runs), reader)

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Run:
        """Read entries from `offset` on, up to the next gap.

        Raises `Corrupt` if the first one is damaged or not kept here; the error names offsets, not
        entries.
        """
        found = self.map.entry_of(offset)
        if found is None:
            behind = next((first for first, _ in self.map.runs(offset, _EVER)), offset + 1)
            why = f"the entry at offset {offset} is not kept here"
            raise Corrupt("sparse segment", 0, why, first_entry=offset, last_entry=behind - 1)
        entry, follow = found
        at = entry - self._last.first
        # A log is read in order, and gaps make reads short: the next ones are served from memory.
        if not 0 <= at < len(self._last.payloads):
            try:
                self._last = await self._reader.read(entry, READ_ENTRIES, READ_BYTES)
            except Corrupt as error:
                raise self._at_offsets(error) from error
            at = 0
            if not self._last.payloads:
                why = f"the sparse segment ends before entry {entry}"
                raise Corrupt("sparse segment", 0, why, first_entry=offset, last_entry=offset)
        payloads, counts = self._last.payloads, self._last.counts
        stop = at + _fitting(payloads, at, min(max_entries, follow), max_bytes)
        return Run(offset, payloads[at:stop], counts[at:stop])

    async def stored_bytes(self, offset: int, stop: int) -> bytes:
        """Return the result of `SegmentReader.stored_bytes`, by offsets, up to the next gap."""
        found = self.map.entry_of(offset)
        if found is None:
            return b""
        entry, follow = found
        return await self._reader.stored_bytes(entry, entry + min(stop - offset, follow))

    async def messages_before(self, offset: int) -> int | None:
        """Return the result of `SparseMap.messages_before`."""
        return await self.map.messages_before(offset, self._reader)

    def messages_in(self, offset: int) -> int | None:
        """Return the number of messages in an entry; None if not known, or not kept here."""
        found = self.map.entry_of(offset)
        return None if found is None else self._reader.messages_in(found[0])

    def close(self) -> None:
        """Release the reader's resources."""
        self._reader.close()

    def _at_offsets(self, error: Corrupt) -> Corrupt:
        first, last = error.first_entry, error.last_entry
        if first is not None and last is not None:
            # Damage may begin in the map, whose entries have no offset.
            first = self.map.offset_of(max(first, self.map.pieces))
            last = self.map.offset_of(max(last, self.map.pieces))
        return Corrupt(error.file, error.offset, error.why, error.segment, first, last)


def _fitting(payloads: Sequence[bytes], at: int, max_entries: int, max_bytes: int) -> int:
    """Return the number of entries from `at` on within the limits; at least one."""
    room = max_bytes - len(payloads[at])
    n = 1
    while n < max_entries and at + n < len(payloads) and room >= len(payloads[at + n]):
        room -= len(payloads[at + n])
        n += 1
    return n
