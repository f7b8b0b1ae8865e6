"""The sink: every row becomes a message, and a task is done when the broker stored all of its."""

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
from pyspark_magnetar.sink.numbering import numbering_of
from pyspark_magnetar.sink.task import Task
from pyspark_magnetar.sink.values import form_of
from pyspark_magnetar.write_options import DEDUP, WriteOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote: by topic or partition how many messages, and the id of the last one."""

    topics: dict[str, tuple[int, tuple[int, int] | None]]


class _Writer:
    """At least once: a task that is run again sends its rows again, unless they are numbered."""

    is_streaming: bool

    def __init__(self, options: WriteOptions, schema: "StructType") -> None:
        self._options = options
        self._schema = SinkSchema.of(schema)
        form_of(list(self._schema.values), options.form)  # refuses on the driver what has no form
        require_topic(options, self._schema)
        if options.exactly_once == DEDUP and not self.is_streaming:
            require_job_id(options)

    def write(self, iterator: Iterator["RecordBatch"]) -> Written:
        options = self._options
        numbering = None
        if options.exactly_once == DEDUP:
            numbering = numbering_of(options.name_prefix, options.job_id, self.is_streaming)
        context = TaskContext.get()
        turn = 0 if context is None else context.partitionId()
        task = Task(options, self._schema, bridge_to(options.connecting), turn, numbering)
        try:
            for rows in iterator:
                task.add(rows)
            return Written(task.finish())
        except BaseException:
            task.abandon()
            raise


class BatchWriter(_Writer, DataSourceArrowWriter):
    """For `df.write`."""

    is_streaming = False

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: what the tasks wrote is stored already."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what was written stays, as in any at-least-once sink."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """For `df.writeStream`."""

    is_streaming = True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: what the tasks wrote is stored already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo: with numbered rows the next attempt goes on behind what is stored."""


def require_append(overwrite: bool) -> None:
    """ValueError for a mode that would have to delete messages."""
    if overwrite:
        raise ValueError('messages cannot be overwritten: use .mode("append")')


def require_topic(options: WriteOptions, schema: SinkSchema) -> None:
    """ValueError unless it is known where rows go."""
    if options.topic is None and TOPIC not in schema.taken:
        raise ValueError(f"option 'topic' is missing, and there is no column {TOPIC!r} either")


def require_job_id(options: WriteOptions) -> None:
    """ValueError unless a batch job that writes once can be recognized when it is run again."""
    if options.job_id is None:
        raise ValueError(
            "exactlyOnce=dedup needs the option 'jobId' in a batch job: a name of the job that is "
            "the same when it is run again"
        )
