"""A program that names no Python for its workers, in an environment that names none either.

python unset_python_job.py import-first|import-later SERVICE_URL TOPIC

It prints JSON: how many rows it wrote and read; or the messages of a query, and then of the import
of the connector, that failed.
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    order, service_url, topic = sys.argv[1:4]
    found = first(service_url, topic) if order == "import-first" else later(service_url, topic)
    print(json.dumps(found))


def session() -> SparkSession:
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()


def first(service_url: str, topic: str) -> dict[str, int]:
    import pyspark_magnetar  # noqa: F401 (the order is what matters)

    spark, broker = session(), {"service.url": service_url, "topic": topic}
    values = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    values.write.format("pulsar").mode("append").options(**broker).save()
    return {"rows": spark.read.format("pulsar").options(**broker).load().count()}


def later(service_url: str, topic: str) -> dict[str, str]:
    spark, failures = session(), {}
    try:
        spark.read.format("pulsar").options(**{"service.url": service_url}, topic=topic).load()
    except Exception as error:  # of py4j: Spark has no class of its own for it
        failures["query"] = str(error)
    try:
        import pyspark_magnetar  # noqa: F401 (the order is what matters)
    except RuntimeError as error:
        failures["import"] = str(error)
    return failures


if __name__ == "__main__":
    main()
