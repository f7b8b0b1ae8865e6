"""A subscription's place in a log: what was acknowledged, down to the message of a batch.

A cursor speaks of *offsets*: an entry's place in the whole history of its log, counted
over all segments, so that the next entry is always one more.  Bit masks say which
messages of a batch are still *not* acknowledged (bit i for message i), as on the wire.

The state changes in memory at once.  A `TrackedCursor` also remembers what changed since
the last time: that is taken by `take_delta` and written by the cursor log, and `apply`
replays it after a restart.
"""

from collections.abc import Iterable

from magnetar_storage.cursor_record import (
    MOST_RANGES,
    Kind,
    Piece,
    State,
    decode,
    decode_bitmaps,
    pieces,
)
from magnetar_storage.offsets import OffsetSet, ranges_of


class Cursor:
    """Everything at or below `mark_delete` is acknowledged, and what `acked` and `partial` add.

    `redelivered` says how often an entry that is not acknowledged was delivered again.
    """

    __slots__ = ("acked", "mark_delete", "partial", "redelivered")

    def __init__(self, mark_delete: int) -> None:
        self.mark_delete = mark_delete
        self.acked = OffsetSet()
        self.partial: dict[int, int] = {}
        self.redelivered: dict[int, int] = {}

    # Acknowledging ------------------------------------------------------------

    def ack(self, offsets: Iterable[int]) -> None:
        """Acknowledge whole entries, in any order; repeats are harmless.  Fastest with a range."""
        for start, stop in _runs(offsets):
            if stop <= self.mark_delete + 1:
                continue
            if start <= self.mark_delete + 1:
                self._move(stop - 1)
            else:
                self._ack_run(start, stop)
        self._advance()

    def ack_scattered(self, offsets: Iterable[int]) -> None:
        """The same, faster for many entries that hardly follow each other."""
        first = self.mark_delete + 1
        self._ack_runs(
            [(max(start, first), stop) for start, stop in _runs(offsets) if stop > first]
        )
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

    def skip(self, gone: OffsetSet) -> None:
        """Count as acknowledged what nobody can have any more; that need not be stored."""
        ranges, bitmaps = gone.parts(0)
        for run in ranges:
            self.acked.add(*run)
        for offset, bits in bitmaps:
            self.acked.add_bits(offset, bits)
        self.acked.remove_below(self.mark_delete + 1)
        for known in (self.partial, self.redelivered):
            for offset in [offset for offset in known if offset in gone]:
                del known[offset]
        self._advance()

    def reset(self, mark_delete: int) -> None:
        """Forget every acknowledgement above `mark_delete` and start again from there."""
        self.mark_delete = mark_delete
        self.acked.clear()
        self.partial.clear()
        self.redelivered.clear()

    def _ack_run(self, start: int, stop: int) -> None:
        self._forget(start, stop)
        self.acked.add(start, stop)

    def _ack_runs(self, runs: list[tuple[int, int]]) -> None:
        if self.partial or self.redelivered:
            for start, stop in runs:
                self._forget(start, stop)
        self.acked.add_all(runs)

    def _advance(self) -> None:
        if self.acked:
            next_unacked = self.acked.next_missing(self.mark_delete + 1)
            if next_unacked > self.mark_delete + 1:
                self._move(next_unacked - 1)

    def _move(self, mark_delete: int) -> None:
        self._forget(self.mark_delete + 1, mark_delete + 1)
        self.mark_delete = mark_delete
        if self.acked:
            self.acked.remove_below(mark_delete + 1)

    def _forget(self, start: int, stop: int) -> None:
        """What was known of start..stop-1 is of no use any more."""
        if self.partial:
            _drop(self.partial, start, stop)
        if self.redelivered:
            _drop(self.redelivered, start, stop)

    # Redelivering -------------------------------------------------------------

    def count_redelivery(self, offsets: Iterable[int]) -> None:
        """These entries are to be delivered once more; those that are acknowledged are not."""
        counts = self.redelivered
        for offset in offsets:
            if not self.is_acked(offset):
                counts[offset] = counts.get(offset, 0) + 1

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

    __slots__ = ("_new_counts", "_new_partial", "_new_ranges", "_reset", "_taken_mark_delete")

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

    def _ack_runs(self, runs: list[tuple[int, int]]) -> None:
        super()._ack_runs(runs)
        self._new_ranges += runs

    def ack_batch(self, offset: int, unacked_mask: int) -> bool:
        done = super().ack_batch(offset, unacked_mask)
        if not done:
            self._new_partial.add(offset)
        return done

    def count_redelivery(self, offsets: Iterable[int]) -> None:
        offsets = list(offsets)
        super().count_redelivery(offsets)
        self._new_counts.update(offsets)

    def reset(self, mark_delete: int) -> None:
        super().reset(mark_delete)
        self._forget_changes()
        self._reset = True

    def take_delta(self) -> list[Piece]:
        """What changed since the last call, nothing if nothing did.

        The caller must write it: it is not handed out again.
        """
        if self._reset:
            return self.snapshot()
        mark_delete = self.mark_delete
        ranges = [r for r in self._new_ranges if r[1] > mark_delete + 1]
        masks = {o: self.partial[o] for o in self._new_partial if o in self.partial}
        counts = {o: self.redelivered[o] for o in self._new_counts if o in self.redelivered}
        moved = mark_delete != self._taken_mark_delete
        self._forget_changes()
        if not (moved or ranges or masks or counts):
            return []
        return pieces(Kind.DELTA, State(mark_delete, ranges, masks, counts))

    def snapshot(self) -> list[Piece]:
        """The whole state; nothing is left to be taken as a delta."""
        self._forget_changes()
        ranges, bitmaps = self.acked.parts(MOST_RANGES)
        state = State(self.mark_delete, ranges, self.partial, self.redelivered, bitmaps)
        return pieces(Kind.WHOLE, state)

    def apply(self, kind: Kind, body: bytes) -> None:
        """Replay a piece that `take_delta` or `snapshot` returned; ValueError if it is none."""
        if kind is Kind.BITMAPS:
            self._apply_bitmaps(body)
        elif kind in (Kind.WHOLE, Kind.DELTA):
            self._apply_state(kind, decode(body))
        else:
            raise ValueError(f"{kind.name} changes no cursor")
        self._advance()
        self._forget_changes()

    def _apply_bitmaps(self, body: bytes) -> None:
        for offset, bits in decode_bitmaps(body):
            self.acked.add_bits(offset, bits)
        self.acked.remove_below(self.mark_delete + 1)
        for known in self.partial, self.redelivered:
            for offset in [offset for offset in known if offset in self.acked]:
                del known[offset]

    def _apply_state(self, kind: Kind, state: State) -> None:
        if kind is Kind.WHOLE:
            self.reset(state.mark_delete)
        first, known = self.mark_delete + 1, self.partial or self.redelivered
        for start, stop in state.ranges:
            self.acked.add(max(start, first), stop)
            if known:
                self._forget(start, stop)
        for offset, mask in state.masks.items():
            if not self.is_acked(offset):
                self.partial[offset] = self.partial.get(offset, mask) & mask
        for offset, count in state.counts.items():
            if not self.is_acked(offset):
                self.redelivered[offset] = max(self.redelivered.get(offset, 0), count)
        self.ack_up_to(state.mark_delete)

    def _forget_changes(self) -> None:
        self._new_ranges: list[tuple[int, int]] = []
        self._new_partial: set[int] = set()
        self._new_counts: set[int] = set()
        self._taken_mark_delete = self.mark_delete
        self._reset = False


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive offsets together, as (start, stop)."""
    if isinstance(offsets, range) and offsets.step == 1:
        return [(offsets.start, offsets.stop)] if offsets else []
    return list(ranges_of(offsets))


def _drop(known: dict[int, int], start: int, stop: int) -> None:
    """Forget what is known of start..stop-1, at the cost of the smaller of the two."""
    if stop - start < len(known):
        for offset in range(start, stop):
            known.pop(offset, None)
    else:
        for offset in [offset for offset in known if start <= offset < stop]:
            del known[offset]
