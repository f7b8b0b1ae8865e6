"""Benchmark of the Spark sink and source: rows that a job makes in Spark, and rows it reads."""

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

WRITING_JOB = Path(__file__).with_name("spark_job.py")
READING_JOB = Path(__file__).with_name("spark_read_job.py")
ROUNDS = 3
LIMIT_SECONDS = 600
MAX_BATCH_BYTES = 1 << 20


def writes(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Write rows of one column, then with key, time and properties too, then exactly once.

    That is by deduplication, and in transactions.  The first run is not counted.  The JVM makes
    the rows, on the same processors.
    """
    rows = max(10_000, int(messages * trial.scale))
    service_url = f"pulsar://127.0.0.1:{trial.server.port}"
    trial.run(partial(_create, service_url, f"{trial.topic}-dedup"))
    trial.server.deduplicate(f"{trial.topic}-dedup")
    seconds = _run(WRITING_JOB, service_url, trial.topic, rows, shape.size, ROUNDS)
    return {
        "msg_per_s": rows / median(seconds["value"]),
        "all_columns_per_s": rows / median(seconds["all"]),
        "dedup_per_s": rows / median(seconds["dedup"]),
        "transaction_per_s": rows / median(seconds["txn"]),
    }


def reads(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Read a backlog of batches, once with the value alone and once with all metadata columns.

    The first run of each is not counted.  Rows arrive in the JVM, which drops them.
    """
    batches = max(100, int(messages * trial.scale) // shape.batch)
    service_url = f"pulsar://127.0.0.1:{trial.server.port}"

    async def fill() -> Measures:
        async with magnetar.connect(service_url) as client:
            await client.subscribe(trial.topic, "bench")
            limits = magnetar.BatchLimits(shape.batch, MAX_BATCH_BYTES)
            producer = await client.producer(trial.topic, batching=limits)
            value = bytes(shape.size)
            for _ in range(batches):
                await producer.send_batch([value] * shape.batch)
        return {}

    trial.run(fill)
    rows = batches * shape.batch
    seconds = _run(READING_JOB, service_url, trial.topic, rows, ROUNDS)
    return {
        "msg_per_s": rows / median(seconds["none"]),
        "all_columns_per_s": rows / median(seconds["all"]),
    }


def _run(job: Path, *arguments: object) -> dict[str, list[float]]:
    """What a job prints at its end."""
    run = subprocess.run(
        [sys.executable, str(job), *map(str, arguments)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_SECONDS,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    found: dict[str, list[float]] = json.loads(run.stdout.splitlines()[-1])
    return found


async def _create(service_url: str, topic: str) -> Measures:
    async with magnetar.connect(service_url) as client:
        # A topic without subscriptions would be deleted, with its policy, before it is written.
        await client.subscribe(topic, "bench")
    return {}
