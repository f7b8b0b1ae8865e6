"""The job that `bench.spark` measures: prints the seconds of each of its reads as JSON.

python bench/spark_read_job.py SERVICE_URL TOPIC ROWS ROUNDS
"""

import json
import sys
import time

from pyspark.sql import SparkSession

TASKS = 2


def read(spark: SparkSession, service_url: str, topic: str, rows: int, metadata: str) -> float:
    """The seconds that it takes to read all rows, with these metadata columns."""
    began = time.perf_counter()
    found = (
        spark.read.format("pulsar")
        .options(**{"service.url": service_url, "topic": topic, "metadata": metadata})
        .option("minPartitions", TASKS)
        .load()
    )
    found.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    if (count := found.count()) != rows:
        raise SystemExit(f"{count} rows of {rows} were read")
    return took


def main() -> None:
    service_url, topic = sys.argv[1:3]
    rows, rounds = map(int, sys.argv[3:])
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    seconds: dict[str, list[float]] = {"none": [], "all": []}
    # Turns, so that both meet what else the machine does; the first starts the workers.
    for number in range(rounds + 1):
        for metadata, taken in seconds.items():
            took = read(spark, service_url, topic, rows, metadata)
            if number:
                taken.append(took)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
