"""The transactions that acknowledge messages of one partition."""

from typing import Any

from magnetar.consuming.ack_tracker import AckEnd
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.transaction_acks import AbortEnd, TransactionAcks
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.transactions.transaction import Transaction


class OpenTransactions:
    """Creates the acknowledgements of each transaction, for `Transaction.acks`."""

    def __init__(
        self,
        subscriber: Subscriber[Any],
        unconfirmed: UnconfirmedAcks,
        end: AckEnd,
        abort_end: AbortEnd,
    ) -> None:
        self._subscriber = subscriber
        self._unconfirmed = unconfirmed
        self._end = end
        self._abort_end = abort_end

    def in_transaction(self, txn: Transaction) -> TransactionAcks:
        """Create the object that collects the acknowledgements of a transaction."""
        subscriber, unconfirmed = self._subscriber, self._unconfirmed
        acks = TransactionAcks(
            txn,
            subscriber.id,
            subscriber.registration,
            self._end,
            self._abort_end,
            subscriber.options.ack_delay_ms / 1000,
            unconfirmed.tracker,
            subscriber.clock,
        )
        unconfirmed.in_transactions.add(acks)
        return acks
