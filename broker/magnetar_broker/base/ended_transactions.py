"""Which transactions have ended at one participant, as far as it remembers."""

from collections.abc import Iterable
from typing import Final

from magnetar_broker.base.errors import TransactionStatusInvalid
from magnetar_broker.base.transactions import Outcome, TxnId

KEPT: Final = 1000
"""The transactions that ended last; of earlier ones only low watermarks are known."""


class EndedTransactions:
    """What comes too late for a transaction is recognized by it."""

    __slots__ = ("_lows", "_outcomes")

    def __init__(self) -> None:
        self._lows: dict[int, int] = {}
        self._outcomes: dict[TxnId, Outcome] = {}

    def __contains__(self, txn: TxnId) -> bool:
        return txn in self._outcomes or self.is_late(txn)

    def is_late(self, txn: TxnId) -> bool:
        """Whether it is at or below its coordinator's low watermark: it has ended everywhere."""
        return txn.least <= self._lows.get(txn.most, -1)

    def late(self, txns: Iterable[TxnId]) -> list[TxnId]:
        """Those of them that have ended everywhere."""
        return [txn for txn in txns if self.is_late(txn)]

    def raise_low(self, most: int, low_watermark: int) -> None:
        """All transactions of a coordinator up to `low_watermark` have ended everywhere."""
        if low_watermark > self._lows.get(most, -1):
            self._lows[most] = low_watermark

    def add(self, txn: TxnId, outcome: Outcome) -> None:
        """A transaction has ended here."""
        self._outcomes[txn] = outcome
        if len(self._outcomes) > KEPT:
            del self._outcomes[next(iter(self._outcomes))]

    def check(self, txn: TxnId, outcome: Outcome) -> None:
        """`TransactionStatusInvalid` if it has ended otherwise."""
        ended = self._outcomes.get(txn, outcome)
        if ended is not outcome:
            raise TransactionStatusInvalid(f"transaction {txn} has ended otherwise: {ended.name}")
