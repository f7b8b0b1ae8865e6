"""The acknowledgements of a subscription: from an ACK to the cursor, the dispatcher, the log."""

from collections.abc import Callable, Sequence

from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.base.transaction_ids import NO_TRANSACTIONS, TxnId
from magnetar_broker.dispatch.base import Dispatcher
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.subscriptions.batch_masks import unacked_mask
from magnetar_broker.subscriptions.subscribed_topic import SubscribedTopic
from magnetar_broker.subscriptions.transactional_acks import TransactionalAcks
from magnetar_proto.acks import Ack
from magnetar_storage.cursors.attached_state import PENDING_ACKS
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.cursors.pending_acks import PendingAcks
from magnetar_storage.runtime.execution import Done

INDIVIDUAL = 0


class Acknowledgements:
    """Applies ACKs in memory at once, and has the cursor log write them.

    A position that the log does not have is ignored, as in the protocol.
    """

    def __init__(
        self,
        topic: SubscribedTopic,
        name: str,
        cursor: Cursor,
        dispatcher: Dispatcher,
        follow: Callable[[Cursor], None],
        at_end: Callable[[], None],
    ) -> None:
        """`follow` makes delivery follow a view of the cursor instead of the cursor itself.

        `at_end` is called after changes in a topic that is terminated: it may be acknowledged.
        """
        self.dispatcher = dispatcher
        """The dispatcher at present, which learns what is not pending any more."""
        self.transactional: TransactionalAcks | None = None
        """Acknowledgements in transactions; None before the first of them."""
        self.acked_ms = self.advanced_ms = 0
        """The times of the last ACK, and of the last that advanced the mark-delete; 0 for never."""
        self._topic = topic
        self._name = name
        self._log = topic.log
        self._cursor = cursor
        self._batch_indexes = topic.limits.batch_index_acks
        self._view: Cursor | None = None  # what delivery follows, if not the cursor itself
        self._follow = follow
        self._at_end = at_end

    def acknowledge(self, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Apply an ACK; `done` is called when it is durable.

        Positions that the log does not have are ignored, and so is a cumulative ACK on Shared and
        Key_Shared, where it means nothing.
        """
        cursor, entries = self._cursor, 0
        before = cursor.mark_delete
        if ack.ack_type == INDIVIDUAL:
            entries = self._each(consumer, ack.message_ids)
        elif self.dispatcher.exclusive_acks and len(ack.message_ids) == 1:
            entries = self._everything_to(*ack.message_ids[0])
        self.acked_ms = consumer.count_acks(entries)
        if cursor.mark_delete > before:
            self.advanced_ms = self.acked_ms
        if isinstance(cursor, DurableCursor):
            self._topic.cursors.cursor_changed(cursor, done)
        elif done is not None:
            done(None)
        if self._log.terminated:
            self._at_end()

    def end(self) -> None:
        """Forget the subscription, once it is deleted, so that its memory is freed at once."""
        self._follow, self._at_end = _ignore, _nothing

    # Positions --------------------------------------------------------------------

    def _each(self, consumer: Consumer, ids: list[tuple[int, int, tuple[int, ...]]]) -> int:
        """Acknowledge single positions: (ledger, entry, ack set); an empty set is the whole entry.

        Returns the number of whole entries.
        """
        # Whole entries of one ledger, as nearly all are, are translated to offsets together.
        acked, at_ledger, entries = 0, -1, list[int]()
        for ledger, entry, ack_set in ids:
            if ack_set:
                self._part_of_batch(consumer, ledger, entry, ack_set)
            elif ledger == at_ledger:
                entries.append(entry)
            else:
                acked += self._whole_entries(consumer, at_ledger, entries)
                at_ledger, entries = ledger, [entry]
        return acked + self._whole_entries(consumer, at_ledger, entries)

    def _whole_entries(self, consumer: Consumer, ledger: int, entries: list[int]) -> int:
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
        if self._view is not None:
            self._view.ack_scattered(offsets)  # promise: delivery knows plain acknowledgements
        if offsets:
            self.dispatcher.entries_acked(consumer, offsets)
        return len(offsets)

    def _part_of_batch(
        self, consumer: Consumer, ledger: int, entry: int, ack_set: tuple[int, ...]
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
        if self._view is not None:
            view = self._view
            view.ack_batch(offset, mask)
        left = view.partial.get(offset, 0).bit_count()
        self.dispatcher.messages_acked(consumer, offset, left)

    def _everything_to(self, ledger: int, entry: int, ack_set: tuple[int, ...]) -> int:
        """Acknowledge everything up to an entry, of which `ack_set` has the messages still wanted.

        Returns the number of whole entries that were not acknowledged before.  Only for
        dispatchers with `exclusive_acks`: nothing is pending with them.
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
            if self._view is not None:
                self._view.ack_batch(offset, mask)
        return entries

    def _up_to(self, offset: int) -> None:
        self._cursor.ack_up_to(offset)
        if self._view is not None:
            self._view.ack_up_to(offset)

    def _entries_up_to(self, offset: int) -> int:
        """Return how many entries up to `offset` are not acknowledged."""
        first, acked = self._cursor.mark_delete + 1, self._cursor.acked
        entries = max(offset + 1 - first, 0)
        # promise[without - acked.count(first, offset + 1) if entries and acked else entries]: a
        #   cumulative acknowledgement counts only what is new
        return entries - acked.count(first, offset + 1) if entries and acked else entries

    # In transactions ----------------------------------------------------------------

    def acknowledge_in(self, txn: TxnId, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Apply an ACK within a transaction; `done` is called when it is durably pending.

        `TransactionConflict` if a message is acknowledged, or pending in another transaction.
        """
        if not self._topic.limits.transactions:
            raise NotAllowed(NO_TRANSACTIONS)
        acks, whole = self.in_transactions(), list[int]()
        if ack.ack_type == INDIVIDUAL:
            whole, parts = acks.ack_each(txn, ack.message_ids)
            if whole:
                self.dispatcher.entries_acked(consumer, whole)
            for offset, left in parts:
                self.dispatcher.messages_acked(consumer, offset, left)
        elif self.dispatcher.exclusive_acks:
            acks.ack_up_to(txn, ack.message_ids)
        else:
            raise NotAllowed(
                "a subscription that consumers share has no cumulative acknowledgements: "
                "acknowledge each message"
            )
        self.acked_ms = consumer.count_acks(len(whole))
        self.write_pending(done)

    def in_transactions(self) -> TransactionalAcks:
        """Return the acknowledgements in transactions; the first makes delivery follow a view."""
        acks = self.transactional
        if acks is None:
            cursor, topic = self._cursor, self._topic
            pending, number = PendingAcks(), 0  # of a subscription that is in memory only
            if isinstance(cursor, DurableCursor):
                if topic.pending_acks is None:
                    topic.pending_acks = PendingAcks.attached(topic.cursors)
                pending, number = topic.pending_acks, cursor.number
            acks = TransactionalAcks(self._name, self._log, cursor, pending, number)
            self.transactional = acks
            # From now on what transactions hold is not delivered, though the cursor lacks it.  Most
            # subscriptions never need a second cursor, so it is made only now.
            self._view = acks.view
            self._follow(acks.view)
        return acks

    def write_pending(self, done: Done | None) -> None:
        """Write what is pending in transactions; `done` is called when it is durable."""
        if isinstance(self._cursor, DurableCursor):
            self._topic.cursors.state_changed(PENDING_ACKS, done)
            return
        self.in_transactions().drop_changes()
        if done is not None:
            done(None)


def _ignore(view: Cursor) -> None:
    """Follow nothing: the subscription is deleted."""


def _nothing() -> None:
    """Notify nobody: the subscription is deleted."""
