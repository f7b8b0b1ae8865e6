"""The job that `bench.spark` measures: prints the seconds of each of its reads as JSON.

python -m bench.spark_read_job FORMAT PORT TOPIC ROWS ROUNDS
"""

import json
import sys
import time

from pyspark.sql import SparkSession

from bench.spark_connectors import CONNECTORS, Read
from bench.spark_one_batch import OneBatchSource

TASKS = 2


def read(
    spark: SparkSession, kind: Read, connector: str, options: dict[str, str], rows: int
) -> float:
    """The seconds that it takes to read all rows."""
    if kind.is_of_one_batch:
        connector = OneBatchSource.name()
        options = {**options, "rows": str(rows), "tasks": str(TASKS)}
    began = time.perf_counter()
    found = (
        spark.read.format(connector)
        .options(**options, **kind.options)
        .option("minPartitions", TASKS)
        .load()
        .select(*kind.columns)
    )
    found.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    if (count := found.count()) != rows:
        raise SystemExit(f"{count} rows of {rows} were read")
    return took


def main() -> None:
    connector, topic = CONNECTORS[sys.argv[1]], sys.argv[3]
    port, rows, rounds = (int(sys.argv[at]) for at in (2, 4, 5))
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.dataSource.register(OneBatchSource)
    options = connector.source(port, topic)
    seconds: dict[str, list[float]] = {kind: [] for kind in connector.reads}
    # Turns, so that all meet what else the machine does; the first starts the workers.
    for number in range(rounds + 1):
        for name, kind in connector.reads.items():
            took = read(spark, kind, connector.format, options, rows)
            if number:
                seconds[name].append(took)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
