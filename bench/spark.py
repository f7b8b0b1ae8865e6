"""Benchmark of the Spark sink: rows of a job that makes them in Spark, until all have receipts."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

import magnetar
from bench.frames import Shape
from bench.scenarios import Trial
from bench.usage import Measures

JOB = Path(__file__).with_name("spark_job.py")
ROUNDS = 3
LIMIT_SECONDS = 600


def writes(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Write rows of one column, then with key, time and properties too, then exactly once.

    That is by deduplication, and in transactions.  The first run is not counted.  The JVM makes
    the rows, on the same processors.
    """
    rows = max(10_000, int(messages * trial.scale))
    service_url = f"pulsar://127.0.0.1:{trial.server.port}"
    trial.run(partial(_create, service_url, f"{trial.topic}-dedup"))
    trial.server.deduplicate(f"{trial.topic}-dedup")
    command = [sys.executable, str(JOB), service_url, trial.topic]
    run = subprocess.run(
        [*command, str(rows), str(shape.size), str(ROUNDS)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_SECONDS,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    seconds = json.loads(run.stdout.splitlines()[-1])
    return {
        "msg_per_s": rows / median(seconds["value"]),
        "all_columns_per_s": rows / median(seconds["all"]),
        "dedup_per_s": rows / median(seconds["dedup"]),
        "transaction_per_s": rows / median(seconds["txn"]),
    }


async def _create(service_url: str, topic: str) -> Measures:
    async with magnetar.connect(service_url) as client:
        # A topic without subscriptions would be deleted, with its policy, before it is written.
        await client.subscribe(topic, "bench")
    return {}
