"""Keepers: ordinary segments with what is left of others that lost most of their entries.

A keeper speaks of offsets in its log, so it may hold what is left of several neighbours.
Its first entries are pieces of a map, of no messages; behind them come the entries kept,
in order, as they were.

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
"""So that a piece has less than a megabyte."""
_EVER = 1 << 62
READ_ENTRIES = 5000
READ_BYTES = 64 << 10
"""Neighbours of an entry that are read with it, for the next call."""


class KeptRun(NamedTuple):
    """Consecutive entries of the log."""

    first: int
    entries: int
    messages_before: int
    """Messages of the whole log that lie before the run."""


def encode_map(runs: Sequence[KeptRun]) -> list[bytes]:
    """The pieces of the map of these runs, which are in order and apart."""
    cuts = range(0, max(len(runs), 1), RUNS_PER_PIECE)
    return [
        _encode_piece(runs[at : at + RUNS_PER_PIECE], len(cuts) - 1 - number)
        for number, at in enumerate(cuts)
    ]


def _encode_piece(runs: Sequence[KeptRun], pieces_left: int) -> bytes:
    numbers = list(chain.from_iterable(runs))
    head = _HEAD.pack(MAGIC, VERSION, pieces_left, len(runs))
    return head + Struct(f"<{len(numbers)}q").pack(*numbers)


def decode_piece(data: bytes) -> tuple[int, list[KeptRun]]:
    """How many pieces follow, and the runs; ValueError if this is no piece of a map."""
    try:
        magic, version, pieces_left, n = _HEAD.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError("this is no piece of a keeper's map")
        numbers = unpack_from(f"<{3 * n}q", data, _HEAD.size)
    except StructError as error:
        raise ValueError(f"the piece of a keeper's map is cut short: {error}") from error
    return pieces_left, [KeptRun(*numbers[at : at + 3]) for at in range(0, 3 * n, 3)]


class KeeperMap:
    """Which offsets a keeper holds, and which of its entries each one is."""

    def __init__(self, pieces: int, runs: Sequence[KeptRun]) -> None:
        self._firsts = [run.first for run in runs]
        self._messages = [run.messages_before for run in runs]
        self._at = list(accumulate((run.entries for run in runs), initial=pieces))

    @property
    def pieces(self) -> int:
        """How many of the keeper's entries are its map."""
        return self._at[0]

    @property
    def entries(self) -> int:
        """How many the keeper has, its map included."""
        return self._at[-1]

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """What is kept of start..stop-1, as (start, stop), in order."""
        run = max(bisect_right(self._firsts, start) - 1, 0)
        while run < len(self._firsts) and self._firsts[run] < stop:
            first = self._firsts[run]
            low, high = max(first, start), min(first + self._length(run), stop)
            if low < high:
                yield low, high
            run += 1

    def entry_of(self, offset: int) -> tuple[int, int] | None:
        """The keeper's entry that is this one, and how many follow it here and in the log."""
        run = bisect_right(self._firsts, offset) - 1
        if run < 0 or offset >= self._firsts[run] + self._length(run):
            return None
        into = offset - self._firsts[run]
        return self._at[run] + into, self._length(run) - into

    def offset_of(self, entry: int) -> int:
        """The offset of one of the keeper's entries behind the map."""
        run = bisect_right(self._at, entry) - 1
        return self._firsts[run] + entry - self._at[run]

    def messages_before(self, offset: int, reader: SegmentReader) -> int | None:
        """Messages of the log before an offset; in a gap, those before what is kept behind it.

        None behind everything that is kept.
        """
        run = bisect_right(self._firsts, offset) - 1
        if run >= 0 and offset <= self._firsts[run] + self._length(run):
            at = self._at[run]
            entry = at + offset - self._firsts[run]
            within = reader.messages_before(entry) - reader.messages_before(at)
            return self._messages[run] + within
        return self._messages[run + 1] if run + 1 < len(self._messages) else None

    def _length(self, run: int) -> int:
        return self._at[run + 1] - self._at[run]


def map_of(entries: Iterable[bytes]) -> KeeperMap:
    """The map that a keeper of these entries begins with; ValueError if there is none."""
    runs: list[KeptRun] = []
    for pieces, entry in enumerate(entries, 1):
        left, more = decode_piece(entry)
        runs += more
        if not left:
            return KeeperMap(pieces, runs)
    raise ValueError("the keeper ends within its map")


class KeeperReader:
    """Reads a keeper by the offsets of its log."""

    def __init__(self, map_: KeeperMap, reader: SegmentReader) -> None:
        self.map = map_
        self._reader = reader
        self._last = Run(0, [], ())  # what was read with the entry asked for last

    @classmethod
    async def open(cls, store: SegmentStore, keeper: SegmentId) -> "KeeperReader":
        """`Corrupt` or `NoSegment` if nobody can tell what it holds."""
        reader = await store.reader(keeper)
        runs: list[KeptRun] = []
        pieces, left = 0, 1
        try:
            while left:
                run = await reader.read(pieces, 1, 1)
                left, more = decode_piece(run.payloads[0] if run.payloads else b"")
                runs += more
                pieces += 1
        except Corrupt as error:
            reader.close()
            raise Corrupt(error.file, error.offset, f"keeper's map: {error.why}", keeper) from error
        except ValueError as error:
            reader.close()
            raise Corrupt("keeper", 0, str(error), keeper) from error
        return cls(KeeperMap(pieces, runs), reader)

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Run:
        """Entries from `offset` on, up to the next gap.

        Raises `Corrupt` when the first one is damaged, or not here; the entries it names are
        offsets.
        """
        found = self.map.entry_of(offset)
        if found is None:
            behind = next((first for first, _ in self.map.runs(offset, _EVER)), offset + 1)
            why = f"the entry at offset {offset} is not kept here"
            raise Corrupt("keeper", 0, why, first_entry=offset, last_entry=behind - 1)
        entry, follow = found
        at = entry - self._last.first
        if not 0 <= at < len(self._last.payloads):
            try:
                self._last = await self._reader.read(entry, READ_ENTRIES, READ_BYTES)
            except Corrupt as error:
                raise self._at_offsets(error) from error
            at = 0
            if not self._last.payloads:
                why = f"the keeper ends before entry {entry}"
                raise Corrupt("keeper", 0, why, first_entry=offset, last_entry=offset)
        payloads, counts = self._last.payloads, self._last.counts
        stop = at + _fitting(payloads, at, min(max_entries, follow), max_bytes)
        return Run(offset, payloads[at:stop], counts[at:stop])

    def messages_before(self, offset: int) -> int | None:
        """See `KeeperMap.messages_before`."""
        return self.map.messages_before(offset, self._reader)

    def close(self) -> None:
        """Give back what the reader holds."""
        self._reader.close()

    def _at_offsets(self, error: Corrupt) -> Corrupt:
        first, last = error.first_entry, error.last_entry
        if first is not None and last is not None:
            first = self.map.offset_of(max(first, self.map.pieces))
            last = self.map.offset_of(max(last, self.map.pieces))
        return Corrupt(error.file, error.offset, error.why, error.segment, first, last)


def _fitting(payloads: Sequence[bytes], at: int, max_entries: int, max_bytes: int) -> int:
    """How many entries from `at` on are within the limits; one at least."""
    room = max_bytes - len(payloads[at])
    n = 1
    while n < max_entries and at + n < len(payloads) and room >= len(payloads[at + n]):
        room -= len(payloads[at + n])
        n += 1
    return n
