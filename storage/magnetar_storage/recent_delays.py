"""The delays of a topic that are in no run yet; the topic's cursor segment carries them.

record   u8 kind, i64 offset below which every delay was known, a block of delays
ADD      more delays          WHOLE    these are all, those before them are in runs
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from struct import Struct

from magnetar_storage.delay_run import decode_block, encode_block, key, offset_of, time_of

_HEAD = Struct("<Bq")
PIECE = 1 << 15
"""Delays in one record."""


class Kind(IntEnum):
    """What a record says."""

    ADD = 1
    WHOLE = 2


class RecentDelays:
    """A heap of keys (see `delay_run.key`), and a side of the cursor log.

    `known_to` says, when a record is written, below which offset no delay is missing.
    """

    def __init__(self) -> None:
        self.known_to: Callable[[], int] = lambda: 0
        self.recorded_to = 0
        """What the last record said of that; 0 while there is none."""
        self._heap: list[int] = []
        self._moving: list[int] = []
        self._new: list[int] = []
        self._whole = self._noted = False

    def __len__(self) -> int:
        """How many can be taken."""
        return len(self._heap)

    @property
    def next_at(self) -> int | None:
        """When the next delay ends, be it moving or not."""
        firsts = [keys[0] for keys in (self._heap, self._moving) if keys]
        return time_of(min(firsts)) if firsts else None

    def offsets(self) -> Iterable[int]:
        """Whose delays these are, in no order."""
        return map(offset_of, self._heap)

    def add(self, keys: Sequence[int]) -> None:
        """More delays; the cursor log is to be told."""
        heap = self._heap
        for one in keys:
            heappush(heap, one)
        self._new += keys

    def take(self, until_ms: int, limit: int) -> list[int]:
        """The offsets of so many delays that end up to a time."""
        heap, taken, stop = self._heap, list[int](), key(until_ms + 1, 0)
        while heap and heap[0] < stop and len(taken) < limit:
            taken.append(offset_of(heappop(heap)))
        return taken

    def keep(self, holds: Callable[[int], bool]) -> None:
        """Forget the delays of other offsets; to be called after a replay, too."""
        self._heap = [one for one in self._heap if holds(offset_of(one))]
        heapify(self._heap)

    def note(self) -> None:
        """Record what is known, though nothing was added; the cursor log is to be told."""
        self._noted = True

    # Moving to a run ------------------------------------------------------------------

    def move(self) -> list[int]:
        """All keys, sorted, to be written to a run; until `moved` they count as being here."""
        self._moving, self._heap = sorted(self._heap), []
        return self._moving

    def moved(self) -> None:
        """They are in a run; the cursor log is to be told."""
        self._moving, self._whole = [], True

    # As a side of the cursor log ------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        if self._whole:
            return self.snapshot()
        if not self._new and not self._noted:
            return []
        new, self._new = self._new, []
        return self._records(Kind.ADD, new)

    def snapshot(self) -> list[bytes]:
        if not (self._noted or self._new or self._heap or self._moving or self.recorded_to):
            return []  # no delay ever
        self._new, self._whole = [], False
        return self._records(Kind.WHOLE, self._moving + self._heap)

    def apply(self, data: bytes) -> None:
        kind, self.recorded_to = _HEAD.unpack_from(data)
        block = decode_block(data, _HEAD.size)
        if Kind(kind) is Kind.WHOLE:
            self._heap.clear()
        self._heap += map(key, block.times, block.offsets)  # in no order until `keep`

    def _records(self, first: Kind, keys: list[int]) -> list[bytes]:
        self._noted = False
        self.recorded_to = self.known_to()
        records, kind = [], first
        for at in range(0, max(len(keys), 1), PIECE):
            body = encode_block(keys[at : at + PIECE])
            records.append(_HEAD.pack(kind, self.recorded_to) + body)
            kind = Kind.ADD
        return records
