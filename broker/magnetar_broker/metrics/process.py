"""Metrics of the process, as in Prometheus's libraries: CPU, files, memory, garbage, Python.

The heap of the C library is added: resident memory alone does not distinguish a leak from free
memory.
"""

import ctypes
import os
import resource
from collections.abc import Iterator

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

PROC = "/proc"
DESCRIPTORS = "/dev/fd"


class PortableProcess(Collector):
    """The `process_*` metrics of a system without /proc, such as macOS.

    Present memory is left out: without /proc only its peak can be read.
    """

    def collect(self) -> Iterator[Metric]:
        used = os.times()
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "CPU time of the process, user and system, in seconds.",
            value=used.user + used.system,
        )
        yield GaugeMetricFamily(
            "process_open_fds", "Open file descriptors.", value=len(os.listdir(DESCRIPTORS))
        )
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield GaugeMetricFamily("process_max_fds", "Limit of open file descriptors.", value=soft)


class _Mallinfo2(ctypes.Structure):
    """The result of `mallinfo2` (malloc.h)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


class Heap(Collector):
    """The heap of the C library, which holds buffers, payloads and large tables.

    There are no metrics unless the library is glibc 2.33 or later.  The heap counted is the one
    that all threads share, see `server/runtime/allocator.py`.
    """

    def __init__(self) -> None:
        self._mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
        if self._mallinfo2 is not None:
            self._mallinfo2.restype = _Mallinfo2

    def collect(self) -> Iterator[Metric]:
        if self._mallinfo2 is None:
            return
        info = self._mallinfo2()
        yield GaugeMetricFamily(
            "process_heap_used_bytes",
            "Bytes of the C library's heap that are in use.",
            value=info.uordblks,
        )
        yield GaugeMetricFamily(
            "process_heap_free_bytes",
            "Bytes of the C library's heap that are free, resident or not.",
            value=info.fordblks,
        )


def process_registry(proc: str = PROC) -> CollectorRegistry:
    """Return collectors for this process; `proc` is Linux's directory of processes."""
    registry = CollectorRegistry()
    if os.path.exists(os.path.join(proc, "self", "stat")):
        ProcessCollector(proc=proc, registry=registry)
    else:
        registry.register(PortableProcess())
    registry.register(Heap())
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
