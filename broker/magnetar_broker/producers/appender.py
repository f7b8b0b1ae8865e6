"""The way of published entries into the log: from a producer's run to its receipts.

Read it from `Appender.append`, called by the session for each run that it has received, to
`PublishRun.on_durable`, called by the log when the run is durable.  This module is compiled: its
coroutine handles no exceptions.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.dispatch.topic_delays import TopicDelays
from magnetar_broker.producers.deduplication_state import NO_ID, DeduplicationState
from magnetar_broker.producers.first_segment import start_writing
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_broker.producers.transaction_buffer import TransactionBuffer
from magnetar_broker.producers.write_counts import WriteCounts
from magnetar_broker.throttling.rate_limit import RateLimit, throttle
from magnetar_proto.chunks import chunks_among
from magnetar_proto.sends import Receipts, encode_receipts
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log, LogRun
from magnetar_storage.runtime.compiling import mypyc_attr
from magnetar_storage.runtime.execution import Promise


class RunSink:
    """The receiver of the runs that a topic's producers send."""

    __slots__ = ()

    def append(self, run: "PublishRun") -> None:
        """Take a run; it is answered when it is as durable as the topic promises."""
        raise NotImplementedError

    def refusal(self, txn: TxnId) -> str:
        """Return why nothing can be published in a transaction; "" if messages can."""
        raise NotImplementedError


