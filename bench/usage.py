"""CPU and memory of a server's processes during a measurement."""

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = 1 << 20
Measures = dict[str, float]
"""The measures by name; `bench.results` has a line for each name."""


@dataclass(frozen=True)
class Memory:
    """The memory of a process and its children, in MiB."""

    peak: float
    """The most resident memory since `forget_peak`."""
    rss: float
    pss: float
    """The resident memory, with pages that are mapped more than once counted once."""


def family(pid: int) -> list[psutil.Process]:
    """Return a process with its children."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its children, all threads, since their start."""
    times = [process.cpu_times() for process in family(pid)]
    return sum(each.user + each.system for each in times)


def memory(pid: int) -> Memory:
    """Return the present memory of a process and its children."""
    peak = rss = pss = 0.0
    for process in family(pid):
        full = process.memory_full_info()
        rss, pss = rss + full.rss, pss + full.pss
        peak += _peak_bytes(process.pid)
    return Memory(peak / MIB, rss / MIB, pss / MIB)


def forget_peak(pid: int) -> None:
    """Reset the peak of resident memory."""
    for process in family(pid):
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


class Meter:
    """Measures the usage of a process from the meter's creation until `stop`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        forget_peak(pid)
        self._own = time.process_time()
        self._cpu = cpu_seconds(pid)
        self.began = time.perf_counter()

    def stop(self, messages: int) -> Measures:
        """Return the cost of `messages` messages; raise RuntimeError if there were none."""
        if not messages:
            raise RuntimeError("no message was handled in the time of the measurement")
        seconds = time.perf_counter() - self.began
        own = time.process_time() - self._own
        cpu = cpu_seconds(self._pid) - self._cpu
        return {
            "messages": messages,
            "seconds": seconds,
            "msg_per_s": messages / seconds,
            "cpu_us": cpu / messages * 1e6,
            "peak_mib": memory(self._pid).peak,
            "client_percent": own / seconds * 100,
        }
