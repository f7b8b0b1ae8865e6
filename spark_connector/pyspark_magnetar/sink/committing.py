"""The commit of a micro-batch: one transaction of each partition takes effect.

Every attempt of a task writes its rows in a transaction of its own.  The driver ends them: it is
given those of the successful attempts.  It may fail between two of them, and then the batch is
run again, with other transactions, perhaps while the first driver still runs.  Drivers therefore
record in a topic what they do:

1. A driver announces its transactions, and reads the log up to the announcement.
2. It aborts the transactions of earlier announcements of this batch.  From then on none of them
   can be committed, unless it was committed before.
3. It reads the marks present then.  A mark is a message in a transaction: the broker delivers
   it if, and only if, the transaction is committed.
4. It aborts its transactions of partitions with a mark.  It commits the others, each with
   its mark.

Of two drivers, the one that announced later aborts what the other has not committed, and finds
the marks of what it has: nothing takes effect twice.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import magnetar
from magnetar.base.concurrency import gather_all
from pyspark_magnetar.sink.commit_records import Announcement, Mark, Record, TxnId
from pyspark_magnetar.sink.transaction_log import TransactionLog, resumed

logger = logging.getLogger(__name__)


class BatchChanged(magnetar.MagnetarError):
    """A part of the batch is already committed, but the batch now has other rows."""


class StaleDriver(magnetar.MagnetarError):
    """A driver has announced a later batch of the query before."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of the successful attempt of a task."""

    partition: int
    rows: int
    txn: TxnId | None
    """The transaction of the rows; None without rows."""


class Committing:
    """Commits one micro-batch; used by one driver."""

    def __init__(
        self, log: TransactionLog, owner: str, batch: int, results: Sequence[TaskResult]
    ) -> None:
        """`results` must have every partition of the batch."""
        self._log = log
        self.results = {one.partition: one for one in results}
        """The results, by partition number."""
        txns = [one.txn for one in results if one.txn is not None]
        self._announcement = Announcement(owner, batch, txns)
        self._is_taken_over = False
        """Whether another driver has announced the batch before."""
        self._marks: dict[int, Mark] = {}
        """The marks of the partitions that are committed."""
        self._old: magnetar.Message | None = None
        """The last record of earlier batches; all records up to it can be deleted."""

    async def run(self) -> None:
        """Commit all partitions that are not committed; raise an error if one of them fails."""
        await self.announce()
        await self.find_done()
        if self._marks:
            logger.warning(
                "batch %d of %s: partitions %s were committed before it was run again",
                self._announcement.batch,
                self._announcement.owner,
                sorted(self._marks),
            )
        await gather_all(self.end(partition) for partition in self.results)
        if self._old is not None:
            await self._log.forget(self._old)

    async def announce(self) -> None:
        """Take steps 1 and 2; may raise StaleDriver."""
        mine = set(self._announcement.txns)
        has_begun = False
        async for record, message in self._log.read_behind(self._announcement):
            self._take(record)
            has_begun |= record.batch == self._announcement.batch
            # promise[not has_begun -> record.batch < self._announcement.batch]: marks of a batch
            #   are kept until a driver is behind it
            if not has_begun:
                self._old = message
            elif isinstance(record, Announcement) and record.batch == self._announcement.batch:
                # It may be the same announcement, whose receipt was lost when it was first sent.
                earlier = set(record.txns) - mine
                self._is_taken_over |= bool(earlier)
                # promise: what an earlier driver has announced is aborted
                await gather_all(self._log.abort(txn) for txn in earlier)

    async def find_done(self) -> None:
        """Take step 3; may raise BatchChanged."""
        if self._is_taken_over:  # promise: what an earlier driver committed meanwhile is seen
            # The marks of all commits before the aborts precede this.
            async for record, _ in self._log.read_behind(self._announcement):
                self._take(record)
        for mark in self._marks.values():
            self._check_same(mark)

    async def end(self, partition: int) -> None:
        """Commit one partition, which is step 4."""
        results = self.results[partition]
        if results.txn is None:
            return
        if partition in self._marks:  # promise: a partition is committed once
            await self._log.abort(results.txn)
            return
        about = self._announcement
        mark = Mark(about.owner, about.batch, partition, results.rows, len(self.results))
        await self._log.commit(results.txn, mark)

    def _take(self, record: Record) -> None:
        about = self._announcement
        if record.batch > about.batch:  # promise: a batch behind the log is not committed again
            raise StaleDriver(
                f"batch {about.batch} of {about.owner} is not committed, because batch "
                f"{record.batch} was announced before: is the query started twice, or with an "
                "earlier state of its checkpoint?"
            )
        if isinstance(record, Mark) and record.batch == about.batch:
            self._marks[record.partition] = record

    def _check_same(self, mark: Mark) -> None:
        results = self.results.get(mark.partition)
        rows = None if results is None else results.rows
        # promise: the rest of a batch has the rows from before
        if (rows, len(self.results)) != (mark.rows, mark.partitions):
            raise BatchChanged(
                f"batch {mark.batch} of {mark.owner}: partition {mark.partition} of "
                f"{mark.partitions} was committed with {mark.rows} rows, but is now one of "
                f"{len(self.results)}, with {rows} rows: nothing more is committed, because rows "
                "would be duplicated or lost; start the query with its former settings"
            )


async def abort_all(client: magnetar.Client, results: Sequence[TaskResult]) -> None:
    """Abort the transactions that are not committed; failures are logged: each has a timeout."""
    await gather_all(_give_up(client, one.txn) for one in results if one.txn is not None)


async def _give_up(client: magnetar.Client, txn_id: TxnId) -> None:
    try:
        await resumed(client, txn_id).abort()
    except magnetar.MagnetarError as error:
        # If it were raised, it would hide the reason why the query has failed.
        logger.warning("transaction %s ends by its timeout, it was not aborted: %s", txn_id, error)
