"""A Spark source that reads one record batch, and hands it over again and again.

What a job takes with it is Spark's own part of a read: from record batches to rows in the JVM.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_magnetar import DefaultSource
from pyspark_magnetar.reader import BatchReader


class OneBatchSource(DefaultSource):
    """Magnetar's source with two options more: `rows` in all, which `tasks` hand over."""

    def __init__(self, options: dict[str, str]) -> None:
        own = dict(options)
        self._rows, self._tasks = int(own.pop("rows")), int(own.pop("tasks"))
        super().__init__(own)

    @classmethod
    def name(cls) -> str:
        return "one-batch"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = super().reader(schema)
        assert isinstance(reader, BatchReader)
        return OneBatchReader(reader, self._rows, self._tasks)


@dataclass
class Repeated(InputPartition):
    """What one task hands over."""

    split: InputPartition
    """Where the record batch is read."""
    rows: int


class OneBatchReader(DataSourceReader):
    """Each task reads the first record batch of the same split."""

    def __init__(self, reader: BatchReader, rows: int, tasks: int) -> None:
        self._reader = reader
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        split = self._reader.partitions()[0]
        share, rest = divmod(self._rows, self._tasks)
        return [Repeated(split, share + (task < rest)) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Repeated)
        batch = next(self._reader.read(partition.split))
        left = partition.rows
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows
