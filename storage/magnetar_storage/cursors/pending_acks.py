"""The acknowledgements of open transactions, for all durable cursors of a log.

They take effect when the transaction commits, and are dropped if it aborts.

    piece       u8 kind, u32 cursor number, u64 most and u64 least significant bits of the
                transaction, then
    ENTRIES     whole entries: n times i64 start, i64 stop
    MASK        messages of a batch: i64 offset, the mask in the other bytes, lowest first
    UP_TO       all before an entry, and its messages whose bits are clear: i64 offset,
                mask
    ENDED       nothing: the transaction has ended
    FORGOTTEN   nothing, and the bits are 0: the cursor was deleted
"""

from collections.abc import Collection, Iterator
from enum import IntEnum
from itertools import chain
from struct import Struct, pack

from magnetar_storage.cursors.attached_state import PENDING_ACKS
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.log.offset_set import OffsetSet, ranges_of

_HEAD = Struct("<BIQQ")
_RANGE = Struct("<qq")
_OFFSET = Struct("<q")
RANGES_A_PIECE = 32_768

Txn = tuple[int, int]
"""The bits of a transaction's id, the most significant ones first."""


class PendingAckKind(IntEnum):
    """The kinds of pieces of the state of pending acknowledgements."""

    ENTRIES = 1
    MASK = 2
    UP_TO = 3
    ENDED = 4
    FORGOTTEN = 5


class PendingAck:
    """The acknowledgements of one transaction for one cursor."""

    __slots__ = ("entries", "masks", "up_to")

    def __init__(self) -> None:
        self.entries = OffsetSet()
        """Whole entries, acknowledged one by one."""
        self.masks: dict[int, int] = {}
        """The masks of batches: a clear bit for each message that is acknowledged."""
        self.up_to: tuple[int, int] | None = None
        """A cumulative acknowledgement: everything before the offset, and of that entry the
        messages whose bits are clear."""

    def apply_to(self, cursor: Cursor) -> None:
        """Apply all acknowledgements to a cursor."""
        if self.up_to is not None:
            offset, mask = self.up_to
            cursor.ack_up_to(offset - 1)
            cursor.ack_batch(offset, mask)
        for run in self.entries:
            cursor.ack(range(*run))
        for offset, mask in self.masks.items():
            cursor.ack_batch(offset, mask)

    def left_of(self, offset: int) -> int | None:
        """Return the mask of an entry's unacknowledged messages; 0 if all are acknowledged.

        None if the transaction has acknowledged nothing of the entry.
        """
        left = 0 if offset in self.entries else self.masks.get(offset)
        # Behind the cumulative acknowledgement only what was acknowledged one by one counts.
        if self.up_to is None or self.up_to[0] < offset:
            return left
        up_to = self.up_to[1] if self.up_to[0] == offset else 0
        return up_to if left is None else left & up_to

    def first(self) -> int | None:
        """Return the first entry of `each`; None if there is none."""
        entry = self.entries.next_present(0)
        return min(self.masks if entry is None else (entry, *self.masks), default=None)

    def each(self) -> Iterator[int]:
        """Yield the entries that were acknowledged one by one, at least in part."""
        yield from (offset for run in self.entries for offset in range(*run))
        yield from (offset for offset in self.masks if offset not in self.entries)


