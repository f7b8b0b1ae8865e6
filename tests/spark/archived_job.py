"""Writes and reads rows, and asks each executor which Python its workers run.

spark-submit archived_job.py SERVICE_URL TOPIC ROWS

It prints JSON: the values read; for each executor its directory, the command and the directory of
each of its Pythons, and the paths of Python and of the connector in one of its workers.
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


@udf
def whereabouts(_: bytes) -> str:
    import psutil

    import pyspark_magnetar

    # A worker is a fork of a daemon, which the executor has started: one for each Python.
    executor = psutil.Process(os.getppid()).parent()
    assert executor is not None
    pythons = sorted((child.cmdline()[0], child.cwd()) for child in executor.children())
    return json.dumps([executor.cwd(), pythons, sys.executable, pyspark_magnetar.__file__])


def main() -> None:
    service_url, topic, rows = sys.argv[1:4]
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    broker = {"service.url": service_url, "topic": topic}
    written = spark.range(0, int(rows), 1, 4).selectExpr("CAST(id AS STRING) AS value")
    written.write.format("pulsar").mode("append").options(**broker).save()
    read = spark.read.format("pulsar").options(**broker, minPartitions="4").load()
    found = [
        (bytes(value).decode(), place)
        for value, place in read.select("value", whereabouts("value")).collect()
    ]
    values = [value for value, _ in found]
    executors = [json.loads(place) for place in {place for _, place in found}]
    print(json.dumps({"values": values, "executors": executors}))
    spark.stop()


if __name__ == "__main__":
    main()
