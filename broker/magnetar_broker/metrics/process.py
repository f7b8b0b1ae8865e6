"""The process itself, as Prometheus's libraries measure it: CPU, files, memory, garbage, Python."""

import os
import resource
from collections.abc import Iterator

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

PROC = "/proc"
DESCRIPTORS = "/dev/fd"


class PortableProcess(Collector):
    """`process_*` metrics where there is no /proc, as on macOS.

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


def process_registry(proc: str = PROC) -> CollectorRegistry:
    """Collectors for this process; `proc` is where Linux describes processes."""
    registry = CollectorRegistry()
    if os.path.exists(os.path.join(proc, "self", "stat")):
        ProcessCollector(proc=proc, registry=registry)
    else:
        registry.register(PortableProcess())
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
