"""Metrics of the process, named as in Prometheus's libraries: CPU, files, memory, garbage, Python.

The heap of the C library is added: resident memory alone does not distinguish a leak from free
memory.  Prometheus's library for Python is not used: with what it imports, it takes 3 MB.
"""

import ctypes
import gc
import os
import platform
import resource
from collections.abc import Iterator
from functools import cache
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from magnetar_broker.metrics.text import Row, labels_of, table

PROC = "/proc"
DESCRIPTORS = "/dev/fd"


class ProcessFigures(NamedTuple):
    """The figures of this process.

    A system without /proc, such as macOS, has only the peak of the resident memory; figures that it
    lacks are None.
    """

    cpu: float
    open_files: int
    max_files: float
    virtual: int | None = None
    resident: int | None = None
    started: float | None = None


PROCESS_ROWS: tuple[Row, ...] = (
    Row("virtual_memory_bytes", "Virtual memory size in bytes.", attrgetter("virtual")),
    Row("resident_memory_bytes", "Resident memory size in bytes.", attrgetter("resident")),
    Row("start_time_seconds", "Start of the process in seconds since 1970.",
        attrgetter("started")),
    Row("cpu_seconds_total", "CPU time of the process, user and system, in seconds.",
        attrgetter("cpu")),
    Row("open_fds", "Open file descriptors.", attrgetter("open_files")),
    Row("max_fds", "Limit of open file descriptors.", attrgetter("max_files")),
)  # fmt: skip
HEAP_ROWS: tuple[Row, ...] = (
    Row("heap_used_bytes", "Bytes of the C library's heap that are in use.",
        attrgetter("uordblks")),
    Row("heap_free_bytes", "Bytes of the C library's heap that are free, resident or not.",
        attrgetter("fordblks")),
)  # fmt: skip
INFO_ROW = Row("python_info", "The interpreter.", lambda _: 1)
GARBAGE_ROWS: tuple[Row, ...] = (
    Row("objects_collected_total", "Objects that the garbage collector freed; by generation.",
        itemgetter("collected")),
    Row("objects_uncollectable_total", "Garbage that it cannot free; by generation.",
        itemgetter("uncollectable")),
    Row("collections_total", "Collections of garbage; by generation.", itemgetter("collections")),
)  # fmt: skip


class _Mallinfo2(ctypes.Structure):
    """The result of `mallinfo2` (malloc.h)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


def process_part(cluster: str, proc: str = PROC) -> bytes:
    """Return the metrics of this process; call it in a thread, because it reads files.

    `proc` is Linux's directory of processes.
    """
    return b"".join(_parts(cluster, proc))


def _parts(cluster: str, proc: str) -> Iterator[bytes]:
    labels = labels_of({"cluster": cluster})
    yield from table("process_", PROCESS_ROWS, [(labels, _figures(proc))])
    heap = _heap()
    if heap is not None:
        yield from table("process_", HEAP_ROWS, [(labels, heap)])
    version = dict(zip(("major", "minor", "patchlevel"), platform.python_version_tuple(),
                       strict=True))  # fmt: skip
    known = {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        **version,
    }
    yield from table("", (INFO_ROW,), [(f"{labels_of(known)},{labels}", None)])
    generations = [
        (f'generation="{number}",{labels}', counts) for number, counts in enumerate(gc.get_stats())
    ]
    yield from table("python_gc_", GARBAGE_ROWS, generations)


def _figures(proc: str) -> ProcessFigures:
    used = os.times()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = inf if soft == resource.RLIM_INFINITY else soft
    cpu, process = used.user + used.system, Path(proc, "self")
    if not (process / "stat").exists():
        return ProcessFigures(cpu, len(os.listdir(DESCRIPTORS)), limit)
    # The third field and those after it: they follow the name, which may contain blanks.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return ProcessFigures(
        cpu,
        len(os.listdir(process / "fd")),
        limit,
        virtual=int(fields[20]),
        resident=int(fields[21]) * resource.getpagesize(),
        started=_booted(proc) + int(fields[19]) / os.sysconf("SC_CLK_TCK"),
    )


@cache
def _booted(proc: str) -> int:
    """Return the time at which the system was started, in seconds since 1970."""
    lines = Path(proc, "stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))


def _heap() -> Any:
    """Return the C library's figures of its heap; None unless it is glibc 2.33 or later.

    The heap counted is the one that all threads share, see `server/runtime/allocator.py`.
    """
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    return mallinfo2()
