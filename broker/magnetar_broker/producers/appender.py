"""The way of published entries into the log: from a producer's run to its receipts.

Read it from `Appender.append` (called by `Producer.publish`) to `Appender.run_stored` (called by
the log when the run is durable).  This module is compiled: its coroutine handles no exceptions.
"""

from collections.abc import Callable

from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.dispatch.topic_delays import TopicDelays
from magnetar_broker.producers.deduplication import Deduplication
from magnetar_broker.producers.first_segment import start_writing
from magnetar_broker.producers.producer import Producer, PublishRun, RunSink
from magnetar_broker.producers.transaction_buffer import TransactionBuffer
from magnetar_broker.producers.write_counts import WriteCounts
from magnetar_broker.throttling.publish_throttle import throttle
from magnetar_broker.throttling.rate_limit import RateLimit
from magnetar_proto.chunks import chunks_among
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log
from magnetar_storage.runtime.execution import Promise


class Appender(RunSink):
    """Appends runs in the order in which they come, and answers them when they are durable."""

    __slots__ = (
        "_beginning",
        "_deduplicating",
        "_deduplication",
        "_delays",
        "_failed",
        "_held",
        "_log",
        "_traffic",
        "_transactions",
        "_wake",
        "bytes_in",
        "chunks_in",
        "ended",
        "last_ms",
        "messages_in",
        "rate_limits",
        "transactional",
        "writes",
    )

    def __init__(
        self,
        log: Log,
        delays: TopicDelays,
        deduplication: Deduplication,
        transactions: TransactionBuffer,
        wake: Callable[[], None],
        failed: Callable[[BaseException], None],
        traffic: Traffic,
    ) -> None:
        """`wake` is called when there is something new to deliver, `failed` when the log failed."""
        self._log = log
        self._delays = delays
        self._deduplication = deduplication
        self._deduplicating = deduplication.state
        self._transactions = transactions
        self.transactional = transactions.on
        """Whether the topic has seen transactions, or is about to."""
        self._wake = wake
        self._failed = failed
        self._traffic = traffic
        self.writes: WriteCounts | None = None
        """Counts of writes; None before the first message: very many topics may have none."""
        self._beginning: list[Promise] = []
        """Promises that are settled when no run waits for the first segment any more."""
        self._held: list[PublishRun] | None = []
        """Runs that wait until the log has its first segment; None once it has one."""
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
        if self.rate_limits:
            throttle(run.producer.connection, sum(run.counts), run.size, self.rate_limits)
        if run.txn is not None and not self.transactional and self._held is None:
            self._held = []
        if self._held is not None:
            self._hold(run)
        elif self._deduplicating.on:
            self._store_new(run)
        else:
            self._store(run)

    def _store_new(self, run: PublishRun) -> None:
        """Store a run; while deduplication is on, without the copies of stored entries."""
        for part in self._deduplication.sort(run) if self._deduplicating.on else (run,):
            self._store(part)

    def _store(self, run: PublishRun) -> None:
        try:
            self._log.append(run)
        except StorageError as error:
            self.run_stored(run, error)
            return
        if run.txn is not None:
            # promise: the buffer learns of messages in transactions
            self._transactions.appended(run, run.txn)

    def refusal(self, txn: TxnId) -> str:
        return self._transactions.refusal(txn)

    def run_stored(self, run: PublishRun, error: BaseException | None) -> None:
        if error is not None:
            # Send no receipt and no error: the producers are disconnected, and their clients send
            # unanswered messages again once the topic is loaded again.
            self._failed(error)
            run.answer(b"")
            return
        payloads, counts = run.payloads, run.counts
        if run.delayed:  # before anything is delivered: the dispatchers ask which ones wait
            self._delays.note(run.offset, payloads)
        run.answer(run.receipts())
        if self._deduplicating.watching:
            self._deduplication.run_stored(run)
        if self.transactional:
            self._transactions.run_stored()
        messages = counts[0] if len(counts) == 1 else sum(counts)
        size = run.size - run.added
        self.messages_in += messages
        self.bytes_in += size
        producer = run.producer
        producer.messages_in += messages
        producer.bytes_in += size
        if run.chunked:
            self._count_chunks(producer, len(chunks_among(payloads)))
        self.last_ms = self._traffic.now_ms()
        writes = self.writes
        if writes is None:
            writes = self.writes = WriteCounts(self._log.engine.write_time)
        writes.count(len(counts), run.size)
        self._wake()

    def _count_chunks(self, producer: Producer, chunks: int) -> None:
        self._traffic.chunked = True
        self.chunks_in += chunks
        producer.chunks_in += chunks

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
            self._held.append(run)
        elif self._log.is_writing and (run.txn is None or self.transactional):
            self._held = None
            self._store_new(run)
        else:
            self._held = [run]
            self._log.engine.tasks.spawn(self._begin())

    async def _begin(self) -> None:
        """Give the log its segment, then append the runs that wait."""
        error = await start_writing(self._log)
        while error is None and not self.transactional and self._awaits_transactions():
            # promise: the first transaction of a topic is stored before its messages
            error = await self._transactions.begin()
            self.transactional = error is None
        if error is None:
            held, self._held = self._held, [] if self.ended else None
            for run in held or ():
                self._store_new(run)
        else:
            for run in self._take_held():
                self.run_stored(run, error)
        beginning, self._beginning = self._beginning, []
        for begun in beginning:
            if not begun.done():
                begun.set_result(None)
        if error is not None and not self._log.terminated:
            await self._log.close()

    def _awaits_transactions(self) -> bool:
        return any(run.txn is not None for run in self._held or ())

    async def begun(self) -> None:
        """Wait until no run waits for the first segment: deduplication has seen all runs then."""
        if self._held:
            begun = self._log.engine.clock.promise()
            self._beginning.append(begun)
            await begun

    def _take_held(self) -> list[PublishRun]:
        held, self._held = self._held, []
        return held or []
