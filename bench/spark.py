"""Benchmark of the Spark source and sink, Magnetar's and Kafka's, each with its own broker."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Timer
from typing import IO, Any, Final

from bench.connection import SUBSCRIPTION
from bench.frames import Shape
from bench.kafka import KafkaDialect, topic_of
from bench.maven import class_path, version_in
from bench.peers import CACHE
from bench.publishing import Publisher
from bench.scenarios import FILL_FACTOR, Trial
from bench.servers import ROOT
from bench.spark_connectors import KAFKA, MAGNETAR, Connector, topic_of_kind
from bench.usage import Measures, PerProcess, is_python

ROUNDS = 3
LIMIT_SECONDS = 600
SETTLING_SECONDS = 5
WARM_UP_BATCHES = 10
KAFKA_POM: Final = Path(__file__).with_name("spark_kafka.pom.xml")
KAFKA_CLASS_PATH: Final = CACHE / "kafka" / f"classpath-spark-{version_in(KAFKA_POM, 'spark')}"
RATES: Final = {
    "value": "msg_per_s",
    "all": "all_columns_per_s",
    "one_batch": "one_batch_per_s",
    "one_batch_all": "one_batch_all_per_s",
    "dedup": "dedup_per_s",
    "txn": "transaction_per_s",
}
"""The measure of each kind of read or write."""
PLANNING = ("latestOffset", "getBatch", "queryPlanning")
"""The phases of a micro-batch in which the source is asked what to read."""


def writes(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Write rows of one column, then with what else a message has.

    Magnetar's sink also writes exactly once, by deduplication and in transactions.  The first run
    is not counted.  The JVM makes the rows, on the same processors.
    """
    rows = max(10_000, int(messages * trial.scale))
    for kind in connector_of(trial).writes:
        fill(trial, topic_of_kind(trial.topic, kind), shape, 0)
        if kind == "dedup":
            trial.server.deduplicate(topic_of_kind(trial.topic, kind))
    return _rates(trial, "bench.spark_job", rows, shape.size)


def reads(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Read a backlog of batches, once with the value alone and once with all metadata columns.

    The first run of each is not counted.  Rows arrive in the JVM, which drops them.  With
    Magnetar's source also from one record batch that is handed over again and again, which is
    Spark's own part.
    """
    entries = max(100, int(messages * trial.scale) // shape.batch)
    stored = fill(trial, trial.topic, shape, entries)
    return _rates(trial, "bench.spark_read_job", stored * shape.batch)


def idles(trial: Trial, shape: Shape, batches: int) -> Measures:
    """Micro-batches of one message each, and then the CPU that query and server use without any.

    The first micro-batches are not counted.
    """
    count = WARM_UP_BATCHES + max(2, int(batches * trial.scale))
    fill(trial, trial.topic, shape, count)
    with _running(trial, "bench.spark_idle_job", count) as (pid, printed):
        time.sleep(SETTLING_SECONDS)
        query, server = PerProcess(pid), PerProcess(trial.server.pid)
        time.sleep(trial.seconds)
        used = {
            "query_percent": query.percent(),
            "query_python_percent": query.percent(is_python),
            "idle_percent": server.percent(),
        }
    return _phases(printed["phases"], printed["read"]) | used


def connector_of(trial: Trial) -> Connector:
    """The one that speaks to the server."""
    return KAFKA if isinstance(trial.dialect, KafkaDialect) else MAGNETAR


def fill(trial: Trial, topic: str, shape: Shape, entries: int) -> int:
    """Create a topic that is kept, and publish so many entries; how many were stored in time."""
    load = trial.dialect.encode_load(topic, shape, entries)

    async def work() -> Measures:
        async with trial.dialect.connected(trial.server.port) as link:
            # A topic without subscriptions would be deleted, with its policy, before it is used.
            await trial.dialect.open_consumer(link, topic, SUBSCRIPTION)
            await trial.dialect.open_producer(link, topic, shape)
            return {"stored": await Publisher(link).publish(load, trial.seconds * FILL_FACTOR)}

    return int(trial.run(work)["stored"])


def _phases(phases: list[dict[str, int]], read: list[float]) -> Measures:
    """Medians of micro-batches, and of what the tasks of Magnetar's source took to read."""
    counted = phases[WARM_UP_BATCHES:]
    planned = median(sum(one.get(phase, 0) for phase in PLANNING) for one in counted)
    measures = {
        "batch_ms": median(one["triggerExecution"] for one in counted),
        "planned_ms": planned,
    }
    if not read:
        return measures
    read_ms = median(read[WARM_UP_BATCHES:])
    return measures | {"read_ms": read_ms, "source_ms": planned + read_ms}


def _rates(trial: Trial, job: str, rows: int, *arguments: int) -> Measures:
    """Rows a second of each kind, from the seconds that a job prints at its end."""
    try:
        run = subprocess.run(
            _command(trial, job, rows, *arguments, ROUNDS),
            stdout=subprocess.PIPE,
            check=True,
            timeout=LIMIT_SECONDS,
            cwd=ROOT,
            env=_environment(trial),
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{job} failed: {error}") from error
    seconds: dict[str, list[float]] = json.loads(run.stdout.splitlines()[-1])
    return {RATES[kind]: rows / median(took) for kind, took in seconds.items()}


@contextmanager
def _running(trial: Trial, job: str, *arguments: int) -> Iterator[tuple[int, Any]]:
    """A job that has printed a line of JSON and goes on until this ends: its process and the line.

    RuntimeError if it ended instead.
    """
    process = subprocess.Popen(
        _command(trial, job, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=_environment(trial),
    )
    limit = Timer(LIMIT_SECONDS, process.kill)
    limit.start()
    with process:
        try:
            assert process.stdin is not None and process.stdout is not None
            yield process.pid, _printed(process.stdout, job)
            process.stdin.close()
            process.wait()
        finally:
            process.kill()
            limit.cancel()
    if process.returncode:
        raise RuntimeError(f"{job} ended with {process.returncode}")


def _printed(output: IO[bytes], job: str) -> Any:
    line = output.readline()
    if not line:
        raise RuntimeError(f"{job} ended before it had read all messages")
    return json.loads(line)


def _command(trial: Trial, job: str, *arguments: int) -> list[str]:
    connector = connector_of(trial)
    topic = topic_of(trial.topic).decode() if connector is KAFKA else trial.topic
    where = (connector.format, str(trial.server.port), topic)
    return [sys.executable, "-m", job, *where, *map(str, arguments)]


def _environment(trial: Trial) -> dict[str, str]:
    found = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if connector_of(trial) is KAFKA:
        jars = class_path(KAFKA_POM, KAFKA_CLASS_PATH)
        found["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jars} pyspark-shell"
    return found
