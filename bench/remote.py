"""Publishing to a broker whose data is in a server of S3 and in etcd, beside one with a disk."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.frames import Shape
from bench.scenarios import Trial, latency, publish
from bench.servers import ROOT
from bench.usage import Measures

LATENCY_PART = 4
"""The fraction of the load, 1/4, that is published evenly for the latency."""


def remote(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish to a data directory, then as much to shared stores, and evenly to a consumer."""
    server, here = trial.server, replace(trial, topic=f"{trial.topic}-here")
    local = publish(here, shape, entries)
    with shared_stores() as settings:
        server.configure(settings)
        server.restart()
        measures = publish(trial, shape, entries)
        evenly = latency(
            replace(trial, topic=f"{trial.topic}-evenly"), shape, entries // LATENCY_PART
        )
        server.stop()  # while its stores are there
    return (
        measures
        | {name: evenly[name] for name in ("p50_ms", "p99_ms", "p999_ms")}
        | {"local_per_s": local["msg_per_s"]}
    )


@contextmanager
def shared_stores() -> Iterator[dict[str, str]]:
    """Run empty stores, and yield a broker's settings; RuntimeError if they cannot be run."""
    with (
        TemporaryDirectory(prefix="bench-stores-") as directory,
        subprocess.Popen(
            [sys.executable, "-m", "remote_data", str(Path(directory)), "etcd"],
            cwd=ROOT / "tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("{"):
                raise RuntimeError(f"the stores cannot be run: {line.strip() or 'see above'}")
            settings: dict[str, str] = json.loads(line)
            yield settings
        finally:
            process.stdin.close()  # it ends its servers then
            process.wait()
