"""Changes of customers, applied to a table: the last one of each key counts, a null deletes.

Reads `customer-changes`, whose keys are customers and whose values are JSON, and keeps the table
`customers` of a SQLite database.  The number of the batch is stored in the same transaction, so
that a batch that Spark runs again is applied once.
"""

import os
import sqlite3
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import col, row_number
from pyspark.sql.streaming.query import StreamingQuery

CHANGES = "customer-changes"
SCHEMA = """
CREATE TABLE IF NOT EXISTS customers (id TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS applied (query TEXT PRIMARY KEY, batch INTEGER NOT NULL);
"""


def apply(changes: DataFrame, batch: int, database: str) -> None:
    """Apply the changes of one batch, unless that has been done."""
    newest = Window.partitionBy("__key").orderBy(
        *(col(name).desc() for name in ("__ledger", "__entry", "__batchIndex"))
    )
    last = changes.withColumn("place", row_number().over(newest)).where("place = 1")
    rows = last.select(col("__key").cast("string"), col("value").cast("string")).collect()
    with sqlite3.connect(database) as table:
        table.executescript(SCHEMA)
        done = table.execute("SELECT batch FROM applied WHERE query = 'customers'").fetchone()
        if done is not None and done[0] >= batch:
            return
        table.executemany(
            "DELETE FROM customers WHERE id = ?", [(key,) for key, data in rows if data is None]
        )
        table.executemany(
            "INSERT OR REPLACE INTO customers VALUES (?, ?)",
            [(key, data) for key, data in rows if data is not None],
        )
        table.execute("INSERT OR REPLACE INTO applied VALUES ('customers', ?)", [batch])
    table.close()


def start(
    spark: SparkSession, service_url: str, checkpoint: str, database: str, **trigger: Any
) -> StreamingQuery:
    """Begin to apply; `availableNow=True` stops when all there is has been applied."""
    changes = (
        spark.readStream.format("pulsar")
        .option("service.url", service_url)
        .option("topic", CHANGES)
        .option("metadata", "__key,__ledger,__entry,__batchIndex")
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        changes.writeStream.foreachBatch(lambda rows, batch: apply(rows, batch, database))
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("change-capture").getOrCreate()
    url = os.environ.get("SERVICE_URL", "pulsar://localhost:6650")
    query = start(
        session, url, "checkpoints/change-capture", "customers.db", processingTime="10 seconds"
    )
    query.awaitTermination()
