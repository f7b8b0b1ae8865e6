"""Writes and reads rows, and asks each executor which Python its workers run.

spark-submit archived_job.py SERVICE_URL TOPIC ROWS

It prints JSON: the values read, and what each row's worker found: the directory of its executor,
the command and the directory of each Python that the executor had started by then, and the paths
of Python and of the connector in the worker. The executor starts its Pythons one after another,
so its workers need not find the same ones.
"""

import contextlib
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
    pythons = set()
    for child in executor.children():
        # The JVM starts each command through a process of its own, which is gone at once.
        with contextlib.suppress(psutil.NoSuchProcess):
            if os.path.basename(child.exe()).startswith("python"):
                pythons.add((child.cmdline()[0], child.cwd()))
    return json.dumps([executor.cwd(), sorted(pythons), sys.executable, pyspark_magnetar.__file__])


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
    places = [json.loads(place) for place in {place for _, place in found}]
    print(json.dumps({"values": values, "places": places}))
    spark.stop()


if __name__ == "__main__":
    main()
