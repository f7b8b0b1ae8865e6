"""The ended transactions that one participant remembers."""

from collections.abc import Iterable
from typing import Final

from magnetar_broker.base.errors import InvalidTransactionStatus
from magnetar_broker.base.transaction_ids import Outcome, TxnId

KEPT: Final = 1000
"""The number of ended transactions that are kept; of earlier ones low watermarks are known."""


class EndedTransactions:
    """Recognizes requests that come too late for a transaction."""

    __slots__ = ("_outcomes", "lows")

    def __init__(self) -> None:
        self.lows: dict[int, int] = {}
        """The low watermark of each coordinator, by its number."""
        self._outcomes: dict[TxnId, Outcome] = {}

    def __contains__(self, txn: TxnId) -> bool:
        return txn in self._outcomes or self.is_late(txn)

    def is_late(self, txn: TxnId) -> bool:
        """Return whether a transaction has ended everywhere, by its coordinator's low watermark."""
        return txn.least <= self.lows.get(txn.most, -1)

    def late(self, txns: Iterable[TxnId]) -> list[TxnId]:
        """Return the transactions among `txns` that have ended everywhere."""
        return [txn for txn in txns if self.is_late(txn)]

    def raise_low(self, most: int, low_watermark: int) -> None:
        """Note that a coordinator's transactions up to `low_watermark` have ended everywhere."""
        if low_watermark > self.lows.get(most, -1):
            self.lows[most] = low_watermark

    def add(self, txn: TxnId, outcome: Outcome) -> None:
        """Remember that a transaction has ended at this participant, with its outcome."""
        self._outcomes[txn] = outcome
        if len(self._outcomes) > KEPT:
            del self._outcomes[next(iter(self._outcomes))]

    def outcome(self, txn: TxnId) -> Outcome | None:
        """Return how a transaction ended; None if it has not ended, or is forgotten."""
        return self._outcomes.get(txn)

    def count(self, outcome: Outcome) -> int:
        """Return how many of the remembered transactions have ended with `outcome`."""
        return sum(ended is outcome for ended in self._outcomes.values())

    def check(self, txn: TxnId, outcome: Outcome) -> None:
        """Raise `InvalidTransactionStatus` if the transaction has ended otherwise."""
        ended = self._outcomes.get(txn, outcome)
        if ended is not outcome:
            raise InvalidTransactionStatus(f"transaction {txn} has ended otherwise: {ended.name}")
