"""A streaming query that numbers rows and writes each exactly once, until it is killed.

python counting_job.py SERVICE_URL TOPIC CHECKPOINT MODE SEED [BATCHES]

MODE is that of exactlyOnce; with transaction the rows come from a shuffle.  Every task that writes
fails once in its middle.  SEED decides about the sizes of batches, which are others after each
restart; and at each attempt of a task they have other rows, because its number is in the value.
"""

import os
import random
import sys

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

ROWS = 4000
"""Of a micro-batch, in two tasks."""
FAILING_ROW = 1501
"""Behind what was written before a task fails."""
SHUFFLED = 4
"""Partitions behind a shuffle."""


def number(value: int) -> str:
    context = TaskContext.get()
    assert context is not None
    if value % ROWS in (FAILING_ROW, FAILING_ROW + 1) and context.attemptNumber() == 0:
        raise ArithmeticError("a failure of a task, as the test wants it")
    return f"row {value}{' ' * 30 * context.attemptNumber()}"


def numbered(rows: DataFrame, mode: str) -> DataFrame:
    if mode == "transaction":
        rows = rows.repartition(SHUFFLED, col("value"))
    return rows.select(udf(number)(col("value")).alias("value"))


def main() -> None:
    service_url, topic, checkpoint, mode, seed = sys.argv[1:6]
    batches = int(sys.argv[6]) if len(sys.argv) > 6 else None
    # Readers wait so long for what a killed task has left.  Runs that are killed may fail by it;
    # the last one may not, however slow the machine is.
    timeout = "10s" if batches is None else "2min"
    choice = random.Random(seed)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        # Otherwise rows before the failing one are in buffers still, and nothing of them is sent.
        .config("spark.buffer.size", "1024")
        .config("spark.sql.execution.arrow.maxBytesPerBatch", str(choice.randint(2000, 8000)))
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .load()
    )
    query = (
        numbered(rows, mode)
        .writeStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", topic)
        .option("exactlyOnce", mode)
        .options(**({"transactionLogTopic": f"{topic}-log"} if mode == "transaction" else {}))
        .option("transactionTimeout", timeout)
        .option("pulsar.producer.batchingMaxBytes", choice.randint(500, 10_000))
        .option("checkpointLocation", checkpoint)
        .start()
    )
    while not query.awaitTermination(1):
        progress = query.lastProgress
        if batches is not None and progress is not None and progress["batchId"] >= batches:
            query.stop()
            return


if __name__ == "__main__":
    main()