class PendingAcks:
    """Pending acknowledgements by cursor number and transaction: an attached state."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Txn, PendingAck]] = {}
        self._new: list[bytes] = []

    @classmethod
    def stored(cls, cursors: CursorLog) -> "PendingAcks | None":
        """Load the state stored with a topic's cursors; None if nothing is stored."""
        if not cursors.is_attached(PENDING_ACKS):
            return None
        pending = cls.attached(cursors)
        # A crash may have left only the first record of a cursor's deletion.  The number is
        # assigned again, and the next cursor must not begin with the pending acknowledgements of
        # this one.
        present = {cursor.number for cursor in cursors.cursors.values()}
        for number in pending._of.keys() - present:
            pending.forget(number)
        return pending

    @classmethod
    def attached(cls, cursors: CursorLog) -> "PendingAcks":
        """Create the state for a topic's cursors, stored with them from now on."""
        pending = cls()
        cursors.adopt(PENDING_ACKS, pending)
        return pending

    def of(self, number: int) -> dict[Txn, PendingAck]:
        """Return a cursor's pending acknowledgements by transaction; do not change the result."""
        return self._of.setdefault(number, {})

    def add(self, number: int, txn: Txn, offsets: Collection[int]) -> None:
        """Add whole entries, in ascending order, that a transaction has acknowledged."""
        if offsets:
            runs = list(ranges_of(offsets))
            self._one(number, txn).entries.add_all(runs)
            self._new += _entries(number, txn, runs)  # promise: whole entries are written

    def add_mask(self, number: int, txn: Txn, offset: int, mask: int) -> None:
        """Add messages of a batch, whose bits are clear, that a transaction has acknowledged."""
        # A transaction may acknowledge further messages of a batch: clear bits add up.
        masks = self._one(number, txn).masks
        masks[offset] = masks.get(offset, mask) & mask
        # promise: parts of batches are written
        self._new.append(_masked(PendingAckKind.MASK, number, txn, offset, mask))

    def set_up_to(self, number: int, txn: Txn, offset: int, mask: int) -> None:
        """Set the cumulative acknowledgement of a transaction."""
        self._one(number, txn).up_to = offset, mask
        # promise: cumulative acknowledgements are written
        self._new.append(_masked(PendingAckKind.UP_TO, number, txn, offset, mask))

    def end(self, number: int, txn: Txn) -> PendingAck | None:
        """Remove an ended transaction; returns its pending acknowledgements, if any."""
        found = self.of(number).pop(txn, None)
        if found is not None:
            # promise: the end of a transaction is written
            self._new.append(_HEAD.pack(PendingAckKind.ENDED, number, *txn))
        return found

    def forget(self, number: int) -> None:
        """Remove a deleted cursor."""
        if self._of.pop(number, None):
            self._new.append(_HEAD.pack(PendingAckKind.FORGOTTEN, number, 0, 0))

    def _one(self, number: int, txn: Txn) -> PendingAck:
        of = self.of(number)
        found = of.get(txn)
        if found is None:
            found = of[txn] = PendingAck()
        return found

    # Attached state ---------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """Return the changes since the last call."""
        new, self._new = self._new, []
        return new

    def snapshot(self) -> list[bytes]:
        """Return the whole state."""
        # The changes recorded so far are part of the whole state.
        self._new = []
        pieces: list[bytes] = []
        for number, of in self._of.items():
            for txn, one in of.items():
                pieces += _entries(number, txn, list(one.entries))
                pieces += (
                    _masked(PendingAckKind.MASK, number, txn, *item) for item in one.masks.items()
                )
                if one.up_to is not None:
                    pieces.append(_masked(PendingAckKind.UP_TO, number, txn, *one.up_to))
        return pieces

    def apply(self, data: bytes) -> None:
        """Replay a piece of the state; ValueError or `struct.error` if it is malformed."""
        what, number, most, least = _HEAD.unpack_from(data)
        kind, txn, body = PendingAckKind(what), (most, least), data[_HEAD.size :]
        if kind is PendingAckKind.ENTRIES:
            runs = list(_RANGE.iter_unpack(body))
            if any(not 0 <= start < stop for start, stop in runs):
                raise ValueError(f"expected ranges of offsets but got {runs}")
            self._one(number, txn).entries.add_all(runs)
        elif kind is PendingAckKind.MASK:
            offset, mask = _read_masked(body)
            masks = self._one(number, txn).masks
            masks[offset] = masks.get(offset, mask) & mask
        elif kind is PendingAckKind.UP_TO:
            self._one(number, txn).up_to = _read_masked(body)
        elif kind is PendingAckKind.ENDED:
            self.of(number).pop(txn, None)
        else:
            self._of.pop(number, None)


def _entries(number: int, txn: Txn, runs: list[tuple[int, int]]) -> list[bytes]:
    head = _HEAD.pack(PendingAckKind.ENTRIES, number, *txn)
    return [
        head + pack(f"<{2 * len(some)}q", *chain.from_iterable(some))
        for at in range(0, len(runs), RANGES_A_PIECE)
        if (some := runs[at : at + RANGES_A_PIECE])
    ]


def _masked(kind: PendingAckKind, number: int, txn: Txn, offset: int, mask: int) -> bytes:
    size = (mask.bit_length() + 7) // 8
    return _HEAD.pack(kind, number, *txn) + _OFFSET.pack(offset) + mask.to_bytes(size, "little")


def _read_masked(body: bytes) -> tuple[int, int]:
    (offset,) = _OFFSET.unpack_from(body)
    return offset, int.from_bytes(body[_OFFSET.size :], "little")
