"""A subscription's cursor: the acknowledged entries of a log, and messages of batches.

A cursor counts in *offsets*: an entry's place in the whole history of its log, over all
segments, so that the next entry always has the next number.  A set bit i of a mask means that
message i of a batch is *not* acknowledged, as on the wire.

The state changes in memory at once.  A `TrackedCursor` also records what changed, which
`take_delta` returns for the cursor log to write, and `apply` replays after a restart.
"""

from collections.abc import Iterable

from magnetar_storage.cursors.cursor_record import (
    MOST_RANGES,
    CursorEntryKind,
    Piece,
    State,
    decode,
    decode_bitmaps,
    pieces,
)
from magnetar_storage.cursors.redelivery_counts import RedeliveryCounts
from magnetar_storage.log.offset_set import OffsetSet, ranges_of

FEW = 16
"""The most parts of a set of offsets that are looked up one by one."""


class Cursor:
    """A cursor: everything up to `mark_delete`, and the entries in `acked`, is acknowledged.

    `partial` has the masks of batches that are acknowledged in part, `redelivered` the number of
    redeliveries of each unacknowledged entry.
    """

    __slots__ = ("acked", "mark_delete", "partial", "redelivered")

    def __init__(self, mark_delete: int) -> None:
        self.mark_delete = mark_delete
        self.acked = OffsetSet()
        self.partial: dict[int, int] = {}
        self.redelivered = RedeliveryCounts()

    @property
    def highest(self) -> int:
        """The last entry that is acknowledged, at least in part."""
        acked = max((stop - 1 for _, stop in self.acked), default=self.mark_delete)
        return max(self.mark_delete, acked, *self.partial)

    # Acknowledging ------------------------------------------------------------

    def ack(self, offsets: Iterable[int]) -> None:
        """Acknowledge whole entries, in any order; repeats are harmless; a range is fastest."""
        for start, stop in _runs(offsets):
            if stop <= self.mark_delete + 1:
                continue
            if start <= self.mark_delete + 1:
                # In order, as most acknowledgements are: the mark-delete moves, and no set is
                # touched.
                self._move(stop - 1)
            else:
                self._ack_run(start, stop)
        self._advance()

    def ack_scattered(self, offsets: Iterable[int]) -> None:
        """Acknowledge entries as `ack` does, faster where many are not consecutive."""
        first = self.mark_delete + 1
        self._ack_runs(
            [(max(start, first), stop) for start, stop in _runs(offsets) if stop > first]
        )
        self._advance()

    def ack_batch(self, offset: int, unacked_mask: int) -> bool:
        """Acknowledge the messages of a batch whose bits are clear; True if none is left."""
        if self.is_acked(offset):
            return True
        # Only bits that both have set: acknowledgements of one batch arrive in any order.
        left = self.partial.get(offset, unacked_mask) & unacked_mask
        if left == 0:
            self.ack((offset,))
            return True
        self.partial[offset] = left
        return False

    def ack_up_to(self, offset: int) -> None:
        """Acknowledge cumulatively; an offset below the mark-delete has no effect."""
        # Cumulative acknowledgements may arrive late, or twice after a reconnect.
        if offset > self.mark_delete:
            self._move(offset)
            self._advance()

    def skip_reclaimed(self, first_offset: int, holes: OffsetSet) -> None:
        """Count the entries that the log has deleted as acknowledged; that is not stored.

        Call this for every cursor of a log when it is created, opened or moved, and when the log
        reports that entries were reclaimed.  A crash may have undone acknowledgements for which
        entries were deleted.
        """
        self.ack_up_to(first_offset - 1)
        self.skip(holes)

    def skip(self, offsets: OffsetSet) -> None:
        """Count entries that cannot be delivered as acknowledged; that is not stored."""
        if not offsets:
            return
        # Into the set directly: a tracked cursor would write what every start finds out by itself.
        ranges, bitmaps = offsets.parts(0)
        for run in ranges:
            self.acked.add(*run)
        for offset, bits in bitmaps:
            self.acked.add_bits(offset, bits)
        self.acked.remove_below(self.mark_delete + 1)
        # The acknowledgements of one transaction need no walk through all counts.
        if len(ranges) + len(bitmaps) < FEW:
            for run in offsets:
                self._forget(*run)
        else:
            self._forget_all(offsets)
        self._advance()

    def reset(self, mark_delete: int) -> None:
        """Move the cursor to `mark_delete`, and drop every acknowledgement above it."""
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
        # The holes before it may be filled: then the mark-delete moves over what lies after them.
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
        """Drop the masks and redelivery counts of start..stop-1."""
        if self.partial:
            _drop(self.partial, start, stop)
        if self.redelivered:
            # promise: a count of redeliveries ends with the acknowledgement
            self.redelivered.drop(start, stop)

    def _forget_all(self, offsets: OffsetSet) -> None:
        """Drop the masks and redelivery counts of these offsets."""
        for offset in [offset for offset in self.partial if offset in offsets]:
            del self.partial[offset]
        for offset in [offset for offset in self.redelivered if offset in offsets]:
            self.redelivered.drop(offset, offset + 1)

    # Redelivering -------------------------------------------------------------

    def count_redelivery(self, offsets: Iterable[int]) -> None:
        """Count a redelivery of each of these entries that is not acknowledged."""
        self._count(_runs(offsets))

    def _count(self, runs: list[tuple[int, int]]) -> None:
        first, acked, raise_by_one = self.mark_delete + 1, self.acked, self.redelivered.raise_by_one
        # Three ways, from the usual one: a subscription without holes, runs, single entries.
        for start, stop in runs:
            if not acked:
                raise_by_one(max(start, first), stop)
            elif stop > start + 1:
                for one, until in acked.missing(max(start, first), stop):
                    raise_by_one(one, until)
            elif not self.is_acked(start):
                raise_by_one(start, stop)

    # Asking -------------------------------------------------------------------

    def is_acked(self, offset: int) -> bool:
        """Return whether the whole entry is acknowledged."""
        return offset <= self.mark_delete or offset in self.acked

    def next_unacked(self, offset: int) -> int:
        """Return the first entry from `offset` on that is not wholly acknowledged."""
        return self.acked.next_missing(max(offset, self.mark_delete + 1))

    @property
    def is_plain(self) -> bool:
        """Whether nothing above the mark-delete is acknowledged, wholly or in part."""
        return not self.acked and not self.partial


