"""The effects of an ACK on a subscription's cursor, and on its consumers' unacked messages."""

from collections.abc import Sequence

from magnetar_broker.dispatch.base import Dispatcher
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.subscriptions.batch_masks import unacked_mask
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.log.log import Log


class Acknowledger:
    """Applies the positions of an ACK to one cursor.

    A position that the log does not have is ignored, as in the protocol.  Nothing is
    written here: the caller reports the changed cursor to the cursor log.
    """

    def __init__(self, log: Log, cursor: Cursor, batch_indexes: bool) -> None:
        self._log = log
        self._cursor = cursor
        self._batch_indexes = batch_indexes  # acknowledgmentAtBatchIndexLevelEnabled
        self.view: Cursor | None = None
        """The cursor that delivery follows if it is not the cursor itself (`DeliveryCursor`)."""

    def ack_each(
        self,
        dispatcher: Dispatcher,
        consumer: Consumer,
        ids: list[tuple[int, int, tuple[int, ...]]],
    ) -> int:
        """Acknowledge single positions: (ledger, entry, ack set); an empty set is the whole entry.

        Returns the number of whole entries. `dispatcher` is the subscription's present one: it
        learns what is not pending any more.
        """
        # Whole entries of one ledger, as nearly all are, are translated to offsets together.
        acked, at_ledger, entries = 0, -1, list[int]()
        for ledger, entry, ack_set in ids:
            if ack_set:
                self._ack_batch(dispatcher, consumer, ledger, entry, ack_set)
            elif ledger == at_ledger:
                entries.append(entry)
            else:
                acked += self._ack_whole(dispatcher, consumer, at_ledger, entries)
                at_ledger, entries = ledger, [entry]
        return acked + self._ack_whole(dispatcher, consumer, at_ledger, entries)

    def _ack_whole(
        self, dispatcher: Dispatcher, consumer: Consumer, ledger: int, entries: list[int]
    ) -> int:
        if not entries:
            return 0
        run = range(entries[0], entries[0] + len(entries))
        # A contiguous run, the usual case, is one range for log and cursor, whatever its length.
        if entries[-1] == run[-1] and entries == list(run):
            offsets: Sequence[int] = self._log.offsets_of(ledger, run.start, run.stop)
            self._cursor.ack(offsets)
        else:
            offsets = self._log.offsets_among(ledger, entries)
            self._cursor.ack_scattered(offsets)
        if self.view is not None:
            self.view.ack_scattered(offsets)  # promise: delivery knows plain acknowledgements
        if offsets:
            dispatcher.entries_acked(consumer, offsets)
        return len(offsets)

    def _ack_batch(
        self,
        dispatcher: Dispatcher,
        consumer: Consumer,
        ledger: int,
        entry: int,
        ack_set: tuple[int, ...],
    ) -> None:
        offset = self._log.offset_of(ledger, entry)
        # With batch index acks off, the client keeps count, and sends an ACK of the whole entry
        # once it has acknowledged all of the batch: until then the entry stays as it is.
        if offset is None or not self._batch_indexes:
            return
        mask = unacked_mask(self._log, offset, ack_set)
        if mask is None:
            return
        # Bits of a client only ever clear bits: ACKs of one batch can arrive in any order.
        self._cursor.ack_batch(offset, mask)
        view = self._cursor
        if self.view is not None:
            view = self.view
            view.ack_batch(offset, mask)
        left = view.partial.get(offset, 0).bit_count()
        dispatcher.messages_acked(consumer, offset, left)

    def ack_up_to(self, ledger: int, entry: int, ack_set: tuple[int, ...]) -> int:
        """Acknowledge everything up to an entry, of which `ack_set` has the messages still wanted.

        Returns how many whole entries that were, those acknowledged before apart. Only for
        dispatchers with `exclusive_acks`: they hold nothing per entry.
        """
        offset = self._log.last_up_to(ledger, entry)
        if offset is None:
            return 0
        if not ack_set or entry < 0:  # promise[without or entry < 0]: an ack set needs an entry
            entries = self._entries_up_to(offset)
            self._up_to(offset)
            return entries
        entries = self._entries_up_to(offset - 1)
        self._up_to(offset - 1)  # everything before the batch, then part of it
        mask = unacked_mask(self._log, offset, ack_set) if self._batch_indexes else None
        if mask is not None:
            self._cursor.ack_batch(offset, mask)
            if self.view is not None:
                self.view.ack_batch(offset, mask)
        return entries

    def _up_to(self, offset: int) -> None:
        self._cursor.ack_up_to(offset)
        if self.view is not None:
            self.view.ack_up_to(offset)

    def _entries_up_to(self, offset: int) -> int:
        """Return how many entries up to `offset` are not acknowledged."""
        first, acked = self._cursor.mark_delete + 1, self._cursor.acked
        entries = max(offset + 1 - first, 0)
        # promise[without - acked.count(first, offset + 1) if entries and acked else entries]: a
        #   cumulative acknowledgement counts only what is new
        return entries - acked.count(first, offset + 1) if entries and acked else entries
