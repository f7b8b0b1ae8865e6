"""Acknowledgements within transactions, of one subscription: conflicts, commit and abort.

They are pending until their transaction ends.  Meanwhile the messages are not delivered, and no
other transaction can acknowledge them.
"""

from typing import NoReturn

from magnetar_broker.base.ended_transactions import EndedTransactions
from magnetar_broker.base.errors import NotAllowed, TransactionConflict
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.subscriptions.batch_masks import full_mask, unacked_mask
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.delivery_cursor import DeliveryCursor
from magnetar_storage.cursors.pending_acks import PendingAck, PendingAcks, Txn
from magnetar_storage.log.log import Log

Ids = list[tuple[int, int, tuple[int, ...]]]
"""Ledger, entry, and the ack set; an empty one is the whole entry."""


class TransactionalAcks:
    """Changes `pending`, which the caller writes, and `view`, which delivery follows."""

    def __init__(
        self, name: str, log: Log, cursor: Cursor, pending: PendingAcks, number: int
    ) -> None:
        """`number` is the number of the cursor in `pending`."""
        self._name = name
        self._log = log
        self._cursor = cursor
        self._pending = pending
        self._number = number
        self.ended = EndedTransactions()
        self.view = DeliveryCursor(cursor, self.open.values())

    @property
    def open(self) -> dict[Txn, PendingAck]:
        """The pending acknowledgements by transaction."""
        return self._pending.of(self._number)

    def drop_changes(self) -> None:
        """Drop the changes that would be written: the subscription is in memory only."""
        self._pending.take_delta()

    def refresh(self) -> None:
        """Follow a cursor that was moved, or whose entries were skipped."""
        self.view.refresh(self.open.values())

    # Acknowledging ----------------------------------------------------------------

    def ack_each(self, txn: TxnId, ids: Ids) -> tuple[list[int], list[tuple[int, int]]]:
        """Acknowledge all of these positions, or raise `TransactionConflict` and acknowledge none.

        Returns the whole entries, in order, and each batch that was acknowledged in part, with the
        number of messages that are left.  A position that the log does not have is ignored, and so
        is a part of a batch that cannot be split.
        """
        self._check_open(txn)
        whole: set[int] = set()
        masks: dict[int, int] = {}
        for ledger, entry, ack_set in ids:
            offset = self._log.offset_of(ledger, entry)
            mask = None if offset is None else self._mask(offset, ack_set)
            if offset is None or mask is None:
                continue
            self._check(txn, offset, mask, bool(ack_set))
            if mask:
                masks[offset] = masks.get(offset, mask) & mask
            else:
                whole.add(offset)
        # Change memory only when all positions are checked: a refused ACK changes nothing.
        # Ascending, so that consecutive ones are stored as ranges.
        offsets = sorted(whole)
        self._pending.add(self._number, txn, offsets)
        self.view.ack(offsets)
        for offset, mask in masks.items():
            self._pending.add_mask(self._number, txn, offset, mask)
            self.view.ack_batch(offset, mask)
        left = self.view.partial
        return offsets, [(offset, left.get(offset, 0).bit_count()) for offset in masks]

    def ack_up_to(self, txn: TxnId, ids: Ids) -> None:
        """Acknowledge cumulatively; `TransactionConflict` if another transaction is in the way."""
        self._check_open(txn)
        if len(ids) != 1:
            raise NotAllowed(
                f"a cumulative acknowledgement has one message, but this one has {len(ids)}"
            )
        ledger, entry, ack_set = ids[0]
        offset = self._log.last_up_to(ledger, entry)
        if offset is None:
            return
        mask = self._mask(offset, ack_set if entry >= 0 else ())
        if mask is None:  # of a batch that cannot be split: all before it
            offset, mask = offset - 1, 0
        if offset <= self._cursor.mark_delete:
            self._conflict(txn, offset, "it is acknowledged already")
        for other, one in self.open.items():
            if other == txn:
                if one.up_to is not None and _is_behind((offset, mask), one.up_to):
                    self._conflict(txn, offset, "it has acknowledged more already")
            elif one.up_to is not None:
                self._conflict(txn, offset, f"{_name(other)} acknowledges cumulatively, too")
            elif (first := one.first()) is not None and first <= offset:
                self._conflict(txn, offset, f"{_name(other)} has acknowledged messages before it")
        self._pending.set_up_to(self._number, txn, offset, mask)
        self.view.ack_up_to(offset - 1)
        self.view.ack_batch(offset, mask)

    def _mask(self, offset: int, ack_set: tuple[int, ...]) -> int | None:
        """Return the mask that an ack set leaves of an entry, 0 for none; None if indivisible."""
        return unacked_mask(self._log, offset, ack_set) if ack_set else 0

    def _check_open(self, txn: TxnId) -> None:
        if txn in self.ended:
            raise NotAllowed(
                f"transaction {txn} has ended: acknowledge the message in another transaction"
            )

    def _check(self, txn: TxnId, offset: int, mask: int, has_set: bool) -> None:
        """Raise `TransactionConflict` if these messages of an entry, all if 0, are not free.

        Without an ack set all are meant that are not acknowledged yet, and with one all: who was
        given a batch as a whole did not know that a part of it was acknowledged.
        """
        if not self.view.is_acked(offset) and offset not in self.view.partial:
            return  # the usual case, without a look at the transactions
        # promise: an acknowledged message cannot be acknowledged in a transaction
        if self._cursor.is_acked(offset):
            self._conflict(txn, offset, "it is acknowledged already")
        acked = self._cursor.partial.get(offset)
        # promise[has_set -> mask]: a part that was acknowledged cannot be acknowledged with its
        #   batch
        if acked is not None and has_set and self._overlap(offset, acked, mask):
            self._conflict(txn, offset, "messages of this batch are acknowledged already")
        for other, one in self.open.items():
            # promise: a message is acknowledged in one transaction only
            if other != txn and self._holds(one, offset, mask):
                self._conflict(txn, offset, f"{_name(other)} has acknowledged it")

    def _holds(self, one: PendingAck, offset: int, mask: int) -> bool:
        """Return whether a transaction has acknowledged one of these messages of an entry."""
        left = one.left_of(offset)
        return left is not None and (not mask or self._overlap(offset, left, mask))

    def is_pending(self, offset: int, index: int | None) -> bool:
        """Return whether an open transaction has acknowledged an entry, or one of its messages."""
        held = (one.left_of(offset) for one in self.open.values())
        return any(
            left == 0 or (index is not None and not left >> index & 1)
            for left in held
            if left is not None
        )

    def _overlap(self, offset: int, one: int, other: int) -> bool:
        """Return whether two masks of an entry have a common clear bit: a message of both."""
        messages = self._log.entries.messages_at(offset)
        full = None if messages is None else full_mask(messages)
        # Clear bits at the end are not in the masks: without the number of messages all may be.
        return full is None or bool(full & ~one & ~other)

    def _conflict(self, txn: TxnId, offset: int, why: str) -> NoReturn:
        ledger, entry = self._log.position(offset)
        raise TransactionConflict(
            f"transaction {txn} cannot acknowledge message {ledger}:{entry} of subscription "
            f"{self._name}: {why}"
        )

    # Ending -----------------------------------------------------------------------

    def end(self, txn: TxnId, outcome: Outcome, low_watermark: int) -> list[int]:
        """Commit or abort; returns the entries to be delivered again, in order.

        Leftovers of other transactions up to `low_watermark` were acknowledged too late, and are
        aborted.  `InvalidTransactionStatus` if the transaction has ended otherwise.
        """
        self.ended.check(txn, outcome)
        self.ended.raise_low(txn.most, low_watermark)
        found = self._pending.end(self._number, txn)
        self.ended.add(txn, outcome)
        aborted: list[PendingAck] = []
        if found is not None and outcome is Outcome.COMMIT:
            found.apply_to(self._cursor)  # promise: a commit acknowledges
        elif found is not None:
            aborted.append(found)
        for late in self.ended.late([TxnId(*one) for one in self.open]):
            one = self._pending.end(self._number, late)
            aborted += [] if one is None else [one]
        # promise: an abort puts its messages back into delivery
        if not all(self.view.take_back(one) for one in aborted):
            self.refresh()
        is_acked = self.view.is_acked
        return sorted({offset for one in aborted for offset in one.each() if not is_acked(offset)})


def _is_behind(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether the cumulative acknowledgement `one` acknowledges less than `other`."""
    return one[0] < other[0] or (one[0] == other[0] and one[1] & ~other[1] != 0)


def _name(txn: Txn) -> str:
    return f"transaction {TxnId(*txn)}"
