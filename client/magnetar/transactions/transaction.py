"""A transaction: messages and acknowledgements that take effect together, or not at all."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Hashable
from typing import Any, Protocol, Self, TypeVar, cast

from magnetar.base.closing import Closing
from magnetar.base.errors import Closed, MagnetarError, OperationTimeout, TransactionOver
from magnetar.base.log_fields import about
from magnetar.base.settings import Settings
from magnetar.transactions.coordinators import Coordinators
from magnetar_proto import PulsarApi_pb2 as pb

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_TIMEOUT_S = 10 * 24 * 3600.0


class SendingEnd(Protocol):
    """A producer with a batch that belongs to a transaction."""

    def send_batch_now(self) -> None:
        """Send the batch without waiting for more messages."""


class CollectedAcks(Protocol):
    """The acknowledgements of a transaction in one partition."""

    def send(self) -> None:
        """Send the collected acknowledgements, and let the transaction wait for the answers."""

    def committed(self) -> None:
        """Called when the transaction is committed."""

    def aborts(self) -> None:
        """Called before the transaction is aborted."""

    def aborted(self) -> None:
        """Called when the transaction is aborted."""


A_co = TypeVar("A_co", bound=CollectedAcks, covariant=True)


class AckingEnd(Protocol[A_co]):
    """The consumer of one partition, as its transactions use it."""

    def in_transaction(self, txn: "Transaction") -> A_co:
        """Create the object that collects the acknowledgements of a transaction."""


class Transaction(Closing):
    """A transaction, created by `Client.transaction`.

    `async with` begins it, commits it at the end of the block, and aborts it if the block raises.
    `begin`, `commit` and `abort` do the same separately.  Producers and consumers of the same
    client accept it as `txn=`.
    """

    def __init__(self, coordinators: Coordinators, settings: Settings, timeout_s: float) -> None:
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(
                f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}, but is {timeout_s}"
            )
        self.timeout_s = timeout_s
        """The seconds after which the coordinator aborts the transaction if it is still open."""
        self.operation_timeout_s = settings.operation_timeout_s
        self._clock = settings.clock
        self._coordinators = coordinators
        self._id: tuple[int, int] | None = None
        self._state = "not begun"
        self._failure: BaseException | None = None
        self._added: dict[Hashable, asyncio.Task[None]] = {}
        """The tasks that add partitions and subscriptions to the transaction at its coordinator."""
        self._sends: dict[asyncio.Future[Any], SendingEnd] = {}
        self._acks: dict[AckingEnd[CollectedAcks], CollectedAcks] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def id(self) -> tuple[int, int]:
        """The most and least significant bits; the former are the number of its coordinator."""
        if self._id is None:
            raise Closed("the transaction was not begun: use `async with`, or await `begin`")
        return self._id

    @property
    def state(self) -> str:
        """The state: not begun, beginning, open, handed over, committing, committed, aborting,
        aborted, or unknown.

        In a forked child, the state of a transaction of the parent is: the parent's.
        """
        return self._state

    def __str__(self) -> str:
        return "a transaction" if self._id is None else f"transaction {self._id}"

    async def begin(self) -> None:
        """Begin the transaction at a coordinator; NotAllowed if the cluster has no transactions."""
        if self._state != "not begun":
            raise Closed(f"{self} was begun before: use another one")
        self._state = "beginning"
        try:
            reply = await self._coordinators.ask_next(
                pb.CommandNewTxn(txn_ttl_millis=round(self.timeout_s * 1000))
            )
        except BaseException:
            self._state = "not begun"
            raise
        self._id = reply.txnid_most_bits, reply.txnid_least_bits
        self._state = "open"

    def resume(self, txn_id: tuple[int, int]) -> None:
        """Resume a transaction that was handed over, here or in another process; replaces `begin`.

        Its timeout is the one with which it was begun.
        """
        if self._state != "not begun":
            raise Closed(f"{self} was begun before: use another one")
        self._id = txn_id
        self._state = "open"

    async def hand_over(self) -> tuple[int, int]:
        """Wait for all operations, and return the id with which another process can resume.

        If an operation has failed, this aborts and raises its error.  ValueError if it acknowledges
        messages: only their own consumer can handle the outcome.
        """
        self.check_open()
        self._check_no_acks()
        # promise: a transaction is handed over only when its parts have succeeded
        await self._complete()
        # promise: nothing is acknowledged while a transaction is handed over
        self._check_no_acks()  # that were added meanwhile
        self._state = "handed over"
        return self.id

    async def flush(self) -> None:
        """Wait until the broker has stored all operations so far; raise the first error."""
        await self._settled()
        if self._failure is not None:
            raise self._failure

    async def commit(self) -> None:
        """Wait for all operations, then commit the transaction.

        If an operation has failed, this aborts and raises its error.  TransactionOver: it has timed
        out, and has no effect.  After OperationTimeout the outcome is unknown, and `state`
        is "unknown".  The same holds if this is cancelled while the coordinator commits.
        """
        self.check_open()
        await self._complete()
        self._state = "committing"
        try:
            await self._end(pb.COMMIT)
        except TransactionOver:
            self._state = "aborted"
            for acks in self._acks.values():
                acks.aborts()
                acks.aborted()
            raise
        except BaseException:
            self._state = "unknown"
            raise
        self._state = "committed"
        for acks in self._acks.values():
            acks.committed()

    async def abort(self) -> None:
        """Abort: published messages are never delivered, and acknowledged ones are redelivered."""
        self.check_open()
        self._state = "aborting"
        try:
            await self._settled()
        except BaseException:
            self._state = "open"  # this was cancelled before the coordinator was asked
            raise
        for acks in self._acks.values():
            acks.aborts()
        try:
            await self._end(pb.ABORT)
        except TransactionOver as error:
            logger.info("%s had ended before: %s", self, error, extra=about(txn=self))
        except BaseException:
            self._state = "unknown"
            raise
        finally:
            for acks in self._acks.values():
                acks.aborted()
        self._state = "aborted"

    async def close(self) -> None:
        """Abort the transaction if it is open."""
        if self._state == "open":
            await self.abort()

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(self, *about: object) -> None:
        if self._state != "open":
            return  # the block has ended it
        if about[1] is None:  # no error
            await self.commit()
            return
        await self._give_up()

    # -- for producers and consumers

    def check_open(self) -> None:
        """Raise Closed unless the transaction is open."""
        if self._state != "open":
            raise Closed(f"{self} is {self._state}, and takes no more operations: use another one")

    def failed(self, error: BaseException) -> None:
        """Record an error, which makes a commit impossible."""
        if self._failure is None:
            self._failure = error  # promise: a transaction of which a part failed does not commit

    def adds(self, done: asyncio.Future[Any], end: SendingEnd) -> None:
        """Add a batch to the transaction; the batch's outcome will be in `done`."""
        if done not in self._sends:
            self._sends[done] = end
            done.add_done_callback(self._sent)

    def partition(self, topic: str) -> asyncio.Task[None]:
        """Return a task that adds this partition; it ends when messages may be sent, or fails."""
        known = self._added.get(topic)
        if known is None:
            command = pb.CommandAddPartitionToTxn(
                txnid_most_bits=self.id[0], txnid_least_bits=self.id[1], partitions=[topic]
            )
            known = self._added[topic] = self._adding(command, f"adding {topic} to {self}")
        return known

    async def add_subscription(self, topic: str, name: str) -> None:
        """Add a subscription at the coordinator, which must precede acknowledgements there."""
        known = self._added.get((topic, name))
        if known is None:
            command = pb.CommandAddSubscriptionToTxn(
                txnid_most_bits=self.id[0], txnid_least_bits=self.id[1]
            )
            command.subscription.add(topic=topic, subscription=name)
            what = f"adding subscription {name} of {topic} to {self}"
            known = self._added[topic, name] = self._adding(command, what)
        await asyncio.shield(known)

    def acks(self, consumer: AckingEnd[A_co]) -> A_co:
        """Return the object that collects the transaction's acknowledgements of this partition."""
        self.check_open()
        known = self._acks.get(consumer)
        if known is None:
            known = self._acks[consumer] = consumer.in_transaction(self)
        return cast(A_co, known)

    def waits_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task that must complete before the transaction ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._note)

    async def in_time(self, work: Awaitable[T], what: str) -> T:
        """Return the result, or raise OperationTimeout."""
        try:
            async with self._clock.timeout(self.operation_timeout_s):
                return await work
        except TimeoutError:
            raise OperationTimeout(
                f"{what} in {self} did not succeed within {self.operation_timeout_s:g} s"
            ) from None

    def forked(self, error: Closed) -> None:
        """Make the transaction unusable in a forked child, because it belongs to the parent."""
        self._state = "the parent's"

    # -- ending

    def _adding(self, command: Any, what: str) -> asyncio.Task[None]:
        async def add() -> None:
            await self._coordinators.ask(self.id[0], command, what)

        task = asyncio.create_task(add())
        task.add_done_callback(self._note)
        return task

    def _sent(self, done: asyncio.Future[Any]) -> None:
        self._sends.pop(done, None)
        self._note(done)

    def _note(self, done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            # promise[self.failed -> print]: a cancelled part makes its transaction fail
            self.failed(
                Closed(f"a part of {self} was cancelled, which cannot be committed any more")
            )
            return
        error = done.exception()
        if error is not None:
            self.failed(error)

    def _check_no_acks(self) -> None:
        if self._acks:
            raise ValueError(
                f"{self} cannot be handed over, because it acknowledges messages: commit it here"
            )

    async def _complete(self) -> None:
        """Wait for all operations; if one has failed, abort, and raise the first error.

        Closed if it has ended meanwhile in another way.
        """
        try:
            await self.flush()  # promise: a commit waits for the parts of its transaction
        except BaseException:
            if self._state == "open":
                await self._give_up()
            raise
        self.check_open()

    async def _settled(self) -> None:
        """Wait until no operation is in progress."""
        while True:
            for end in set(self._sends.values()):
                end.send_batch_now()
            for acks in self._acks.values():
                acks.send()
            waiting = [*self._sends, *self._tasks]
            waiting += [task for task in self._added.values() if not task.done()]
            if not waiting:
                return
            await asyncio.wait(waiting)

    async def _end(self, action: int) -> None:
        command = pb.CommandEndTxn(
            txnid_most_bits=self.id[0],
            txnid_least_bits=self.id[1],
            txn_action=action,  # type: ignore[arg-type]
        )
        await self._coordinators.end(self.id[0], command, f"ending {self}")

    async def _give_up(self) -> None:
        """Abort the transaction; an error of the abort is only logged."""
        try:
            await self.abort()
        except MagnetarError as failure:
            what = "%s was not aborted, and will time out: %s"
            logger.warning(what, self, failure, extra=about(txn=self))
