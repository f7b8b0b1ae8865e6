"""The job that `bench.spark` watches: small micro-batches, and then a query that finds nothing.

python -m bench.spark_idle_job FORMAT PORT TOPIC BATCHES

Reads a topic of so many messages, one a micro-batch; prints the milliseconds of each phase of each
as JSON, and runs on, idle, until its standard input ends.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bench.spark_connectors import CONNECTORS, MAGNETAR
from pyspark_magnetar.read_options import ReadOptions
from pyspark_magnetar.reader import StreamReader
from pyspark_magnetar.source import DefaultSource

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

TIMED = "timed"
TIMES = "bench.times"
"""The option for the file to which tasks append how long they read, in milliseconds."""


class TimedReader(StreamReader):
    """Magnetar's source; its tasks tell how long they took from the first call to the last row."""

    def __init__(self, options: ReadOptions, times: str) -> None:
        super().__init__(options)
        self._arguments = options, times

    def __reduce__(self) -> Any:
        return TimedReader, self._arguments

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        began = time.perf_counter()
        yield from super().read(partition)
        took_ms = (time.perf_counter() - began) * 1000
        with Path(self._arguments[1]).open("a") as file:
            file.write(f"{took_ms}\n")


class TimedSource(DefaultSource):
    """`format("timed")`."""

    @classmethod
    def name(cls) -> str:
        return TIMED

    def __init__(self, options: dict[str, str]) -> None:
        self._times = options[TIMES]
        super().__init__({name: value for name, value in options.items() if name != TIMES})

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        return TimedReader(ReadOptions.parse(self.options, is_streaming=True), self._times)


def main() -> None:
    connector, topic = CONNECTORS[sys.argv[1]], sys.argv[3]
    port, batches = int(sys.argv[2]), int(sys.argv[4])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", 2 * batches)
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as temporary:
        times = Path(temporary, "times")
        options = {**connector.source(port, topic), "maxOffsetsPerTrigger": "1"}
        source = connector.format
        if connector is MAGNETAR:
            spark.dataSource.register(TimedSource)
            source, options = TIMED, {**options, TIMES: str(times)}
        query = (
            spark.readStream.format(source)
            .options(**options)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(Path(temporary, "checkpoint")))
            .start()
        )
        query.processAllAvailable()
        done = [progress for progress in query.recentProgress if progress.numInputRows]
        if len(done) != batches:
            raise SystemExit(f"{len(done)} micro-batches had messages, of {batches}")
        phases = [dict(progress.durationMs) for progress in done]
        read = [float(line) for line in times.read_text().split()] if times.exists() else []
        print(json.dumps({"phases": phases, "read": read}), flush=True)
        sys.stdin.read()
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
