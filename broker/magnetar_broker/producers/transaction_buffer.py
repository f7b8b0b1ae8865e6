"""The transactions of one topic: the open ones, their entries, and their ends.

Entries of a transaction are appended at once, as all others, and nothing from the first entry of
the oldest open transaction on is delivered (`LogState.visible_end`).  A marker, which is durable
before the end is reported, ends a transaction.  The entries of aborted transactions and all markers
are hidden: every cursor counts them as acknowledged (`LogState.hidden`).

Which transactions are open is not stored: when the topic is loaded, that is read from the entries,
from the first one of the oldest open transaction on (`HiddenEntries.covered`).
"""

import logging
from collections.abc import Callable

from magnetar_broker.base.ended_transactions import EndedTransactions
from magnetar_broker.base.transaction_ids import NO_TRANSACTIONS, Outcome, TxnId
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.producers.first_segment import start_writing
from magnetar_broker.producers.hidden_entries import NEVER, HiddenEntries
from magnetar_proto.transactions import ABORT_MARKER, COMMIT_MARKER, encode_marker, membership_of
from magnetar_storage.cursors.attached_state import TRANSACTIONS
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.log.log import Log, LogRun
from magnetar_storage.log.log_state import NO_LIMIT
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.runtime.execution import settling

logger = logging.getLogger(__name__)

READ_ENTRIES = 1000
READ_BYTES = 4 << 20
SNAPSHOT_ENTRIES = 1000
"""The number of entries after which the state is stored again, which limits reads at a load."""
# promise[COMMIT_MARKER -> ABORT_MARKER]: a commit is marked as a commit
# promise[ABORT_MARKER -> COMMIT_MARKER]: an abort is marked as an abort
MARKERS = {Outcome.COMMIT: COMMIT_MARKER, Outcome.ABORT: ABORT_MARKER}


class OpenTransaction:
    """The entries of an open transaction."""

    __slots__ = ("ending", "entries", "first", "messages", "since_ms", "size")

    def __init__(self, first: int, since_ms: int) -> None:
        self.first = first
        self.entries = OffsetSet()
        self.messages = self.size = 0
        self.since_ms = since_ms
        """The time of the transaction's first message in the topic, or of the topic's load."""
        self.ending: Waiters | None = None
        """Waiters for the transaction's marker while that is being stored."""

    def add(self, first: int, count: int, messages: int, size: int) -> None:
        """Count entries, from the offset `first` on."""
        self.entries.add(first, first + count)
        self.messages += messages
        self.size += size


class Marker(LogRun):
    """The entry that ends a transaction, on its way into the log."""

    def __init__(self, payload: bytes, done: Callable[[int, BaseException | None], None]) -> None:
        """`done` is called with the marker's offset when it is durable, or with an error."""
        super().__init__()
        self.payloads, self.counts, self.size = [payload], [1], len(payload)
        self._done = done

    def on_durable(self, error: BaseException | None) -> None:
        self._done(self.offset, error)


