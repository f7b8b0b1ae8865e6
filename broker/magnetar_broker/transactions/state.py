"""The transactions of one coordinator, as a pure state machine.

    OPEN ──────┬─> COMMITTING ──> COMMITTED
               └─> ABORTING ────> ABORTED

Topics and subscriptions are added while a transaction is OPEN.  The outcome is decided by the step
to COMMITTING or ABORTING; then each of them is told, and the last step ends the transaction.  A
transaction that has ended is forgotten but for its outcome, which is remembered for a while, so
that a client that lost the answer can ask again.

Every step is a record (`records.py`).  Replaying the records of all steps, in order, leads to the
same state.  The state is stored with the cursors of the coordinator's topic, which keep the order,
sync records of many transactions at once, and replace a long history by a snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from magnetar_broker.base.errors import (
    InvalidTransactionStatus,
    LimitReached,
    TransactionNotFound,
)
from magnetar_broker.base.transaction_ids import Outcome
from magnetar_broker.transactions import records
from magnetar_broker.transactions.records import Participant, Status, TransactionRecordKind

MAX_PARTS = 10_000
"""The most topics and subscriptions of one transaction."""
MAX_PARTS_OF_ALL = 1_000_000
"""The most topics and subscriptions of all open transactions together; they are in memory."""
REMEMBERED = 1000
"""The number of outcomes of ended transactions that are remembered."""

ENDING = {Outcome.COMMIT: Status.COMMITTING, Outcome.ABORT: Status.ABORTING}
ENDED = {Outcome.COMMIT: Status.COMMITTED, Outcome.ABORT: Status.ABORTED}
OUTCOMES = {
    Status.COMMITTING: Outcome.COMMIT,
    Status.COMMITTED: Outcome.COMMIT,
    Status.ABORTING: Outcome.ABORT,
    Status.ABORTED: Outcome.ABORT,
}


@dataclass
class Transaction:
    """A transaction that has not ended."""

    least: int
    opened_ms: int
    ttl_ms: int
    owner: str
    """The role of the client that began the transaction; blank without authentication."""
    status: Status = Status.OPEN
    parts: dict[Participant, None] = field(default_factory=dict)
    """The topics and subscriptions of the transaction, in the order in which they were added."""

    @property
    def deadline_ms(self) -> int:
        """The time at which the transaction is aborted if it is still open."""
        return self.opened_ms + self.ttl_ms


class CoordinatorState:
    """The state of a coordinator, an `AttachedState`: written by `CursorLog.state_changed`."""

    def __init__(self) -> None:
        self.next = 0
        """The number of the next transaction; a number is never used twice."""
        self.transactions: dict[int, Transaction] = {}
        """The open and ending transactions, in the order of their numbers."""
        self.remembered: dict[int, Outcome] = {}
        """The outcomes of the last ended transactions, in the order of their ends."""
        self._parts = 0
        self._delta: list[bytes] = []

    @property
    def low_watermark(self) -> int:
        """The number up to which all transactions have ended; -1 if the first has not."""
        # promise[without - 1]: the low watermark is below each transaction that lives
        return next(iter(self.transactions), self.next) - 1

    # Steps --------------------------------------------------------------------------------

    def begin(self, now_ms: int, ttl_ms: int, owner: str, limit: int) -> Transaction:
        """Begin a transaction; `LimitReached` if `limit` are open already, unless that is 0."""
        if 0 < limit <= len(self.transactions):
            raise LimitReached(
                f"{len(self.transactions)} transactions are open on this coordinator "
                "(maxActiveTransactionsPerCoordinator): end some, or try again later"
            )
        new = Transaction(self.next, now_ms, ttl_ms, owner)
        self._step(records.begun(new.least, now_ms, ttl_ms, owner))
        return self.transactions[new.least]

    def add(self, least: int, parts: Iterable[Participant]) -> bool:
        """Add participants to an open transaction; return False if it has all of them already."""
        # promise[open_one -> one]: topics join only open transactions
        transaction = self.open_one(least)
        new = [part for part in dict.fromkeys(parts) if part not in transaction.parts]
        if len(transaction.parts) + len(new) > MAX_PARTS:
            raise LimitReached(
                f"transaction {least} has {len(transaction.parts)} topics and subscriptions, and "
                f"{len(new)} more exceed the limit of {MAX_PARTS}: use several transactions"
            )
        if self._parts + len(new) > MAX_PARTS_OF_ALL:
            raise LimitReached(
                f"the transactions of this coordinator have {self._parts} topics and "
                f"subscriptions, and the limit is {MAX_PARTS_OF_ALL}: end some, or try again later"
            )
        for record in records.added(least, new):
            self._step(record)
        return bool(new)

    def decide(self, least: int, outcome: Outcome) -> Transaction:
        """Decide the outcome of an open transaction."""
        transaction = self.open_one(least)  # promise[open_one -> one]: an outcome is decided once
        self._step(records.changed(least, ENDING[outcome]))
        return transaction

    def end(self, least: int) -> None:
        """End a decided transaction; all of its participants have applied the outcome."""
        outcome = OUTCOMES[self.transactions[least].status]
        self._step(records.changed(least, ENDED[outcome]))

    def pass_over(self, least: int) -> None:
        """Skip all numbers up to this one, so that they are never given out."""
        self._step(records.counted(max(self.next, least + 1)))

    def _step(self, record: bytes) -> None:
        self.apply(record)
        self._delta.append(record)

    # Questions ------------------------------------------------------------------------------

    def one(self, least: int) -> Transaction:
        """Return a transaction that has not ended; raises `TransactionNotFound`."""
        if least in self.transactions:
            return self.transactions[least]
        if least in self.remembered:
            outcome = ENDED[self.remembered[least]].name
            raise TransactionNotFound(f"transaction {least} has ended: it is {outcome}")
        raise TransactionNotFound(
            f"there is no transaction {least} on this coordinator: it has ended, or never was"
        )

    def open_one(self, least: int) -> Transaction:
        """Return an open transaction; `TransactionNotFound` or `InvalidTransactionStatus`."""
        transaction = self.one(least)
        if transaction.status is not Status.OPEN:
            raise InvalidTransactionStatus(
                f"transaction {least} is {transaction.status.name}: expected OPEN"
            )
        return transaction

    # Storage ----------------------------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        delta, self._delta = self._delta, []
        return delta

    def snapshot(self) -> list[bytes]:
        self._delta = []
        # promise[without self.remembered.items]: a snapshot keeps the outcomes of ended
        #   transactions
        whole = [records.remembered(least, ENDED[end]) for least, end in self.remembered.items()]
        for one in self.transactions.values():
            whole.append(records.begun(one.least, one.opened_ms, one.ttl_ms, one.owner))
            # promise: a snapshot keeps the topics of a transaction
            whole += records.added(one.least, list(one.parts))
            # promise[status is not Status.OPEN -> least < 0]: a snapshot keeps that an outcome was
            #   decided
            if one.status is not Status.OPEN:
                whole.append(records.changed(one.least, one.status))
        # promise[[*whole, records.counted(self.next)] -> whole]: a number is not used again after a
        #   snapshot
        return [*whole, records.counted(self.next)]

    def apply(self, data: bytes) -> None:
        kind, least, body = records.read(data)
        match kind:
            case TransactionRecordKind.BEGUN:
                opened_ms, ttl_ms, owner = records.read_begun(body)
                self.transactions[least] = Transaction(least, opened_ms, ttl_ms, owner)
                # promise: a number is not used again after a crash
                self.next = max(self.next, least + 1)
            case TransactionRecordKind.ADDED:
                parts = self.transactions[least].parts
                self._parts -= len(parts)
                parts.update(dict.fromkeys(records.read_added(body)))
                self._parts += len(parts)
            case TransactionRecordKind.CHANGED:
                self._change(least, records.read_status(body))
            case TransactionRecordKind.REMEMBERED:
                self._remember(least, OUTCOMES[records.read_status(body)])
            case TransactionRecordKind.COUNTED:
                self.next = max(self.next, least)

    def _change(self, least: int, status: Status) -> None:
        if status in (Status.COMMITTED, Status.ABORTED):
            self._parts -= len(self.transactions.pop(least).parts)
            self._remember(least, OUTCOMES[status])
        else:
            self.transactions[least].status = status

    def _remember(self, least: int, outcome: Outcome) -> None:
        self.remembered[least] = outcome
        if len(self.remembered) > REMEMBERED:
            del self.remembered[next(iter(self.remembered))]
