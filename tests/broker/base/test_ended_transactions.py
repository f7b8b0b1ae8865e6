"""What a participant remembers of transactions that have ended."""

import pytest

from magnetar_broker.base.ended_transactions import KEPT, EndedTransactions
from magnetar_broker.base.errors import InvalidTransactionStatus
from magnetar_broker.base.transaction_ids import Outcome, TxnId


def test_low_watermarks_only_rise_and_are_of_one_coordinator() -> None:
    ended = EndedTransactions()
    ended.raise_low(1, 5)
    ended.raise_low(1, 3)
    assert TxnId(1, 5) in ended and TxnId(1, 6) not in ended and TxnId(2, 0) not in ended
    assert ended.late([TxnId(1, 4), TxnId(1, 6), TxnId(2, 4)]) == [TxnId(1, 4)]


def test_an_outcome_stays() -> None:
    ended = EndedTransactions()
    ended.check(TxnId(1, 1), Outcome.ABORT)
    ended.add(TxnId(1, 1), Outcome.COMMIT)
    ended.check(TxnId(1, 1), Outcome.COMMIT)
    assert ended.outcome(TxnId(1, 1)) is Outcome.COMMIT
    with pytest.raises(InvalidTransactionStatus, match="COMMIT"):
        ended.check(TxnId(1, 1), Outcome.ABORT)


def test_the_last_ones_are_remembered() -> None:
    ended = EndedTransactions()
    for least in range(KEPT + 1):
        ended.add(TxnId(0, least), Outcome.ABORT)
    assert TxnId(0, 0) not in ended and TxnId(0, 1) in ended and TxnId(0, KEPT) in ended
