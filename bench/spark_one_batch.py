"""A Spark source that reads one record batch, and hands it over again and again.

What a job takes with it is Spark's own part of a read: from record batches to rows in the JVM.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_magnetar import DefaultSource
from pyspark_magnetar.reader import BatchReader


class OneBatchSource(DefaultSource):
    """Magnetar's source with one option more: `rows`, how many each task hands over."""

    def __init__(self, options: dict[str, str]) -> None:
        own = dict(options)
        self._rows = int(own.pop("rows"))
        super().__init__(own)

    @classmethod
    def name(cls) -> str:
        return "one-batch"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = super().reader(schema)
        assert isinstance(reader, BatchReader)
        return OneBatchReader(reader, self._rows)


class OneBatchReader(DataSourceReader):
    """Reads the first record batch of each split."""

    def __init__(self, reader: BatchReader, rows: int) -> None:
        self._reader = reader
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return list(self._reader.partitions())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = next(self._reader.read(partition))
        left = self._rows
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows
