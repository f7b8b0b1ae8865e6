"""What need not be delivered of a log: what is acknowledged, and what transactions hold."""

from collections.abc import Iterable

from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.pending_acks import PendingAck


class DeliveryCursor(Cursor):
    """A view of a cursor for delivery.  Whoever acknowledges does so in both.

    It has no redelivery counts of its own: they are those of the cursor.
    """

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Cursor, pending: Iterable[PendingAck]) -> None:
        super().__init__(cursor.mark_delete)
        self._cursor = cursor
        self.redelivered = cursor.redelivered
        self.refresh(pending)

    def refresh(self, pending: Iterable[PendingAck]) -> None:
        """Become what is acknowledged and `pending`: to be called when either has become less."""
        cursor = self._cursor
        self.mark_delete = cursor.mark_delete
        self.acked = cursor.acked.copy()
        self.partial = dict(cursor.partial)
        for one in pending:
            one.apply_to(self)

    def count_redelivery(self, offsets: Iterable[int]) -> None:
        self._cursor.count_redelivery(offsets)

    def _forget(self, start: int, stop: int) -> None:
        if self.partial:
            for offset in [offset for offset in self.partial if start <= offset < stop]:
                del self.partial[offset]
