"""Source and sink where tasks run in other processes than the driver's: two executors."""

import json
import os
import subprocess
import sys
from pathlib import Path

from running_broker import RunningBroker
from spark.source_driver import new_topic

JOB = Path(__file__).with_name("cluster_job.py")
ROWS = 1000


def test_two_executors_write_copy_and_read(
    broker: RunningBroker, tmp_path: Path, spark_home: Path
) -> None:
    arguments = [broker.service_url, new_topic(), str(tmp_path / "checkpoint"), str(ROWS)]
    run = subprocess.run(
        [sys.executable, str(JOB), *arguments],
        env={**os.environ, "SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert sorted(map(int, found["values"])) == list(range(ROWS))
