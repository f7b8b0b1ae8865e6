"""The entries of a log that need not be delivered: acknowledged, or held by transactions."""

from collections.abc import Iterable

from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.pending_acks import PendingAck
from magnetar_storage.log.offset_set import ranges_of


class DeliveryCursor(Cursor):
    """A view of a cursor for delivery.  An acknowledgement is applied to both.

    Its mark-delete follows that of the cursor, and pending acknowledgements stay in `acked`, so
    that they can be taken back without examining the rest.  Only a cumulative acknowledgement moves
    it further.  The redelivery counts are those of the cursor.
    """

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Cursor, pending: Iterable[PendingAck]) -> None:
        super().__init__(cursor.mark_delete)
        self._cursor = cursor
        self.redelivered = cursor.redelivered
        self.refresh(pending)

    def refresh(self, pending: Iterable[PendingAck]) -> None:
        """Copy the cursor and apply `pending`; call this when either has become less."""
        cursor = self._cursor
        self.mark_delete = cursor.mark_delete
        self.acked = cursor.acked.copy()
        self.partial = dict(cursor.partial)
        for one in pending:  # promise: a view shows what is pending as acknowledged
            one.apply_to(self)

    def ack(self, offsets: Iterable[int]) -> None:
        runs = [(offsets.start, offsets.stop)] if isinstance(offsets, range) else ranges_of(offsets)
        for start, stop in runs:
            first = max(start, self.mark_delete + 1)
            if first < stop:
                self._ack_run(first, stop)
        self._advance()

    def take_back(self, aborted: PendingAck) -> bool:
        """Take back a pending acknowledgement; returns False if that needs `refresh` instead."""
        if aborted.up_to is not None or aborted.masks:
            return False  # parts of the same batches may be pending elsewhere
        acked, partial = self._cursor.acked, self._cursor.partial
        self._advance()
        for start, stop in aborted.entries:
            if start <= self.mark_delete and self.mark_delete > self._cursor.mark_delete:
                return False  # a cumulative acknowledgement covers it, too
            self.acked.remove(start, stop)
            for offset in range(start, stop) if partial else ():
                if offset in partial:
                    self.partial[offset] = partial[offset]
            for run in acked.present(start, stop) if acked else ():
                self.acked.add(*run)
        return True

    def count_redelivery(self, offsets: Iterable[int]) -> None:
        # Both have the same counts, but only the cursor records their changes for the disk.
        self._cursor.count_redelivery(offsets)

    def _advance(self) -> None:
        mark_delete = self._cursor.mark_delete
        if mark_delete > self.mark_delete:
            self._move(mark_delete)

    def _forget(self, start: int, stop: int) -> None:
        if self.partial:
            for offset in [offset for offset in self.partial if start <= offset < stop]:
                del self.partial[offset]
