"""How long the disk takes to make a little data durable; `python -m bench.probe` for several files.

Several workers have a journal each: the command shows how their syncs add up on one disk.
"""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import quantiles

import click

APPENDED_BYTES = 16 * 1024
REUSED_BLOCKS = 1024
"""A journal's file is written again and again, so its blocks exist."""


def probe_sync(directory: Path, times: int) -> dict[str, float]:
    """Median and 99th percentile, in milliseconds, of an append with fdatasync."""
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


def rewrite(path: Path, seconds: float) -> list[float]:
    """Write existing blocks one after the other, each with a sync, as a journal does.

    Returns the milliseconds of each.
    """
    block, taken_ms, at = os.urandom(APPENDED_BYTES), list[float](), 0
    path.write_bytes(bytes(APPENDED_BYTES * REUSED_BLOCKS))
    fd = os.open(path, os.O_WRONLY | os.O_DSYNC)
    try:
        os.fsync(fd)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            os.pwrite(fd, block, at % REUSED_BLOCKS * APPENDED_BYTES)
            taken_ms.append((time.perf_counter() - began) * 1000)
            at += 1
    finally:
        os.close(fd)
        path.unlink()
    return taken_ms


@click.command()
@click.option(
    "--files", default="1,2,4,8", show_default=True, help="How many, separated by commas."
)
@click.option("--seconds", default=5.0, show_default=True, help="For each number of files.")
@click.option("--dir", "parent", default=".", type=click.Path(path_type=Path, file_okay=False))
def main(files: str, seconds: float, parent: Path) -> None:
    """Synced writes of 16 KiB to several files at a time, each by a thread of its own."""
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        for count in map(int, files.split(",")):
            paths = [Path(directory) / f"journal-{number}" for number in range(count)]
            with ThreadPoolExecutor(count) as threads:
                taken = list(threads.map(partial(rewrite, seconds=seconds), paths))
            every = [one for each in taken for one in each]
            percentiles = quantiles(every, n=100)
            click.echo(
                f"{count} files: {len(every) / seconds:,.0f} writes/s in all, "
                f"p50 {percentiles[49]:.2f} ms, p99 {percentiles[98]:.2f} ms"
            )


if __name__ == "__main__":
    main()
