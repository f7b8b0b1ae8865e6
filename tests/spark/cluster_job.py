"""Writes, copies and reads rows on a cluster of two executors, each a process with its own workers.

python cluster_job.py SERVICE_URL TOPIC CHECKPOINT ROWS

Executors are started from SPARK_HOME, which must be set.
It prints JSON: the values of the copy, and how many executors there were.
"""

import json
import os
import sys

from pyspark.sql import SparkSession


def main() -> None:
    service_url, topic, checkpoint, rows = sys.argv[1:5]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    broker = {"service.url": service_url}
    copy = f"{topic}-copy"
    values = spark.range(0, int(rows), 1, 4).selectExpr("CAST(id AS STRING) AS value")
    values.write.format("pulsar").mode("append").options(**broker, topic=topic).save()
    (
        spark.readStream.format("pulsar")
        .options(**broker, topic=topic, startingOffsets="earliest", minPartitions="4")
        .load()
        .select("value")
        .writeStream.format("pulsar")
        .options(**broker, topic=copy, exactlyOnce="transaction")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    copied = spark.read.format("pulsar").options(**broker, topic=copy, minPartitions="4").load()
    found = [bytes(row.value).decode() for row in copied.select("value").collect()]
    java = spark.sparkContext._jsc
    assert java is not None
    executors = java.sc().statusTracker().getExecutorInfos()
    print(json.dumps({"values": found, "executors": len(executors) - 1}))  # one is the driver
    spark.stop()


if __name__ == "__main__":
    main()
