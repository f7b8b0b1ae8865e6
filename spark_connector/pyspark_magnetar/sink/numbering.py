"""Names and numbers that are the same in each run of a task, as deduplication requires.

The broker keeps the highest sequence id of each producer name, for each topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import TaskContext

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""The local property by which Spark tells a task its micro-batch."""
ROW_BITS = 32
MAX_ROWS = 1 << ROW_BITS
MAX_BATCHES = 1 << 31


@dataclass(frozen=True, slots=True)
class Work:
    """The identity of a task's work, which is equal in all of its attempts."""

    owner: str
    """The id of the query or of the job."""
    batch: int
    """The number of the micro-batch; 0 for a job."""
    partition: int
    """The number of the partition whose rows the task writes."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbering of a task's rows, which is equal in all of its attempts."""

    producer_name: str
    first_id: int
    """The sequence id of the task's first row."""

    def ids_of(self, rows: Sequence[int]) -> Sequence[int]:
        """Return the sequence ids of rows, counted from 0 in Spark's order."""
        if rows[-1] >= MAX_ROWS:
            raise ValueError(
                f"a task with more than {MAX_ROWS} rows cannot be numbered for exactlyOnce=dedup: "
                "repartition into more tasks"
            )
        if isinstance(rows, range):
            return range(self.first_id + rows.start, self.first_id + rows.stop)
        return [self.first_id + row for row in rows]


def work_of(job_id: str | None, is_streaming: bool) -> Work:
    """Return the work of the running task; ValueError if this Spark does not report it."""
    context = TaskContext.get()
    if context is None:
        raise ValueError("exactlyOnce works in the tasks of Spark only")
    if not is_streaming:
        assert job_id is not None  # the driver has refused it otherwise
        return Work(job_id, 0, context.partitionId())
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if not query or not batch or not batch.isdecimal() or int(batch) >= MAX_BATCHES:
        raise ValueError(
            f"exactlyOnce needs the task properties {QUERY_ID} and {BATCH_ID}, and this Spark has "
            f"{query!r} and {batch!r}: use exactlyOnce=none"
        )
    return Work(query, int(batch), context.partitionId())


def numbering_of(prefix: str, work: Work) -> Numbering:
    """Return the numbering of a task; the producer names begin with `prefix`."""
    return Numbering(f"{prefix}-{work.owner}-{work.partition}", work.batch << ROW_BITS)
