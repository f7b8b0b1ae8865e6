"""The job that `bench.spark` measures: prints the seconds of each of its runs as JSON.

python -m bench.spark_job read|write URL TOPIC ROWS BYTES
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

ROUNDS = 3
TASKS = 2
FORMAT = "pulsar"
VALUE: Final = "CAST(lpad(CAST(id AS STRING), {size}, 'x') AS BINARY) AS value"


class Kind(NamedTuple):
    """One kind of read or write."""

    columns: tuple[str, ...]
    """Column expressions of a write, in terms of `id`, the row's number, and `{size}`."""
    options: Mapping[str, str] = {}


READS: Final = {
    "value": Kind(("value",), {"metadata": "none"}),
    "all": Kind(("*",), {"metadata": "all"}),
}
WRITES: Final = {
    "value": Kind((VALUE,)),
    "all": Kind(
        (
            VALUE,
            "concat('key ', id % 1000) AS __key",
            "timestamp_millis(1767225600000 + id) AS __eventTime",
            "map('number', CAST(id % 100 AS STRING)) AS __messageProperties",
        )
    ),
    "dedup": Kind((VALUE,), {"exactlyOnce": "dedup"}),
    "txn": Kind((VALUE,), {"exactlyOnce": "transaction"}),
}


def topic_of(topic: str, kind: str) -> str:
    """Return the topic of a kind of write; each kind has its own."""
    return f"{topic}-{kind}"


def read(spark: SparkSession, kind: Kind, options: dict[str, str], expected: int | None) -> float:
    """Read all rows, which the JVM drops; returns the seconds.

    If `expected` is given, a second read counts the rows, and the job fails if they differ.
    """
    more = {"startingOffsets": "earliest", "minPartitions": str(TASKS)}
    began = time.perf_counter()
    found = spark.read.format(FORMAT).options(**options, **kind.options, **more).load()
    found = found.select(*kind.columns)
    found.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    if expected is not None and (count := found.count()) != expected:
        raise SystemExit(f"{count} rows of {expected} were read")
    return took


def write(spark: SparkSession, kind: Kind, options: dict[str, str], rows: int, size: int) -> float:
    """Write rows, which the JVM makes on the same processors; returns the seconds."""
    made = spark.range(0, rows, 1, TASKS).selectExpr(
        *(column.format(size=size) for column in kind.columns)
    )
    job = {"jobId": f"job-{time.time_ns()}"} if kind.options else {}
    began = time.perf_counter()
    made.write.format(FORMAT).mode("append").options(**options, **kind.options, **job).save()
    return time.perf_counter() - began


def main() -> None:
    verb, url, topic, rows, size = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
    spark = (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )

    def run(name: str, is_first: bool) -> float:
        if verb == "read":
            source = {"service.url": url, "topic": topic}
            return read(spark, READS[name], source, rows if is_first else None)
        own = {"service.url": url, "topic": topic_of(topic, name)}
        return write(spark, WRITES[name], own, rows, size)

    seconds: dict[str, list[float]] = {name: [] for name in (READS if verb == "read" else WRITES)}
    # In turns, so that other load of the machine meets all; the first starts the Python workers.
    for number in range(ROUNDS + 1):
        for name, counted in seconds.items():
            took = run(name, is_first=not number)
            if number:
                counted.append(took)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
