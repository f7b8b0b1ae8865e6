"""The time that the disk takes to make a little data durable."""

import os
import time
from pathlib import Path
from statistics import quantiles

APPENDED_BYTES = 16 * 1024


def probe_sync(directory: Path, times: int) -> dict[str, float]:
    """Return median and 99th percentile, in milliseconds, of an append with fdatasync."""
    path = directory / "probe"
    block = os.urandom(APPENDED_BYTES)
    taken_ms = []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(fd, block)
            os.fdatasync(fd)
            taken_ms.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(fd)
        path.unlink()
    percentiles = quantiles(taken_ms, n=100)
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98]}
