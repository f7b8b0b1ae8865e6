"""The job that `bench.spark` measures: prints the seconds of each of its writes as JSON.

python -m bench.spark_job FORMAT PORT TOPIC ROWS BYTES ROUNDS
"""

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession

from bench.spark_connectors import CONNECTORS, Write, topic_of_kind


def write(
    numbers: DataFrame, kind: Write, size: int, connector: str, options: dict[str, str]
) -> float:
    """The seconds that it takes to write a row for each number."""
    rows = numbers.selectExpr(*(column.format(size=size) for column in kind.columns))
    began = time.perf_counter()
    rows.write.format(connector).mode("append").options(**options).save()
    return time.perf_counter() - began


def main() -> None:
    connector, topic = CONNECTORS[sys.argv[1]], sys.argv[3]
    port, count, size, rounds = (int(sys.argv[at]) for at in (2, 4, 5, 6))
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    numbers = spark.range(0, count, 1, 2)
    seconds: dict[str, list[float]] = {kind: [] for kind in connector.writes}
    # Turns, so that all meet what else the machine does; the first starts the workers.
    for number in range(rounds + 1):
        for name, kind in connector.writes.items():
            run = f"{topic}-{number}"
            own = {option: value.format(run=run) for option, value in kind.options.items()}
            options = {**connector.sink(port, topic_of_kind(topic, name)), **own}
            took = write(numbers, kind, size, connector.format, options)
            if number:
                seconds[name].append(took)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
