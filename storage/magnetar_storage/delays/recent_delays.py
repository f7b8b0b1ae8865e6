"""The delays of a topic that are in no run yet; they are stored in its cursor segment.

record   u8 kind, i64 offset below which the index was complete, a block of delays
ADD      more delays          WHOLE    all delays that are in no run
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from struct import Struct

from magnetar_storage.delays.delay_run import decode_block, encode_block, key, offset_of, time_of

_HEAD = Struct("<Bq")
PIECE = 1 << 15
"""The most delays in one record."""


class Kind(IntEnum):
    """The kinds of records."""

    ADD = 1
    WHOLE = 2


class RecentDelays:
    """A heap of keys (see `delay_run.key`), and an attached state of the cursor log.

    `known_to` is called when a record is written: below that offset no delay is missing.  After
    each change the caller must report it with `CursorLog.state_changed`.
    """

    def __init__(self) -> None:
        self.known_to: Callable[[], int] = lambda: 0
        self.recorded_to = 0
        """The offset of the last record; 0 if there is none."""
        self._heap: list[int] = []
        self._moving: list[int] = []
        self._new: list[int] = []
        self._whole = self._noted = False

    def __len__(self) -> int:
        """How many delays can be taken."""
        return len(self._heap)

    @property
    def next_at(self) -> int | None:
        """When the next delay is over, those that are moving to a run included."""
        firsts = [keys[0] for keys in (self._heap, self._moving) if keys]
        return time_of(min(firsts)) if firsts else None

    def offsets(self) -> Iterable[int]:
        """The offsets of the delays that can be taken, in no order."""
        return map(offset_of, self._heap)

    def add(self, keys: Sequence[int]) -> None:
        """Add delays."""
        heap = self._heap
        for one in keys:
            heappush(heap, one)
        self._new += keys

    def take(self, until_ms: int, limit: int) -> list[int]:
        """The offsets of at most `limit` delays that are over at a time."""
        heap, taken, stop = self._heap, list[int](), key(until_ms + 1, 0)
        # Nothing is written: after a restart delays that are over are released again, at once.
        while heap and heap[0] < stop and len(taken) < limit:
            taken.append(offset_of(heappop(heap)))
        return taken

    def keep(self, holds: Callable[[int], bool]) -> None:
        """Drop the delays of offsets for which `holds` is false; call it after a replay, too."""
        self._heap = [one for one in self._heap if holds(offset_of(one))]
        heapify(self._heap)

    def note(self) -> None:
        """Write a record with the next change, though nothing was added."""
        self._noted = True

    # Moving to a run ------------------------------------------------------------------

    def move(self) -> list[int]:
        """All keys, sorted, to be written to a run; until `moved` snapshots still include them."""
        self._moving, self._heap = sorted(self._heap), []
        return self._moving

    def moved(self) -> None:
        """The keys of `move` are durable in a run."""
        self._moving, self._whole = [], True

    # As an attached state ------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        # An ADD cannot say that delays have left for a run.
        if self._whole:
            return self.snapshot()
        if not self._new and not self._noted:
            return []
        new, self._new = self._new, []
        return self._records(Kind.ADD, new)

    def snapshot(self) -> list[bytes]:
        if not (self._noted or self._new or self._heap or self._moving or self.recorded_to):
            return []  # nothing was ever delayed
        self._new, self._whole = [], False
        return self._records(Kind.WHOLE, self._moving + self._heap)

    def apply(self, data: bytes) -> None:
        kind, self.recorded_to = _HEAD.unpack_from(data)
        block = decode_block(data, _HEAD.size)
        if Kind(kind) is Kind.WHOLE:
            self._heap.clear()
        self._heap += map(key, block.times, block.offsets)  # not a heap until `keep`

    def _records(self, first: Kind, keys: list[int]) -> list[bytes]:
        self._noted = False
        self.recorded_to = self.known_to()
        records, kind = [], first
        for at in range(0, max(len(keys), 1), PIECE):
            body = encode_block(keys[at : at + PIECE])
            records.append(_HEAD.pack(kind, self.recorded_to) + body)
            # A second WHOLE would replace the first.
            kind = Kind.ADD
        return records
