"""A coordinator: makes the steps of its transactions durable, and ends the decided ones.

It lives with the partition of its number of the topic `COORDINATORS`, where that is loaded: the
owner of the partition is the owner of the coordinator, and its state is stored with the cursors of
the partition.  When the partition is closed, or its log fails, the coordinator ends, and the next
one of the same number continues with the stored state.
"""

import logging
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush

from magnetar_broker.base.errors import (
    BrokerError,
    InvalidName,
    InvalidTransactionStatus,
    NotAllowed,
    TransactionCoordinatorNotFound,
)
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.topic.topic import Topic
from magnetar_broker.transactions.figures import CoordinatorFigures
from magnetar_broker.transactions.participants import Ending
from magnetar_broker.transactions.records import Participant, Status
from magnetar_broker.transactions.state import ENDING, OUTCOMES, CoordinatorState, Transaction
from magnetar_proto.names import MAX_NAME, TopicName
from magnetar_storage.cursors import attached_state
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.runtime.execution import Clock, Timer, settling

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""The pause before a participant that could not be notified of an end is notified again."""
LONGEST_TIMER_SECONDS = 3600.0
REACH = 1 << 32
"""The distance from the present number that no coordinator reaches in its lifetime."""
SPARE_DEADLINES = 1000
"""The excess over two deadlines per open transaction at which ended ones are removed.
"""


@dataclass
class _Finish:
    """A decided transaction on its way to its end."""

    waiters: Waiters
    is_done: bool = False


class Coordinator:
    """A coordinator of transactions; it is created when its partition is loaded, then started."""

    def __init__(self, number: int, topic: Topic, ending: Ending) -> None:
        self.number = number
        self.topic = topic
        self.state = CoordinatorState()
        self.figures = CoordinatorFigures()
        self.recovered_ms = self._clock.now_ms()
        """The time at which the coordinator was loaded."""
        self._ending = ending
        self._finishing: dict[int, _Finish] = {}
        """The tasks that finish decided transactions."""
        self._deadlines: list[tuple[int, int]] = []
        self._timer: Timer | None = None
        topic.cursors.adopt(attached_state.COORDINATOR, self.state)

    def start(self) -> None:
        """Continue with the stored state: end what was decided, and abort what is too old."""
        self._collect_deadlines()  # promise: timeouts of open transactions hold after a restart
        self._set_timer()
        self.resume()  # promise: a decided transaction goes on after a restart

    def resume(self) -> None:
        """Continue to end decided transactions after a restart, or where a defect stopped that."""
        for transaction in self.state.transactions.values():
            if transaction.status is not Status.OPEN and transaction.least not in self._finishing:
                logger.info("%s continues to its end", self._described(transaction))
                self._start_finish(transaction)

    @property
    def _engine(self) -> Engine:
        return self.topic.log.engine

    @property
    def _clock(self) -> Clock:
        return self._engine.clock

    @property
    def is_over(self) -> bool:
        """Whether the partition is no longer served here."""
        return self.topic.closed or self.topic.log.failed is not None

    # Requests ---------------------------------------------------------------------------------

    async def begin(self, ttl_ms: int, owner: str, limit: int) -> TxnId:
        """Begin a transaction, which is aborted after `ttl_ms` if still open; durable on return.

        Raises `LimitReached` if `limit` are open; 0 means no limit.
        """
        if ttl_ms <= 0:
            raise NotAllowed(f"the timeout of a transaction is {ttl_ms} ms: expected at least 1")
        new = self.state.begin(self._clock.now_ms(), ttl_ms, owner, limit)
        # promise: a transaction is answered only when its beginning is durable
        await self._durable()
        self.figures.begun += 1
        heappush(self._deadlines, (new.deadline_ms, new.least))
        if len(self._deadlines) > 2 * len(self.state.transactions) + SPARE_DEADLINES:
            self._collect_deadlines()
        self._set_timer()
        return TxnId(self.number, new.least)

    async def add(self, least: int, parts: list[Participant]) -> None:
        """Add participants to an open transaction; durable on return.

        Raises `TransactionNotFound` and `InvalidTransactionStatus`.
        """
        for part in parts:
            _check(part)
        if self.state.add(least, parts):
            # promise[await self._durable() -> self.figures.steps += 1]: topics are answered only
            #   when they are durable
            await self._durable()
        elif parts:  # what was added before may be on its way
            await self.topic.cursors.durable()

    async def end(self, least: int, outcome: Outcome) -> None:
        """Commit or abort a transaction; on return it has ended at all its participants.

        It is not an error if the transaction has the same outcome already.
        `InvalidTransactionStatus` is raised if the other outcome is decided.
        """
        if self.state.remembered.get(least) is outcome:
            return
        transaction = self.state.one(least)
        if transaction.status is Status.OPEN:
            self.state.decide(least, outcome)
        # promise[OUTCOMES[transaction.status] is not outcome -> transaction.least < 0]: the other
        #   outcome is refused
        elif OUTCOMES[transaction.status] is not outcome:
            raise InvalidTransactionStatus(
                f"transaction {least} is {transaction.status.name}: it cannot become "
                f"{ENDING[outcome].name}"
            )
        # A defect may have stopped the task that ended it.
        finish = self._finishing.get(least) or self._start_finish(transaction)
        await finish.waiters.wait()
        if not finish.is_done:
            raise self._over()

    async def ended(self, leasts: list[int]) -> list[int]:
        """Return the numbers that belong to no transaction now, nor later.

        A number that a client made up, because it was not given out yet, is never given out.
        """
        if max(leasts, default=-1) >= self.state.next:
            near = [least for least in leasts if least < self.state.next + REACH]
            self.state.pass_over(max(near, default=-1))
            # The number may have been given out by another process, which this one would take for
            # one that a client made up.  Only the present owner can store this.
            await self._durable()
        return [least for least in leasts if least not in self.state.transactions]

    def owner_of(self, least: int) -> str | None:
        """Return the role that began a transaction; None if it has ended, or never was."""
        transaction = self.state.transactions.get(least)
        return None if transaction is None else transaction.owner

    # Ending -----------------------------------------------------------------------------------

    def _start_finish(self, transaction: Transaction) -> "_Finish":
        finish = _Finish(Waiters(self._clock))
        self._finishing[transaction.least] = finish
        self._engine.tasks.spawn(self._finish(transaction, finish))
        return finish

    async def _finish(self, transaction: Transaction, finish: "_Finish") -> None:
        """End a decided transaction everywhere, unless this coordinator ends before."""
        least, outcome, engine = transaction.least, OUTCOMES[transaction.status], self._engine
        end_at = partial(self._end_at, least, outcome)
        try:
            # Nobody is told before the outcome is durable: after a crash it could be another one.
            await self._durable()  # promise: topics are told only when the outcome is durable
            await for_each(engine, list(transaction.parts), end_at)
            self._check_served()
            self.state.end(least)
            # Nobody waits for this step: a crash before it is durable makes the transaction end
            # once more, which changes nothing.
            self.topic.cursors.state_changed(attached_state.COORDINATOR)
            self.figures.ended(outcome, self._clock.now_ms() - transaction.opened_ms)
            finish.is_done = True
        except (StorageError, TransactionCoordinatorNotFound) as error:
            logger.info("%s is left to the next owner: %s", self._described(transaction), error)
        finally:
            del self._finishing[least]
            finish.waiters.release()

    async def _end_at(self, least: int, outcome: Outcome, part: Participant) -> None:
        txn, tries = TxnId(self.number, least), 0
        while True:
            self._check_served()
            try:
                await self._ending.end(part, txn, outcome, self.state.low_watermark)
                return
            except (BrokerError, StorageError) as error:
                tries += 1
                # The topic is often on its way to another process; later an operator should look.
                log = logger.warning if tries % 60 == 0 else logger.info
                log("the end of transaction %s at %s is tried again: %s", txn, part, error)
            # promise[await self._pause() -> return]: a topic that cannot be told now is told later
            await self._pause()

    async def _pause(self) -> None:
        over = self._clock.promise()
        settle = settling(over)
        self._clock.later(RETRY_SECONDS, lambda: settle(None))
        await over

    # Timeouts ---------------------------------------------------------------------------------

    def _collect_deadlines(self) -> None:
        """Remove the deadlines of transactions that are not open."""
        open_ones = [one for one in self.state.transactions.values() if one.status is Status.OPEN]
        self._deadlines = [(one.deadline_ms, one.least) for one in open_ones]
        heapify(self._deadlines)

    def _set_timer(self) -> None:
        """Set the timer for the first deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._deadlines and not self._is_open(self._deadlines[0][1]):
            heappop(self._deadlines)
        if self._deadlines:
            seconds = max(self._deadlines[0][0] - self._clock.now_ms(), 1) / 1000
            self._timer = self._clock.later(min(seconds, LONGEST_TIMER_SECONDS), self._look)

    def _look(self) -> None:
        self._timer = None
        if self.is_over:
            return
        now_ms = self._clock.now_ms()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, least = heappop(self._deadlines)
            if self._is_open(least):
                transaction = self.state.transactions[least]
                logger.info("%s is aborted: its timeout has passed", self._described(transaction))
                self.figures.timed_out += 1
                self.state.decide(least, Outcome.ABORT)
                self._start_finish(transaction)
        self._set_timer()

    def _is_open(self, least: int) -> bool:
        transaction = self.state.transactions.get(least)
        return transaction is not None and transaction.status is Status.OPEN

    # Durability -------------------------------------------------------------------------------

    async def _durable(self) -> None:
        """Write the steps up to now; the steps of one turn share a write, and all share a sync."""
        self._check_served()
        promise = self._clock.promise()
        self.topic.cursors.state_changed(attached_state.COORDINATOR, settling(promise))
        self.figures.steps += 1
        await promise

    def _check_served(self) -> None:
        if self.is_over:
            raise self._over()

    def _over(self) -> TransactionCoordinatorNotFound:
        return TransactionCoordinatorNotFound(
            f"coordinator {self.number} is not served here any more: look it up again"
        )

    def _described(self, transaction: Transaction) -> str:
        return f"transaction ({self.number},{transaction.least}), {transaction.status.name},"


def _check(part: Participant) -> None:
    """Raise `InvalidName` or `NotAllowed` for a participant that transactions cannot have."""
    if not TopicName.parse(part.topic).is_persistent:
        raise NotAllowed(f"{part.topic} is not persistent: transactions need persistent topics")
    if part.subscription is not None and len(part.subscription) > MAX_NAME:
        raise InvalidName(
            f"the subscription that begins with {part.subscription[:40]!r} has "
            f"{len(part.subscription)} characters: the limit in transactions is {MAX_NAME}"
        )
