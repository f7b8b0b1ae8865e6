"""The job that `bench.spark` measures: prints the seconds of each of its writes as JSON.

python bench/spark_job.py SERVICE_URL TOPIC ROWS BYTES ROUNDS
"""

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession

VALUE = "CAST(lpad(CAST(id AS STRING), {size}, 'x') AS BINARY) AS value"
ALL = (
    VALUE,
    "concat('key ', id % 1000) AS __key",
    "timestamp_millis(1767225600000 + id) AS __eventTime",
    "map('number', CAST(id % 100 AS STRING)) AS __messageProperties",
)


def write(rows: DataFrame, service_url: str, topic: str, **options: str) -> float:
    """The seconds that it takes to write all rows."""
    began = time.perf_counter()
    (
        rows.write.format("pulsar")
        .mode("append")
        .options(**{"service.url": service_url, "topic": topic}, **options)
        .save()
    )
    return time.perf_counter() - began


def main() -> None:
    service_url, topic = sys.argv[1:3]
    count, size, rounds = map(int, sys.argv[3:])
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    numbers = spark.range(0, count, 1, 2)
    value = numbers.selectExpr(VALUE.format(size=size))
    everything = numbers.selectExpr(*(column.format(size=size) for column in ALL))
    seconds: dict[str, list[float]] = {"value": [], "all": [], "dedup": [], "txn": []}
    # Turns, so that all meet what else the machine does; the first starts the workers.
    for number in range(rounds + 1):
        job = {"jobId": f"{topic}-{number}"}
        once, transacted = {"exactlyOnce": "dedup", **job}, {"exactlyOnce": "transaction", **job}
        took = {
            "value": write(value, service_url, f"{topic}-value"),
            "all": write(everything, service_url, f"{topic}-all"),
            "dedup": write(value, service_url, f"{topic}-dedup", **once),
            "txn": write(value, service_url, f"{topic}-txn", **transacted),
        }
        if number:
            for name, one in took.items():
                seconds[name].append(one)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
