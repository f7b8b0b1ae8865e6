"""Benchmarks the Spark source and sink, in separate jobs."""

import json
import os
import subprocess
import sys
from statistics import median
from typing import Final

from bench.frames import Shape, encode_load
from bench.scenarios import FILL_FACTOR, Trial, fill
from bench.servers import ROOT
from bench.spark_job import WRITES, topic_of
from bench.usage import Measures

LIMIT_SECONDS = 600
RATES: Final = {
    "value": "msg_per_s",
    "all": "all_columns_per_s",
    "dedup": "dedup_per_s",
    "txn": "transaction_per_s",
}
"""The measure of each kind of read or write."""


def reads(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Read a backlog as a batch job: the value alone, and all metadata columns."""
    load = trial.load(shape, messages // shape.batch)
    stored = fill(trial, trial.topic, load, trial.seconds * FILL_FACTOR)
    return _rates(trial, "read", shape, stored * shape.batch)


def writes(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Write rows that the JVM makes: values; keys and properties too; and exactly once."""
    for kind in WRITES:
        topic = topic_of(trial.topic, kind)
        fill(trial, topic, encode_load(shape, 0), trial.seconds)
        if kind == "dedup":
            trial.server.deduplicate(topic)
    return _rates(trial, "write", shape, trial.scaled(messages))


def _rates(trial: Trial, verb: str, shape: Shape, rows: int) -> Measures:
    """Return the rows per second of each kind, computed from the seconds that the job prints."""
    arguments = [verb, trial.server.url, trial.topic, str(rows), str(shape.size)]
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        run = subprocess.run(
            [sys.executable, "-m", "bench.spark_job", *arguments],
            stdout=subprocess.PIPE,
            check=True,
            timeout=LIMIT_SECONDS,
            cwd=ROOT,
            env=os.environ | environment,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"the Spark job failed: {error}") from error
    seconds: dict[str, list[float]] = json.loads(run.stdout.splitlines()[-1])
    return {RATES[kind]: rows / median(took) for kind, took in seconds.items()}
