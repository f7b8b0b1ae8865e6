"""Catch-up reading of ledgers that are only in a server of S3, beside the same from local files."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.frames import Shape
from bench.scenarios import Trial, consume_backlog, fill_backlog
from bench.servers import ROOT, await_true, free_port, request
from bench.usage import Measures

BUCKET, KEY, SECRET = "bench", "bench-key", "bench-secret"
READ_BYTES = "brk_ledgeroffloader_read_bytes"
THRESHOLD = "/admin/v2/namespaces/public/default/offloadThreshold"
SETTINGS = {
    "managedLedgerOffloadDriver": "aws-s3",
    "s3ManagedLedgerOffloadBucket": BUCKET,
    "s3ManagedLedgerOffloadRegion": "us-east-1",
    "s3ManagedLedgerOffloadCredentialId": KEY,
    "s3ManagedLedgerOffloadCredentialSecret": SECRET,
    "managedLedgerOffloadDeletionLagMs": "0",
    "retentionCheckIntervalInSeconds": "1",
}


class ObjectServer:
    """versitygw, the server of S3 that the tests build with Go; it logs every request."""

    def __init__(self, directory: Path, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._log = directory / "access.log"

    def gets(self) -> int:
        """Return the number of requests so far that read an object."""
        return sum("s3_GetObject" in line for line in self._log.read_text().splitlines())


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """Run an empty server; CalledProcessError if it cannot be built."""
    program = subprocess.run(
        [sys.executable, "-c", "import object_servers as s; print(s.built_versitygw())"],
        cwd=ROOT / "tests",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    port = free_port()
    with TemporaryDirectory(prefix="bench-objects-") as temporary:
        directory = Path(temporary)
        (directory / "objects" / BUCKET).mkdir(parents=True)
        log = ["--access-log", str(directory / "access.log")]
        where = ["--port", f"127.0.0.1:{port}", "posix", str(directory / "objects")]
        with subprocess.Popen(
            [program, "--quiet", *log, *where],
            env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                await_true(lambda: _answers(port), "serving objects")
                yield ObjectServer(directory, port)
            finally:
                process.terminate()


def _answers(port: int) -> bool:
    try:
        request(port, "GET", "/")
    except OSError:
        return False
    return True


def offloaded(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Consume a backlog from local files, then an equal one that is only in a server of S3."""
    server, here = trial.server, replace(trial, topic=f"{trial.topic}-here")
    with object_server() as objects:
        endpoint = {"s3ManagedLedgerOffloadServiceEndpoint": objects.endpoint}
        server.configure(SETTINGS | endpoint)
        server.restart()
        local = consume_backlog(here, shape, fill_backlog(here, shape, entries))
        stored = fill_backlog(trial, shape, entries)
        _offload(trial)
        # Again, so that the store is not read from memory.
        server.restart()
        read_bytes, gets, began = _read_bytes(trial), objects.gets(), time.perf_counter()
        measures = consume_backlog(trial, shape, stored)
        seconds = time.perf_counter() - began
        gigabytes = (_read_bytes(trial) - read_bytes) / 1e9
        requests = objects.gets() - gets
        server.stop()  # while its store of objects is there
    return measures | {
        "local_per_s": local["msg_per_s"],
        "cold_gb_per_s": gigabytes / seconds,
        "requests_per_gb": requests / gigabytes,
    }


def _offload(trial: Trial) -> None:
    """Wait until the closed ledgers of the topic are offloaded, and deleted from the disk."""
    server = trial.server
    status, _ = request(server.http_port, "PUT", THRESHOLD, "0")
    if status != HTTPStatus.NO_CONTENT:
        raise RuntimeError(f"offloading was not switched on: {status}")
    path = f"/admin/v2/{trial.topic.replace('://', '/')}/internalStats"

    def is_moved() -> bool:
        found: dict[str, Any] = json.loads(request(server.http_port, "GET", path)[1])
        full = [one for one in found["ledgers"] if one["entries"]]
        files = {file.name for file in server.data_dir.rglob("*") if file.stat().st_size}
        return bool(full) and all(
            one["offloaded"] and not any(f"{one['ledgerId']:016x}" in name for name in files)
            for one in full
        )

    await_true(is_moved, "only in the store of objects")


def _read_bytes(trial: Trial) -> float:
    """Return the bytes of objects that the broker has read since its start."""
    page = request(trial.server.http_port, "GET", "/metrics/")[1].decode()
    lines = [line for line in page.splitlines() if line.startswith(READ_BYTES)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
