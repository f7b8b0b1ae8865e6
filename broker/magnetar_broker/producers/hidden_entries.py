"""Entries of a topic that are never delivered: those of aborted transactions, and markers (pure).

Entries before the offset `covered` are settled: no open transaction has entries there. Entries from
that offset on are read again when the topic is loaded.

    piece    u8 kind, then
    RANGES   hidden entries: n times i64 start, i64 stop
    BITMAPS  hidden entries, scattered: as the record BITMAPS of a cursor
    ENDED    transactions that ended without a marker: n times u64 most, u64 least, u8 outcome
    COVERED  i64 covered offset; the last piece of a change
"""

from collections.abc import Iterable
from enum import IntEnum
from itertools import chain
from struct import Struct, pack

from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_storage.cursors.cursor_record import (
    MOST_RANGES,
    decode_bitmaps,
    encode_bitmaps,
)
from magnetar_storage.log.offset_set import OffsetSet

_RANGE = Struct("<qq")
_COVERED = Struct("<q")
_ENDED = Struct("<QQB")
NEVER = -1
RANGES_A_PIECE = 32_768
BITMAPS_A_PIECE = 4096


class HiddenPieceKind(IntEnum):
    """The kinds of pieces of the state of hidden entries."""

    RANGES = 1
    BITMAPS = 2
    COVERED = 3
    ENDED = 4


class HiddenEntries:
    """The hidden entries of one topic; an attached state of its cursor log (`AttachedState`)."""

    def __init__(self) -> None:
        self.offsets = OffsetSet()
        self.covered = NEVER
        """The offset before which entries are settled; `NEVER` before the first transaction."""
        self.ended: dict[TxnId, Outcome] = {}
        """Transactions that ended without a marker: on a terminated topic, which takes none."""
        self._new: list[tuple[int, int]] = []
        self._new_ended: list[TxnId] = []
        self._written = NEVER

    @property
    def is_written(self) -> bool:
        """Whether everything was handed out to be written that a load would not find out."""
        return self.covered == self._written and not self._new_ended

    def hide(self, offsets: OffsetSet) -> None:
        """Hide entries, which are never delivered."""
        ranges = list(offsets)
        self.offsets.add_all(ranges)
        self._new += ranges

    def end(self, txn: TxnId, outcome: Outcome) -> None:
        """Note that a transaction has ended without a marker in the log."""
        self.ended[txn] = outcome
        self._new_ended.append(txn)

    def cover(self, offset: int) -> None:
        """Note that all entries before an offset are settled."""
        self.covered = offset

    # Being durable ------------------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """Return the pieces of the state that changed since the last call."""
        if self.is_written:
            return []
        new, self._new = self._new, []
        # promise[without _ranges(new), *]: a change has what is hidden
        return [*_ranges(new), *self._ends(self._new_ended), self._cover()]

    def snapshot(self) -> list[bytes]:
        """Return the pieces of the whole state."""
        if self.covered == NEVER:
            return []
        self._new = []
        # Scattered entries as bitmaps: an aborted transaction among many others is hundreds of
        # ranges.
        ranges, bitmaps = self.offsets.parts(MOST_RANGES)
        # promise[= _ranges(ranges) -> : list[bytes] = []]: a snapshot has what is hidden
        pieces = _ranges(ranges)
        for at in range(0, len(bitmaps), BITMAPS_A_PIECE):
            some = encode_bitmaps(bitmaps[at : at + BITMAPS_A_PIECE])
            pieces.append(bytes((HiddenPieceKind.BITMAPS,)) + some)
        return [*pieces, *self._ends(self.ended), self._cover()]

    def _ends(self, txns: Iterable[TxnId]) -> list[bytes]:
        some = [_ENDED.pack(*txn, self.ended[txn].value) for txn in txns]
        self._new_ended = []
        return [bytes((HiddenPieceKind.ENDED,)) + b"".join(some)] if some else []

    def _cover(self) -> bytes:
        self._written = self.covered
        return bytes((HiddenPieceKind.COVERED,)) + _COVERED.pack(self.covered)

    def apply(self, data: bytes) -> None:
        """Replay a piece of the state; ValueError or `struct.error` if it is malformed."""
        # An empty piece has kind 0, which is none.
        kind, body = HiddenPieceKind(data[0] if data else 0), data[1:]
        if kind is HiddenPieceKind.RANGES:
            ranges = list(_RANGE.iter_unpack(body))
            # An intact record of another release, or of a defect: better no topic than wrong
            # messages.
            if any(not 0 <= start < stop for start, stop in ranges):
                raise ValueError(f"expected ranges of offsets but got {ranges}")
            self.offsets.add_all(ranges)
        elif kind is HiddenPieceKind.BITMAPS:
            for offset, bits in decode_bitmaps(body):
                self.offsets.add_bits(offset, bits)
        elif kind is HiddenPieceKind.ENDED:
            for most, least, outcome in _ENDED.iter_unpack(body):
                self.ended[TxnId(most, least)] = Outcome(outcome)
        else:
            (self.covered,) = _COVERED.unpack(body)
            self._written = self.covered


def _ranges(ranges: list[tuple[int, int]]) -> list[bytes]:
    return [
        bytes((HiddenPieceKind.RANGES,)) + pack(f"<{2 * len(some)}q", *chain.from_iterable(some))
        for at in range(0, len(ranges), RANGES_A_PIECE)
        if (some := ranges[at : at + RANGES_A_PIECE])
    ]
