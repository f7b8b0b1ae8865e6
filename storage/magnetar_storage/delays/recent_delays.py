"""The delays of a topic that are in no run yet; they are stored in its cursor segment.

record   u8 kind, i64 offset below which the index was complete, a block of delays
ADD      more delays          WHOLE    all delays that are in no run
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import chain
from struct import Struct

from magnetar_storage.delays.delay_block import (
    BLOCK,
    Block,
    block_of,
    decode_block,
    encode_block,
    sorted_block,
)

_HEAD = Struct("<Bq")
PIECE = 1 << 15
"""The most delays in one record."""
MOST_PARTS = 128
"""The most sorted parts; if there are more, small ones are joined."""


class DelayRecordKind(IntEnum):
    """The kinds of records."""

    ADD = 1
    WHOLE = 2


class SortedDelays:
    """Sorted delays, of which the earliest may have been taken."""

    __slots__ = ("at", "block")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.at = 0

    @property
    def left(self) -> int:
        """The number of delays that can still be taken."""
        return len(self.block.times) - self.at

    def take(self, until_ms: int, limit: int) -> Sequence[int]:
        """Take at most `limit` delays that are over at `until_ms`, and return their offsets."""
        at, block = self.at, self.block
        self.at = min(bisect_right(block.times, until_ms, at), at + limit)
        return block.offsets[at : self.at]

    def rest(self) -> Block:
        """Return the delays that have not been taken."""
        if not self.at:
            return self.block
        return Block(self.block.times[self.at :], self.block.offsets[self.at :])


class RecentDelays:
    """Delays in memory, and an attached state of the cursor log.

    New delays are gathered in the order of arrival; every `size` of them become a sorted part, so
    that the time of a step does not grow with their number.  `known_to` is called when a record is
    written: below that offset no delay is missing.  After each change the caller must report it
    with `CursorLog.state_changed`.
    """

    def __init__(self, size: int = BLOCK, most_parts: int = MOST_PARTS) -> None:
        self.known_to: Callable[[], int] = lambda: 0
        self.recorded_to = 0
        """The offset in the last record, below which no delay was missing; 0 without a record."""
        self.next_at: int | None = None
        """The time at which the next delay is over, delays that are moving to a run included."""
        self._size = size
        self._most_parts = most_parts
        self._parts: list[SortedDelays] = []
        self._in_parts = 0
        self._gathered = block_of((), ())
        self._new = block_of((), ())  # in no record yet
        self._moving: list[Block] = []
        self._whole = self._noted = False

    def __len__(self) -> int:
        """Return the number of delays that can be taken."""
        return self._in_parts + len(self._gathered.times)

    def offsets(self) -> Iterable[int]:
        """Return the offsets of the delays that can be taken, in no particular order."""
        return chain.from_iterable(block.offsets for block in self._blocks())

    def add(self, offsets: Sequence[int], times: Sequence[int]) -> None:
        """Add delays, at least one."""
        block = block_of(times, offsets)
        self._new.times.extend(block.times)
        self._new.offsets.extend(block.offsets)
        self._put(block)

    def take(self, until_ms: int, limit: int) -> list[int]:
        """Take at most `limit` delays that are over at `until_ms`, and return their offsets."""
        if self.next_at is None or self.next_at > until_ms:
            return []
        if min(self._gathered.times, default=until_ms + 1) <= until_ms:
            self._sort()
        taken: list[int] = []
        for part in self._parts:
            taken += part.take(until_ms, limit - len(taken))
        self._set_parts(self._parts)
        return taken

    def keep(self, holds: Callable[[int], bool]) -> None:
        """Drop the delays of offsets for which `holds` is false."""
        self._gathered = self._gathered.only(holds)
        self._set_parts([SortedDelays(part.rest().only(holds)) for part in self._parts])

    def trim(self, first: int) -> None:
        """Drop the delays of offsets before `first`; most parts have none."""
        for part in self._parts:
            if min(part.block.offsets) < first:
                part.block, part.at = part.rest().only(first.__le__), 0
        self._gathered = self._gathered.only(first.__le__)
        self._set_parts(self._parts)

    def note(self) -> None:
        """Write a record with the next change, though nothing was added."""
        self._noted = True

    # Parts ----------------------------------------------------------------------------

    def _put(self, block: Block) -> None:
        self._gathered.times.extend(block.times)
        self._gathered.offsets.extend(block.offsets)
        first = min(block.times)
        if self.next_at is None or first < self.next_at:
            self.next_at = first
        while len(self._gathered.times) >= self._size:
            self._sort()

    def _sort(self) -> None:
        """Make a sorted part of the gathered delays."""
        (times, offsets), size = self._gathered, self._size
        part = SortedDelays(sorted_block(times[:size], offsets[:size]))
        self._gathered = Block(times[size:], offsets[size:])
        self._parts.append(part)
        self._in_parts += part.left
        if len(self._parts) > self._most_parts:
            self._join()

    def _join(self) -> None:
        """Join several small parts, from which many delays were taken, into one."""
        joined, (times, offsets) = set[SortedDelays](), block_of((), ())
        for part in sorted(self._parts, key=lambda part: part.left):
            if len(times) + part.left > self._size:
                break
            rest = part.rest()
            times.extend(rest.times)
            offsets.extend(rest.offsets)
            joined.add(part)
        if len(joined) > 1:
            self._parts = [part for part in self._parts if part not in joined]
            self._parts.append(SortedDelays(sorted_block(times, offsets)))

    def _set_parts(self, parts: list[SortedDelays]) -> None:
        """Set the parts that are left, after delays were taken from them or dropped."""
        self._parts = [part for part in parts if part.left]
        self._in_parts = sum(part.left for part in self._parts)
        firsts = [part.block.times[part.at] for part in self._parts]
        firsts += [block.times[0] for block in self._moving]
        if self._gathered.times:
            firsts.append(min(self._gathered.times))
        self.next_at = min(firsts, default=None)

    def _blocks(self) -> list[Block]:
        return [*(part.rest() for part in self._parts), self._gathered]

    # Moving to a run ------------------------------------------------------------------

    def move(self) -> list[Block]:
        """Return all delays in sorted blocks, to be written to a run.

        Snapshots include them until `moved` is called.
        """
        if self._gathered.times:
            self._sort()
        self._moving = [part.rest() for part in self._parts]
        self._set_parts([])
        return self._moving

    def moved(self) -> None:
        """Note that the delays returned by `move` are durable in a run."""
        self._moving, self._whole = [], True
        self._set_parts(self._parts)

    # As an attached state ------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        # An ADD cannot express that delays were moved to a run.
        if self._whole:
            return self.snapshot()
        if not self._new.times and not self._noted:
            return []
        new, self._new = self._new, block_of((), ())
        return self._records(DelayRecordKind.ADD, [new])

    def snapshot(self) -> list[bytes]:
        if not (self._noted or self._new.times or len(self) or self._moving or self.recorded_to):
            return []  # nothing was ever delayed
        self._new, self._whole = block_of((), ()), False
        # promise[without _moving + self.]: delays that are being moved to a run are written again
        return self._records(DelayRecordKind.WHOLE, self._moving + self._blocks())

    def apply(self, data: bytes) -> None:
        kind, self.recorded_to = _HEAD.unpack_from(data)
        block = decode_block(data, _HEAD.size)
        if DelayRecordKind(kind) is DelayRecordKind.WHOLE:
            self._gathered = block_of((), ())
            self._set_parts([])
        if block.times:
            self._put(block)

    def _records(self, first: DelayRecordKind, blocks: Sequence[Block]) -> list[bytes]:
        self._noted = False
        self.recorded_to = self.known_to()
        pieces = [
            Block(times[at : at + PIECE], offsets[at : at + PIECE])
            for times, offsets in blocks
            for at in range(0, len(times), PIECE)
        ]
        records, kind = list[bytes](), first
        for piece in pieces or [block_of((), ())]:
            records.append(_HEAD.pack(kind, self.recorded_to) + encode_block(piece))
            # A second WHOLE would replace the first.
            kind = DelayRecordKind.ADD
        return records