class TrackedCursor(Cursor):
    """A cursor that records its changes until `take_delta` or `snapshot` is called.

    The owner must call them repeatedly, or the recorded changes grow without limit.
    """

    __slots__ = ("_new_counts", "_new_partial", "_new_ranges", "_reset", "_taken_mark_delete")

    def __init__(self, mark_delete: int) -> None:
        super().__init__(mark_delete)
        self._forget_changes()

    def _ack_run(self, start: int, stop: int) -> None:
        super()._ack_run(start, stop)
        new = self._new_ranges
        if new and new[-1][1] == start:
            # Acknowledgements mostly come in order, one by one.
            new[-1] = (new[-1][0], stop)
        else:
            new.append((start, stop))

    def _ack_runs(self, runs: list[tuple[int, int]]) -> None:
        super()._ack_runs(runs)
        # Unmerged: most are covered by the mark-delete before they are written (`take_delta`).
        self._new_ranges += runs

    def ack_batch(self, offset: int, unacked_mask: int) -> bool:
        done = super().ack_batch(offset, unacked_mask)
        if not done:
            self._new_partial.add(offset)
        return done

    def _count(self, runs: list[tuple[int, int]]) -> None:
        super()._count(runs)
        self._new_counts += runs

    def reset(self, mark_delete: int) -> None:
        super().reset(mark_delete)
        self._forget_changes()
        self._reset = True

    def take_delta(self) -> list[Piece]:
        """Return the changes since the last call; empty if there are none.

        The caller must write them: they are not returned again.
        """
        if self._reset:
            # A delta can only add acknowledgements, and a cursor that was moved back has fewer.
            return self.snapshot()
        mark_delete = self.mark_delete
        # The mark-delete covers the rest; so acknowledging in order writes no ranges at all.
        ranges = [r for r in self._new_ranges if r[1] > mark_delete + 1]
        masks = {o: self.partial[o] for o in self._new_partial if o in self.partial}
        counts = self._counts_of(self._new_counts)
        moved = mark_delete != self._taken_mark_delete
        self._forget_changes()
        if not (moved or ranges or masks or counts):
            return []
        # promise[without , counts]: counts of redeliveries are written
        return pieces(CursorEntryKind.DELTA, State(mark_delete, ranges, masks, counts))

    def _counts_of(self, runs: list[tuple[int, int]]) -> dict[int, int]:
        known, counts = self.redelivered, dict[int, int]()
        for start, stop in runs:
            if stop - start > 1:
                counts.update(known.items_in(start, stop))
            elif count := known.get(start):
                counts[start] = count
        return counts

    def snapshot(self) -> list[Piece]:
        """Return the whole state, which includes all changes recorded so far."""
        # Whatever was recorded is part of the whole state.
        self._forget_changes()
        ranges, bitmaps = self.acked.parts(MOST_RANGES)
        state = State(self.mark_delete, ranges, self.partial, self.redelivered, bitmaps)
        return pieces(CursorEntryKind.WHOLE, state)

    def apply(self, kind: CursorEntryKind, body: bytes) -> None:
        """Replay a piece of `take_delta` or `snapshot`; ValueError if the cursor has no such
        pieces.
        """
        if kind is CursorEntryKind.BITMAPS:
            self._apply_bitmaps(body)
        elif kind in (CursorEntryKind.WHOLE, CursorEntryKind.DELTA):
            self._apply_state(kind, decode(body))
        else:
            raise ValueError(f"expected WHOLE, DELTA or BITMAPS but got {kind.name}")
        self._advance()
        # The replayed changes are stored already.
        self._forget_changes()

    def _apply_bitmaps(self, body: bytes) -> None:
        for offset, bits in decode_bitmaps(body):
            self.acked.add_bits(offset, bits)
        self.acked.remove_below(self.mark_delete + 1)
        self._forget_all(self.acked)

    def _apply_state(self, kind: CursorEntryKind, state: State) -> None:
        # Unlike a delta, a whole state may take acknowledgements back, as after a seek.
        if kind is CursorEntryKind.WHOLE:
            self.reset(state.mark_delete)
        first = self.mark_delete + 1
        for start, stop in state.ranges:
            self.acked.add(max(start, first), stop)
            self._forget(start, stop)
        # Merged: only WHOLE takes acknowledgements back, so what either has is acknowledged.
        for offset, mask in state.masks.items():
            if not self.is_acked(offset):
                self.partial[offset] = self.partial.get(offset, mask) & mask
        for offset, count in state.counts.items():
            if not self.is_acked(offset):
                self.redelivered.raise_to(offset, count)
        self.ack_up_to(state.mark_delete)

    def _forget_changes(self) -> None:
        self._new_ranges: list[tuple[int, int]] = []
        self._new_partial: set[int] = set()
        self._new_counts: list[tuple[int, int]] = []
        self._taken_mark_delete = self.mark_delete
        self._reset = False


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return consecutive offsets as (start, stop)."""
    if isinstance(offsets, range) and offsets.step == 1:
        return [(offsets.start, offsets.stop)] if offsets else []
    return list(ranges_of(offsets))


def _drop(known: dict[int, int], start: int, stop: int) -> None:
    """Delete the keys start..stop-1, by walking through the smaller of the two."""
    if stop - start < len(known):
        for offset in range(start, stop):
            known.pop(offset, None)
    else:
        for offset in [offset for offset in known if start <= offset < stop]:
            del known[offset]
