"""Clicks by page and minute: an aggregation over event time, with a watermark for late clicks.

Reads JSON such as {"page": "/", "user": "ann"} with an event time from `clicks`, and writes one
message for each page and minute to `clicks-per-minute`, once the watermark has passed the minute.
"""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, from_json, window
from pyspark.sql.streaming.query import StreamingQuery

CLICKS, COUNTS = "clicks", "clicks-per-minute"


def start(spark: SparkSession, service_url: str, checkpoint: str, **trigger: Any) -> StreamingQuery:
    """Begin to count; `availableNow=True` stops when all there is has been counted."""
    clicks = (
        spark.readStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", CLICKS)
        .option("startingOffsets", "earliest")
        .load()
        .select(
            from_json(col("value").cast("string"), "page STRING, user STRING").alias("click"),
            col("__eventTime").alias("at"),
        )
    )
    counts = (
        clicks.withWatermark("at", "5 minutes")
        .groupBy(window("at", "1 minute"), "click.page")
        .agg(count("*").alias("clicks"))
    )
    return (
        counts.select(
            col("page"),
            col("window.start").alias("minute"),
            col("clicks"),
            col("page").alias("__key"),
            col("window.end").alias("__eventTime"),
        )
        .writeStream.format("pulsar")
        .outputMode("append")
        .option("service.url", service_url)
        .option("topic", COUNTS)
        .option("valueFormat", "json")
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("windowed-counts").getOrCreate()
    url = os.environ.get("SERVICE_URL", "pulsar://localhost:6650")
    query = start(session, url, "checkpoints/windowed-counts", processingTime="10 seconds")
    query.awaitTermination()
