"""A streaming query that copies topics into files exactly once, until it is killed.

python copying_job.py SERVICE_URL TOPIC FOLDER SEED [RESULT]

It prints a line for each micro-batch.  With RESULT it copies what is there and ends, and writes the
values of all files to RESULT, one a line.  SEED decides about the sizes of micro-batches and tasks.
"""

import os
import random
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

MOST_ROWS = 600
"""Of a micro-batch."""
LOOK_S = 0.1
"""How often it looks whether a micro-batch is finished."""


def main() -> None:
    service_url, topic, folder, seed = sys.argv[1:5]
    result = sys.argv[5] if len(sys.argv) > 5 else ""
    choice = random.Random(seed)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", topic)
        .option("startingOffsets", "earliest")
        .option("subscription", "copying")
        .option("pollIntervalMs", "50")
        .option("partitionDiscoveryInterval", "200")
        .option("maxOffsetsPerTrigger", choice.randint(100, MOST_ROWS))
        .option("maxRecordsPerPartition", choice.randint(50, 300))
        .load()
    )
    values = rows.select(col("value").cast("string"))
    files = f"{folder}/files"
    writing = values.writeStream.format("text").option("checkpointLocation", f"{folder}/checkpoint")
    if not result:
        follow(writing.start(files))
        return
    writing.trigger(availableNow=True).start(files).awaitTermination()
    copied = [row.value for row in spark.read.text(files).collect()]
    Path(result).write_text("".join(f"{value}\n" for value in copied))


def follow(query: StreamingQuery) -> None:
    """Print a line for each micro-batch that had rows."""
    printed = -1
    while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # any number
        for progress in query.recentProgress:
            if progress["batchId"] > printed and progress["numInputRows"]:
                printed = progress["batchId"]
                print("batch", printed, flush=True)


if __name__ == "__main__":
    main()
