"""The sink: every row becomes a message; a task ends when the broker has stored its messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.sink.columns import TOPIC, SinkSchema
from pyspark_magnetar.sink.committing import Committing, TaskResult, abort_all
from pyspark_magnetar.sink.numbering import numbering_of, work_of
from pyspark_magnetar.sink.task import Task
from pyspark_magnetar.sink.transaction_log import TransactionLog, log_of, owner_of
from pyspark_magnetar.sink.values import form_of
from pyspark_magnetar.sink.write_options import DEDUP, NONE, TRANSACTION, WriteOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


@dataclass
class Written(WriterCommitMessage):
    """The result of a task: number of messages and last id, by topic or partition."""

    topics: dict[str, tuple[int, tuple[int, int] | None]]
    owner: str = ""
    """The query or job, with exactlyOnce=transaction."""
    result: TaskResult | None = None
    """The transaction for the driver to commit, with exactlyOnce=transaction."""


class _Writer:
    """A writer that delivers at least once: a repeated task sends its rows again, unless they are
    numbered, or in a transaction of each attempt."""

    is_streaming: bool

    def __init__(self, options: WriteOptions, schema: "StructType") -> None:
        self._options = options
        self._schema = SinkSchema.of(schema)
        form_of(list(self._schema.values), options.form)  # refuses unsupported columns early
        require_topic(options, self._schema)
        if options.exactly_once != NONE and not self.is_streaming:
            require_job_id(options)

    def write(self, iterator: Iterator["RecordBatch"]) -> Written:
        options = self._options
        mode = options.exactly_once
        bridge = bridge_to(options.connecting)
        work = None if mode == NONE else work_of(options.job_id, self.is_streaming)
        numbering = numbering_of(options.name_prefix, work) if work and mode == DEDUP else None
        is_transacted = mode == TRANSACTION
        txn = bridge.client.transaction(options.txn_timeout_s) if is_transacted else None
        context = TaskContext.get()
        turn = 0 if context is None else context.partitionId()
        task = Task(options, self._schema, bridge, turn, numbering, txn)
        try:
            for rows in iterator:
                task.add(rows)
            topics = task.finish()
            if work is None or txn is None:
                return Written(topics)
            result = TaskResult(work.partition, task.rows, task.hand_over())
            return Written(topics, work.owner, result)
        except BaseException:
            task.abandon()
            raise

    def _commit(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        """Commit transactions, if any; without them everything is stored already."""
        written, results = _results(messages)
        if not results:
            return
        options = self._options
        bridge = bridge_to(options.connecting)
        owner, topic = owner_of(options, written), log_of(options, written)
        has_rows = any(one.txn is not None for one in results)

        async def commit() -> None:
            # Without rows there may be a log nevertheless, which says that the batch had some.
            if not has_rows and not await bridge.client.exists(topic):
                return
            async with TransactionLog(bridge.client, topic, owner, options.name_timeout_s) as log:
                await Committing(log, owner, batch, results).run()

        bridge.run(commit())

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort transactions, if any; without them stored messages stay."""
        _, results = _results(messages)
        if results:
            bridge = bridge_to(self._options.connecting)
            bridge.run(abort_all(bridge.client, results))


def _results(messages: list[WriterCommitMessage | None]) -> tuple[str, list[TaskResult]]:
    """Return the owner and the results of the successful tasks."""
    written = [one for one in messages if isinstance(one, Written) and one.result is not None]
    owner = written[0].owner if written else ""
    return owner, [one.result for one in written if one.result is not None]


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer for `df.write`."""

    is_streaming = False

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer for `df.writeStream`."""

    is_streaming = True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


def require_append(overwrite: bool) -> None:
    """Raise ValueError for a mode that would require deleting messages."""
    if overwrite:
        raise ValueError('messages cannot be overwritten: use .mode("append")')


def require_topic(options: WriteOptions, schema: SinkSchema) -> None:
    """Raise ValueError unless the topic of the rows is known."""
    if options.topic is None and TOPIC not in schema.taken:
        raise ValueError(f"option 'topic' is missing, and there is no column {TOPIC!r} either")


def require_job_id(options: WriteOptions) -> None:
    """Raise ValueError unless a repeated run of a batch job that writes once can be recognized."""
    if options.job_id is None:
        raise ValueError(
            f"exactlyOnce={options.exactly_once} needs the option 'jobId' in a batch job: a name "
            "of the job that is the same when it is run again"
        )