class Publisher:
    """The part of a producer that its runs need: its connection, and what is counted for it."""

    __slots__ = (
        "bytes_in",
        "chunks_in",
        "closed",
        "connection",
        "entries_answered",
        "entries_published",
        "gathering",
        "id",
        "messages_in",
        "name",
        "receipts",
        "release_pending",
        "rules",
        "send",
        "sink",
        "waiting",
    )

    def __init__(self, connection: Connection, sink: RunSink, producer_id: int, name: str) -> None:
        self.connection = connection
        # Attributes of the connection that every run needs: a lookup less for each run.
        self.send = connection.send
        self.release_pending = connection.release_pending
        self.receipts = Receipts(producer_id)
        self.gathering: PublishRun | None = None
        """The run to which the session adds what it is receiving."""
        self.id = producer_id
        self.name = name
        self.rules = PublishRules()
        """The topic's rules once the producer is ready; `Producers.apply_rules` sets them."""
        self.closed = False
        self.messages_in = self.bytes_in = self.chunks_in = 0
        """The numbers of messages, bytes and chunks published; chunks count as messages, too."""
        self.sink = sink
        self.entries_published = 0
        """The number of entries handed to `sink`."""
        self.entries_answered = 0
        """The number of these that are answered, or never will be."""
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        """Calls with the value of `entries_answered` at which each is made (`when_answered`)."""

    @property
    def pending(self) -> int:
        """The number of published entries that are not answered."""
        return self.entries_published - self.entries_answered

    def when_answered(self, call: Callable[[], None]) -> None:
        """Call as soon as everything published so far is answered, and before what comes later."""
        if self.pending or self.waiting:
            self.waiting.append((self.entries_published, call))
        else:
            call()

    def call_waiting(self) -> None:
        """Make the calls of `when_answered` that are due."""
        # One at a time: a call may publish, or ask for another one.
        while self.waiting and self.waiting[0][0] <= self.entries_answered:
            _, call = self.waiting.pop(0)
            call()

    def refuse_next(self, why: str) -> None:
        """Refuse the next producer of this name once: a message can never be accepted."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class PublishRun(LogRun):
    """A run of entries from one producer that arrived together and is answered together."""

    __slots__ = (
        "appender",
        "chunked",
        "delayed",
        "highest_ids",
        "producer",
        "sequence_ids",
        "top",
        "txn",
    )

    def __init__(self, producer: Publisher) -> None:
        # Avoid super().__init__, which would be a further call for each run.
        self.payloads = []
        self.counts = []
        self.size = self.added = 0
        self.log = None
        self.offset = self.ledger = self.first_entry = -1
        self.producer = producer
        self.appender: Appender | None = None
        """The appender that gave the run to its log; None before that."""
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.delayed = False
        """Whether some entries may have a delivery time."""
        self.chunked = False
        """Whether some entries may be chunks."""
        self.top = NO_ID
        """The highest sequence id that deduplication counts for the run."""
        self.txn: TxnId | None = None
        """The transaction of all of its entries; None if they are in none."""

    def part(self, start: int, stop: int) -> "PublishRun":
        """Return the entries from `start` to before `stop` as a run of their own."""
        # Only deduplication divides runs: most are stored as they arrived.
        part = PublishRun(self.producer)
        part.sequence_ids = self.sequence_ids[start:stop]
        part.highest_ids = self.highest_ids[start:stop]
        part.counts = self.counts[start:stop]
        part.payloads = self.payloads[start:stop]
        part.size = sum(map(len, part.payloads))
        part.delayed, part.chunked, part.txn = self.delayed, self.chunked, self.txn
        return part

    def on_durable(self, error: BaseException | None) -> None:
        """Send the receipts of the run, count it, and wake the topic's subscriptions."""
        appender = self.appender
        assert appender is not None
        if error is not None:
            # Send no receipt and no error: the producers are disconnected, and their clients send
            # unanswered messages again once the topic is loaded again.
            appender.failed(error)
            self.answer(b"")
            return
        payloads, counts, producer = self.payloads, self.counts, self.producer
        if self.delayed:  # before anything is delivered: the dispatchers ask which ones wait
            appender.delays.note(self.offset, payloads)
        # Receipts before deliveries: both are written at the end of the turn, and a producer that
        # consumes as well learns first that its message is stored.
        self.answer(self.receipts())
        if appender.deduplicating.watching:
            appender.copies.on_durable(self)
        if appender.transactional:
            appender.transactions.on_durable()
        messages = counts[0] if len(counts) == 1 else sum(counts)
        # What the broker added is not counted: clients compare these with what they have sent.
        size = self.size - self.added
        appender.messages_in += messages
        appender.bytes_in += size
        producer.messages_in += messages
        producer.bytes_in += size
        if self.chunked:
            chunks = len(chunks_among(payloads))
            appender.traffic.chunked = True
            appender.chunks_in += chunks
            producer.chunks_in += chunks
        appender.last_ms = appender.traffic.now_ms()
        writes = appender.writes
        if writes is None:
            writes = appender.writes = WriteCounts(appender.log.engine.write_time)
        # With what the broker added: this is about the disk.
        writes.count(len(counts), self.size)
        appender.wake()

    def receipts(self) -> bytes:
        """Return a receipt for every entry, at consecutive positions."""
        ids, producer = self.sequence_ids, self.producer
        if len(ids) == 1:
            return producer.receipts.one(ids[0], self.highest_ids[0], self.ledger, self.first_entry)
        return encode_receipts(producer.id, ids, self.highest_ids, self.ledger, self.first_entry)

    def answer(self, receipts: bytes) -> None:
        """Send the receipts of the whole run; none (b"") if it was not stored.  Call it once.

        A closed producer gets none, but its entries are no longer pending.
        """
        producer = self.producer
        if receipts and not producer.closed:
            producer.send(receipts)
        entries = len(self.payloads)
        # Also if the run failed, or its producer has left: the limits are of the connection.
        producer.release_pending(entries, self.size - self.added)
        producer.entries_answered += entries
        if producer.waiting:
            producer.call_waiting()

    def answer_if(self, are_durable: bool) -> None:
        """Answer a run of copies: with receipts if the entries that they repeat are durable."""
        self.answer(self.receipts() if are_durable else b"")


class CopyFilter(Protocol):
    """The part of `Deduplication` that appending needs."""

    state: DeduplicationState

    def sort(self, run: PublishRun) -> Iterable[PublishRun]:
        """Yield the parts of a run that are new; append each before asking for the next one."""

    def on_durable(self, run: PublishRun) -> None:
        """Count a durable run; call it for every run while `state.watching`."""


