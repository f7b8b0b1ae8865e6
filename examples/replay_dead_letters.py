"""Messages of a dead letter topic, sent to the topics that they came from.

python replay_dead_letters.py persistent://public/default/orders-billing-DLQ JOB

Clients that move a message to a dead letter topic note its origin in the property REAL_TOPIC.  JOB
is a name for this replay: where the broker deduplicates, a replay that is run again under its name
sends nothing twice.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr


def replay(spark: SparkSession, service_url: str, letters: str, job: str | None = None) -> None:
    """Send all messages that are in the topic now; `job` needs deduplication on their topics."""
    dead = (
        spark.read.format("pulsar")
        .option("service.url", service_url)
        .option("topic", letters)
        .load()
    )
    again = dead.select(
        "value",
        col("__key").cast("string").alias("__key"),
        "__eventTime",
        expr("map_filter(__messageProperties, (name, text) -> name NOT LIKE '%TOPIC')").alias(
            "__messageProperties"
        ),
        col("__messageProperties")["REAL_TOPIC"].alias("__topic"),
    ).where("__topic IS NOT NULL")
    writing = again.write.format("pulsar").mode("append").option("service.url", service_url)
    if job is not None:
        writing = writing.option("exactlyOnce", "dedup").option("jobId", job)
    writing.save()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("replay-dead-letters").getOrCreate()
    url = os.environ.get("SERVICE_URL", "pulsar://localhost:6650")
    replay(session, url, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
