"""A streaming query that numbers rows and writes each exactly once, until it is killed.

python counting_job.py SERVICE_URL TOPIC CHECKPOINT SEED [BATCHES]

Every task that writes fails once in its middle.  SEED decides about the sizes of batches, which
are others after each restart.
"""

import os
import random
import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

ROWS = 4000
"""Of a micro-batch, in two tasks."""
FAILING_ROW = 1501
"""Behind what was written before a task fails."""


def number(value: int) -> str:
    context = TaskContext.get()
    assert context is not None
    if value % ROWS in (FAILING_ROW, FAILING_ROW + 1) and context.attemptNumber() == 0:
        raise ArithmeticError("a failure of a task, as the test wants it")
    return f"row {value}"


def main() -> None:
    service_url, topic, checkpoint, seed = sys.argv[1:5]
    batches = int(sys.argv[5]) if len(sys.argv) > 5 else None
    choice = random.Random(seed)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(choice.randint(50, 400)))
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .load()
    )
    query = (
        rows.select(udf(number)(col("value")).alias("value"))
        .writeStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", topic)
        .option("exactlyOnce", "dedup")
        .option("pulsar.producer.batchingMaxMessages", choice.randint(20, 300))
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