class Appender(RunSink):
    """Appends runs to a topic's log in the order in which they come.

    Each is answered by its `on_durable`, which uses what is public here.
    """

    __slots__ = (
        "_beginning",
        "_held",
        "bytes_in",
        "chunks_in",
        "copies",
        "deduplicating",
        "delays",
        "ended",
        "failed",
        "last_ms",
        "log",
        "messages_in",
        "rate_limits",
        "traffic",
        "transactional",
        "transactions",
        "wake",
        "writes",
    )

    def __init__(
        self,
        log: Log,
        delays: TopicDelays,
        copies: CopyFilter,
        transactions: TransactionBuffer,
        wake: Callable[[], None],
        failed: Callable[[BaseException], None],
        traffic: Traffic,
    ) -> None:
        self.log = log
        self.delays = delays
        self.copies = copies
        self.deduplicating = copies.state
        self.transactions = transactions
        self.transactional = transactions.on
        """Whether the topic has seen transactions, or is about to."""
        self.wake = wake
        """Called when there is something new to deliver."""
        self.failed = failed
        """Called for each run that was not stored, because the log failed."""
        self.traffic = traffic
        self.writes: WriteCounts | None = None
        """Counts of writes; None before the first message: very many topics may have none."""
        self._beginning: list[Promise] = []
        """Promises that are settled when no run waits for the first segment any more."""
        self._held: list[PublishRun] | None = []
        """Runs that wait until the log has a segment; None once it has one."""
        self.ended = log.terminated
        """Whether runs are dropped: the topic is terminated, or its termination is under way."""
        self.rate_limits: tuple[RateLimit, ...] = ()
        """The limits of publishing that are in effect."""
        self.messages_in = 0
        """The number of messages published since the load, copies excluded."""
        self.bytes_in = self.chunks_in = 0
        self.last_ms = 0
        """The time at which the last message was published; 0 if none was since the load."""

    def append(self, run: PublishRun) -> None:
        """Take a run; it is answered when it is durable, or has failed."""
        # Nearly no topic has one.
        if self.rate_limits:
            throttle(run.producer.connection, sum(run.counts), run.size, self.rate_limits)
        if run.txn is not None and not self.transactional and self._held is None:
            # The topic's first transaction: later runs must not overtake the run, which waits.
            self._held = []
        if self._held is not None:
            self._hold(run)
        elif self.deduplicating.on:
            self._append_new(run)
        else:
            self._append(run)

    def _append_new(self, run: PublishRun) -> None:
        """Append a run; while deduplication is on, without the copies of entries that it has."""
        for part in self.copies.sort(run) if self.deduplicating.on else (run,):
            self._append(part)

    def _append(self, run: PublishRun) -> None:
        run.appender = self
        try:
            self.log.append(run)
        except StorageError as error:
            # Rejected at once, so that the log does not report it.
            run.on_durable(error)
            return
        if run.txn is not None:
            # promise: the buffer learns of messages in transactions
            self.transactions.appended(run, run.txn)

    def refusal(self, txn: TxnId) -> str:
        return self.transactions.refusal(txn)

    def end(self) -> None:
        """Append nothing more: answer runs that wait, and later ones, without receipts."""
        self.ended = True
        for run in self._take_held():
            run.answer(b"")

    # Until the log has a segment -----------------------------------------------------------

    def _hold(self, run: PublishRun) -> None:
        """Hold a run and create the log's first segment, so that idle topics cost no files.

        The first one in a transaction has that stored, so that every load looks for transactions.
        """
        if self.ended:
            run.answer(b"")
        elif self._held:
            # Behind those that came first, whatever it is: a producer's order is kept.
            self._held.append(run)
        elif self.log.is_writing and (run.txn is None or self.transactional):
            self._held = None
            self._append_new(run)
        else:
            self._held = [run]
            self.log.engine.tasks.spawn(self._begin())

    async def _begin(self) -> None:
        """Create the log's first segment, then append the waiting runs."""
        error = await start_writing(self.log)
        # Again after each wait: a run of the first transaction may have come meanwhile.
        while error is None and not self.transactional and self._awaits_transactions():
            # promise: the first transaction of a topic is stored before its messages
            error = await self.transactions.begin()
            self.transactional = error is None
        if error is None:
            held, self._held = self._held, [] if self.ended else None
            for run in held or ():
                self._append_new(run)
        else:
            for run in self._take_held():
                run.appender = self
                run.on_durable(error)
        beginning, self._beginning = self._beginning, []
        for begun in beginning:
            if not begun.done():
                begun.set_result(None)
        # Opened for these runs only, and useless now: the next producer opens it again.
        if error is not None and not self.log.terminated:
            await self.log.close()

    def _awaits_transactions(self) -> bool:
        return any(run.txn is not None for run in self._held or ())

    async def begun(self) -> None:
        """Wait until no run waits for the first segment: deduplication has seen all runs then."""
        if self._held:
            begun = self.log.engine.clock.promise()
            self._beginning.append(begun)
            await begun

    def _take_held(self) -> list[PublishRun]:
        held, self._held = self._held, []
        return held or []
