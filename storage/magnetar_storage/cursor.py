"""A subscription's place in a log: what was acknowledged, down to the message of a batch.

A cursor speaks of *offsets*: an entry's place in the whole history of its log, counted
over all segments, so that the next entry is always one more.  Bit masks say which
messages of a batch are still *not* acknowledged (bit i for message i), as on the wire.

The state changes in memory at once.  A `TrackedCursor` also remembers what changed since
the last time: that is taken by `take_delta` and written by the cursor log, and `apply`
replays it after a restart.
"""

from collections.abc import Iterable
from struct import Struct

from magnetar_storage.ranges import RangeSet

_HEAD = Struct("<qII")  # mark-delete, number of ranges, number of masks
_RANGE = Struct("<qq")
_MASK = Struct("<qI")  # offset, bytes of the mask that follows


class Cursor:
    """Everything at or below `mark_delete` is acknowledged, and what `acked` and `partial` add."""

    __slots__ = ("acked", "mark_delete", "partial")

    def __init__(self, mark_delete: int) -> None:
        self.mark_delete = mark_delete
        self.acked = RangeSet()
        self.partial: dict[int, int] = {}

    # Acknowledging ------------------------------------------------------------

    def ack(self, offsets: Iterable[int]) -> None:
        """Acknowledge whole entries, in any order; repeats are harmless.  Fastest with a range."""
        for start, stop in _runs(offsets):
            if stop > self.mark_delete + 1:
                self._ack_run(max(start, self.mark_delete + 1), stop)
        self._advance()

    def ack_batch(self, offset: int, unacked_mask: int) -> bool:
        """Acknowledge the messages of a batch whose bit is clear; True when none is left."""
        if self.is_acked(offset):
            return True
        left = self.partial.get(offset, unacked_mask) & unacked_mask
        if left == 0:
            self.ack((offset,))
            return True
        self.partial[offset] = left
        return False

    def ack_up_to(self, offset: int) -> None:
        """Acknowledge cumulatively; going backwards is harmless and does nothing."""
        if offset > self.mark_delete:
            self._move(offset)
            self._advance()

    def reset(self, mark_delete: int) -> None:
        """Forget every acknowledgement above `mark_delete` and start again from there."""
        self.mark_delete = mark_delete
        self.acked.clear()
        self.partial.clear()

    def _ack_run(self, start: int, stop: int) -> None:
        for offset in range(start, stop) if self.partial else ():
            self.partial.pop(offset, None)
        self.acked.add(start, stop)

    def _advance(self) -> None:
        if self.acked:
            start, stop = self.acked.first
            if start <= self.mark_delete + 1:
                self._move(max(stop - 1, self.mark_delete))

    def _move(self, mark_delete: int) -> None:
        self.mark_delete = mark_delete
        self.acked.remove_below(mark_delete + 1)
        if self.partial:
            self.partial = {o: mask for o, mask in self.partial.items() if o > mark_delete}

    # Asking -------------------------------------------------------------------

    def is_acked(self, offset: int) -> bool:
        """Whether the whole entry is acknowledged."""
        return offset <= self.mark_delete or offset in self.acked

    def next_unacked(self, offset: int) -> int:
        """The first entry from `offset` on that is not wholly acknowledged."""
        return self.acked.next_missing(max(offset, self.mark_delete + 1))

    @property
    def is_plain(self) -> bool:
        """Whether nothing above the mark-delete is acknowledged, not even in part."""
        return not self.acked and not self.partial


class TrackedCursor(Cursor):
    """A cursor that remembers what changed until that is taken: somebody must take it."""

    __slots__ = ("_new_partial", "_new_ranges", "_reset", "_taken_mark_delete")

    def __init__(self, mark_delete: int) -> None:
        super().__init__(mark_delete)
        self._forget_changes()

    def _ack_run(self, start: int, stop: int) -> None:
        super()._ack_run(start, stop)
        new = self._new_ranges
        if new and new[-1][1] == start:
            new[-1] = (new[-1][0], stop)
        else:
            new.append((start, stop))

    def ack_batch(self, offset: int, unacked_mask: int) -> bool:
        done = super().ack_batch(offset, unacked_mask)
        if not done:
            self._new_partial.add(offset)
        return done

    def reset(self, mark_delete: int) -> None:
        super().reset(mark_delete)
        self._forget_changes()
        self._reset = True

    def take_delta(self) -> tuple[bool, bytes] | None:
        """What changed since the last call, as (whole state, bytes); None when nothing did.

        The caller must write it: it is not handed out again.
        """
        if self._reset:
            return True, self.snapshot()
        moved = self.mark_delete != self._taken_mark_delete
        if not moved and not self._new_ranges and not self._new_partial:
            return None
        ranges = [r for r in self._new_ranges if r[1] > self.mark_delete + 1]
        masks = {o: self.partial[o] for o in self._new_partial if o in self.partial}
        self._forget_changes()
        return False, _encode(self.mark_delete, ranges, masks)

    def snapshot(self) -> bytes:
        """The whole state; nothing is left to be taken as a delta."""
        self._forget_changes()
        return _encode(self.mark_delete, list(self.acked), self.partial)

    def apply(self, whole: bool, data: bytes) -> None:
        """Replay what `take_delta` or `snapshot` returned."""
        mark_delete, ranges, masks = _decode(data)
        if whole:
            self.reset(mark_delete)
        for start, stop in ranges:
            self.acked.add(max(start, self.mark_delete + 1), stop)
            for offset in [o for o in self.partial if start <= o < stop]:
                del self.partial[offset]
        for offset, mask in masks.items():
            if not self.is_acked(offset):
                self.partial[offset] = self.partial.get(offset, mask) & mask
        self.ack_up_to(mark_delete)
        self._advance()
        self._forget_changes()

    def _forget_changes(self) -> None:
        self._new_ranges: list[tuple[int, int]] = []
        self._new_partial: set[int] = set()
        self._taken_mark_delete = self.mark_delete
        self._reset = False


def _runs(offsets: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Consecutive offsets together, as (start, stop)."""
    if isinstance(offsets, range) and offsets.step == 1:
        return ((offsets.start, offsets.stop),) if offsets else ()
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
    return runs


def _encode(mark_delete: int, ranges: list[tuple[int, int]], masks: dict[int, int]) -> bytes:
    parts = [_HEAD.pack(mark_delete, len(ranges), len(masks))]
    parts += [_RANGE.pack(start, stop) for start, stop in ranges]
    for offset, mask in masks.items():
        body = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        parts += (_MASK.pack(offset, len(body)), body)
    return b"".join(parts)


def _decode(data: bytes) -> tuple[int, list[tuple[int, int]], dict[int, int]]:
    mark_delete, ranges_count, masks_count = _HEAD.unpack_from(data)
    at = _HEAD.size
    ranges = [_RANGE.unpack_from(data, at + i * _RANGE.size) for i in range(ranges_count)]
    at += ranges_count * _RANGE.size
    masks = {}
    for _ in range(masks_count):
        offset, size = _MASK.unpack_from(data, at)
        at += _MASK.size
        masks[offset] = int.from_bytes(data[at : at + size], "little")
        at += size
    return mark_delete, [(start, stop) for start, stop in ranges], masks
