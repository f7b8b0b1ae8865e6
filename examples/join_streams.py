"""Orders with their payments: two streams, joined where the payment comes within an hour.

Reads JSON from `orders` and `payments`, both with event times, and writes what was paid to
`paid-orders`.  Watermarks on both sides let Spark forget an order that was not paid in time.
"""

import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json
from pyspark.sql.streaming.query import StreamingQuery

ORDERS, PAYMENTS, PAID = "orders", "payments", "paid-orders"


def stream(spark: SparkSession, service_url: str, topic: str, fields: str, time: str) -> DataFrame:
    """The JSON messages of a topic as columns, with their event time."""
    return (
        spark.readStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(from_json(col("value").cast("string"), fields).alias("v"), "__eventTime")
        .select("v.*", col("__eventTime").alias(time))
        .withWatermark(time, "10 minutes")
    )


def start(spark: SparkSession, service_url: str, checkpoint: str, **trigger: Any) -> StreamingQuery:
    """Begin to join; `availableNow=True` stops when all there is has been joined."""
    orders = stream(spark, service_url, ORDERS, "id LONG, customer STRING", "ordered")
    payments = stream(spark, service_url, PAYMENTS, "order_id LONG, cents LONG", "paid")
    joined = orders.join(
        payments, expr("id = order_id AND paid BETWEEN ordered AND ordered + INTERVAL 1 HOUR")
    )
    return (
        joined.select(
            "id",
            "customer",
            "cents",
            col("customer").alias("__key"),
            col("paid").alias("__eventTime"),
        )
        .writeStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", PAID)
        .option("valueFormat", "json")
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("join-streams").getOrCreate()
    url = os.environ.get("SERVICE_URL", "pulsar://localhost:6650")
    query = start(session, url, "checkpoints/join-streams", processingTime="10 seconds")
    query.awaitTermination()