class TransactionBuffer:
    """The transactions of a persistent topic; free until the first message of a transaction."""

    def __init__(self, log: Log, cursors: CursorLog, hidden: HiddenEntries) -> None:
        self.open: dict[TxnId, OpenTransaction] = {}
        """The open transactions, in the order of their first entries."""
        self.allowed = True
        self.ended = EndedTransactions()
        self.written_ms = 0
        """The time at which the state was last stored; 0 if it was not since the load."""
        self.recovered_ms = 0, 0
        """The times at which reading the entries at the load began and ended."""
        self.committed = self.aborted = 0
        """The numbers of transactions that ended here since the load."""
        self.on_begin: Callable[[], None] = lambda: None
        """Called before the first message of a transaction is stored, once."""
        self.on_hidden: Callable[[OffsetSet], None] = lambda offsets: None
        """Called when a transaction has ended, with what is hidden from now on: every cursor of
        the log must skip it, and more may be delivered."""
        self._log = log
        self._cursors = cursors
        self._hidden = hidden
        self._settled = NEVER
        """The value of `HiddenEntries.covered` when it was last durable."""

    @classmethod
    async def recovered(
        cls, log: Log, cursors: CursorLog, hidden: HiddenEntries
    ) -> "TransactionBuffer":
        """Return the buffer of a topic that is being loaded; `hidden` is as stored."""
        buffer = cls(log, cursors, hidden)
        if buffer.on:
            buffer._settled = hidden.covered
            hidden.offsets.remove_below(log.first_offset)
            log.hidden = hidden.offsets  # promise: what is hidden is known after a load
            clock, began_ms = log.engine.clock, log.engine.clock.now_ms()
            # promise: entries after the state are read when a topic is loaded
            await buffer._replay()
            buffer.recovered_ms = began_ms, clock.now_ms()
        return buffer

    @property
    def on(self) -> bool:
        """Whether the topic has seen transactions: then it must see every durable run."""
        return self._hidden.covered != NEVER

    async def begin(self) -> StorageError | None:
        """Make every later load recognize entries of transactions; durable on return.

        Return the error if that failed.
        """
        if not self.on:
            # promise: new subscriptions know what is hidden
            self._log.hidden = self._hidden.offsets
            self._hidden.cover(self._log.visible_end)
            self.on_begin()
        try:
            await self._durable()
        except StorageError as error:
            return error
        return None

    # Publishing ---------------------------------------------------------------------------

    def refusal(self, txn: TxnId) -> str:
        """Return why nothing can be published in a transaction, or no longer; "" if it can."""
        if not self.allowed:
            return NO_TRANSACTIONS
        one = self.open.get(txn)
        # promise[without txn not in self.ended and]: a transaction that has ended takes no messages
        if txn not in self.ended and (one is None or one.ending is None):
            return ""
        return (
            f"transaction {txn} has ended or is ending: publish the message in another transaction"
        )

    def appended(self, run: LogRun, txn: TxnId) -> None:
        """Count a run that was appended in a transaction; call it before the run is durable."""
        one = self.open.get(txn)
        if one is None:
            now_ms = self._log.engine.clock.now_ms()
            one = self.open[txn] = OpenTransaction(run.offset, now_ms)
            if self._log.visible_limit == NO_LIMIT:
                self._log.limit_visible(run.offset)
        one.add(run.offset, len(run.payloads), sum(run.counts), run.size)

    def on_durable(self) -> None:
        """Note that a run is durable; call it for every run once the buffer is `on`."""
        if self._log.visible_end - self._hidden.covered >= SNAPSHOT_ENTRIES:
            self.write()

    # Ending -------------------------------------------------------------------------------

    async def end(self, txn: TxnId, outcome: Outcome, low_watermark: int) -> None:
        """Commit or abort the messages that a transaction has published; durable on return.

        If that is nothing, or has ended already, nothing is written; what comes later is refused.
        All transactions of the coordinator up to `low_watermark` have ended everywhere: what is
        left of them here was published too late, and is aborted.
        """
        self.ended.raise_low(txn.most, low_watermark)
        await self._end(txn, outcome)
        for one in self.ended.late(self.open):
            logger.warning(
                "messages of transaction %s were published to %s after it had ended: "
                "they are aborted",
                one, self._log.key,
            )  # fmt: skip
            await self._end(one, Outcome.ABORT)  # promise: messages that came too late are aborted

    async def _end(self, txn: TxnId, outcome: Outcome) -> None:
        # Another request may be ending the transaction; if that fails, this one tries.
        while (one := self.open.get(txn)) is not None and one.ending is not None:
            await one.ending.wait()
        if one is not None:
            one.ending = Waiters(self._log.engine.clock)
            try:
                await self._mark(txn, outcome)
            finally:
                ending, one.ending = one.ending, None
                ending.release()
        self.ended.check(txn, outcome)
        self.ended.add(txn, outcome)

    async def _mark(self, txn: TxnId, outcome: Outcome) -> None:
        """Store the end of a transaction: by a marker or, on a terminated log, with the cursors."""
        log = self._log
        error = await start_writing(log)
        if log.terminated:
            # promise: a terminated topic knows how transactions ended
            self._hidden.end(txn, outcome)
            self._settle(txn, outcome, None)
            self._hidden.cover(log.visible_end)
            await self._durable()
            return
        if error is not None:
            raise error
        promise = log.engine.clock.promise()
        settle = settling(promise)

        def done(offset: int, error: BaseException | None) -> None:
            if error is None:
                self._settle(txn, outcome, offset)
            settle(error)

        now_ms = log.engine.clock.now_ms()
        log.append(Marker(encode_marker(txn.most, txn.least, MARKERS[outcome], now_ms), done))
        await promise  # promise: a transaction ends only when its marker is durable

    def _settle(self, txn: TxnId, outcome: Outcome, marker: int | None) -> None:
        """Settle an ended transaction: its entries may be delivered, or are hidden."""
        hidden = self._take(txn, outcome, marker)
        self.ended.add(txn, outcome)
        if outcome is Outcome.COMMIT:
            self.committed += 1
        else:
            self.aborted += 1
        self._limit()
        self.on_hidden(hidden)
        self.on_durable()

    def _take(self, txn: TxnId, outcome: Outcome, marker: int | None) -> OffsetSet:
        """Remove an open transaction; return the entries that are hidden from now on."""
        one, hidden = self.open.pop(txn, None), OffsetSet()
        if outcome is Outcome.ABORT and one is not None:
            hidden = one.entries  # promise: aborted messages are hidden
        if marker is not None:
            hidden.add(marker, marker + 1)  # promise: a marker is not delivered
        self._hidden.hide(hidden)
        return hidden

    def _limit(self) -> None:
        oldest = next(iter(self.open.values()), None)
        self._log.limit_visible(NO_LIMIT if oldest is None else oldest.first)

    # Being durable ------------------------------------------------------------------------

    def write(self) -> None:
        """Store the hidden entries with the cursors, so that a load reads fewer entries."""
        if self.on and self._hidden.covered != self._log.visible_end:
            # promise[visible_end -> end]: the state does not cover open transactions
            self._hidden.cover(self._log.visible_end)
            self.written_ms = self._log.engine.clock.now_ms()
            self._cursors.state_changed(TRANSACTIONS)

    async def released_to(self, offset: int) -> int:
        """Return the offset up to which entries below `offset` may be deleted.

        Entries of open transactions, and entries that a load would have to read, are kept.
        """
        if not self.on:
            return offset
        if self._settled < offset and self._settled < self._log.visible_end:
            self._hidden.cover(self._log.visible_end)
            await self._durable()
        # promise[min(offset, self._settled) -> offset]: entries of open transactions are not
        #   deleted
        return min(offset, self._settled)

    async def _durable(self) -> None:
        covered = self._hidden.covered
        self.written_ms = self._log.engine.clock.now_ms()
        promise = self._log.engine.clock.promise()
        self._cursors.state_changed(TRANSACTIONS, settling(promise))
        await promise
        self._settled = max(self._settled, covered)

    # Loading ------------------------------------------------------------------------------

    async def _replay(self) -> None:
        """Find the open transactions, and hidden entries, among the entries not covered."""
        log = self._log
        offset = max(self._hidden.covered, log.first_offset)
        while offset < log.end:
            try:
                run = await log.entries.read(offset, READ_ENTRIES, READ_BYTES)
            except (Corrupt, NoSegment) as error:
                logger.error(
                    "entries of %s cannot be read, so that transactions that ended there seem to "
                    "be open: %s",
                    log.key,
                    error,
                )
                offset = log.entries.behind_damage(offset, error)
                continue
            if not run.payloads:
                break
            offset = run.first + len(run.payloads)
            counted = zip(run.payloads, run.counts, strict=True)
            for at, (payload, messages) in enumerate(counted, run.first):
                self._recover(at, payload, messages)
        for txn, outcome in self._hidden.ended.items():
            self._take(txn, outcome, None)
        self._limit()  # promise: a loaded topic holds back open transactions
        self.write()

    def _recover(self, offset: int, payload: bytes, messages: int) -> None:
        found = membership_of(payload)
        if found is None:
            return
        txn = TxnId(found.most, found.least)
        if found.marker == COMMIT_MARKER:
            self._take(txn, Outcome.COMMIT, offset)
        elif found.marker == ABORT_MARKER:
            self._take(txn, Outcome.ABORT, offset)
        else:
            one = self.open.get(txn)
            if one is None:
                now_ms = self._log.engine.clock.now_ms()
                one = self.open[txn] = OpenTransaction(offset, now_ms)
            one.add(offset, 1, messages, len(payload))
